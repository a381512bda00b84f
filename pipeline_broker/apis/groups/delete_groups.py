"""DeleteGroups: deletes empty groups with their offsets."""

from __future__ import annotations

from collections.abc import Mapping

from pipeline_broker.apis.authorization import authorize_group
from pipeline_broker.apis.call import Call
from pipeline_broker.apis.steps import Stepwise
from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.broker.appended import in_one_commit
from pipeline_broker.security.acl import AclOperation
from pipeline_broker.wire.messages.groups.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from stages.request import NO_OP, Final, Pending, Result

# Groups deleted in one turn: about 2 ms of work.
DELETED_IN_A_TURN = 100


def handle(call: Call, request: DeleteGroupsRequest) -> Result | Stepwise[Result]:
    names = dict.fromkeys(request.groups_names)
    allowed = [name for name in names if authorize_group(call, AclOperation.DELETE, name)]
    errors = dict.fromkeys(names, ErrorCode.GROUP_AUTHORIZATION_FAILED)
    if len(allowed) > DELETED_IN_A_TURN:
        return _delete_in_steps(call, allowed, errors)
    deleted = _delete(call, allowed, errors)
    answer = call.send(_response(errors))
    return Pending(deleted.entries, answer, deleted.on_durable) if isinstance(deleted, Pending) else answer


def _delete_in_steps(call: Call, names: list[str], errors: dict[str, ErrorCode]) -> Stepwise[Result]:
    for first in range(0, len(names), DELETED_IN_A_TURN):
        deleted = _delete(call, names[first : first + DELETED_IN_A_TURN], errors)
        yield deleted if isinstance(deleted, Pending) else None
    return (yield from call.send_in_steps(_response(errors)))


def _delete(call: Call, names: list[str], errors: dict[str, ErrorCode]) -> Pending | Final:
    """Delete some groups and write their errors to `errors`; return a `Pending` if the deletion must become durable."""
    groups, share = call.broker.groups, call.broker.share
    now_ms = groups.time(call.now_ms)
    found, outcome = groups.coordinator.delete(names, now_ms)
    errors.update(found)
    deleted = groups.answer_when_durable(outcome, now_ms, NO_OP)
    if not share.is_used:
        return deleted
    states = share.forget_groups([name for name, error in found.items() if error is ErrorCode.NONE], now_ms)
    return in_one_commit(states, deleted, NO_OP)


def _response(errors: Mapping[str, ErrorCode]) -> DeleteGroupsResponse:
    return DeleteGroupsResponse(
        results=[DeleteGroupsResponse.DeletableGroupResult(group_id, code) for group_id, code in errors.items()]
    )


def error_response(
    request: DeleteGroupsRequest,
    call: Call,
    code: ErrorCode,
) -> DeleteGroupsResponse:
    return _response(dict.fromkeys(request.groups_names, code))
