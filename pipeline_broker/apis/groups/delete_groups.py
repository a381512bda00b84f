"""DeleteGroups: deletes empty groups with their offsets."""

from __future__ import annotations

from collections.abc import Mapping

from pipeline_broker.apis.authorization import authorize_group
from pipeline_broker.apis.call import Call
from pipeline_broker.apis.steps import Stepwise
from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.broker.appended import Appended
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
    share, now_ms = call.broker.share, call.broker.groups.time(call.now_ms)
    appended = Appended()
    for name in names:
        groups = call.broker.groups.coordinator_of(name)
        if isinstance(groups, ErrorCode):
            errors[name] = groups
            continue
        found, outcome = groups.coordinator.delete([name], now_ms)
        errors |= found
        if share.is_used and found[name] is ErrorCode.NONE:
            share.forget_group(name, appended, now_ms)
        groups.append(outcome, appended, now_ms)
    return Pending(appended.entries, NO_OP, appended.durable) if appended.entries else NO_OP


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
