"""DeleteGroups: forget empty groups with their offsets; answered when that is durable."""

from __future__ import annotations

from collections.abc import Mapping

from pipeline_broker.apis.authorization import may_of_group
from pipeline_broker.apis.call import Call
from pipeline_broker.broker.appended import in_one_commit
from pipeline_broker.security.acl import AclOperation
from pipeline_broker.wire.error import ErrorCode
from pipeline_broker.wire.messages.groups.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from stages.request import Result


def handle(call: Call, request: DeleteGroupsRequest) -> Result:
    """Ask the coordinator."""
    groups = call.broker.groups
    now_ms = groups.time(call.now_ms)
    allowed = [name for name in request.groups_names if may_of_group(call, AclOperation.DELETE, name)]
    errors, outcome = groups.coordinator.delete(allowed, now_ms)
    forbidden = dict.fromkeys(request.groups_names, ErrorCode.GROUP_AUTHORIZATION_FAILED)
    errors = {**forbidden, **errors}
    answer = call.send(_response(errors))
    share = call.broker.share
    if not share.is_used:
        return groups.answer_when_durable(outcome, now_ms, answer)
    states = share.forget_groups([name for name in allowed if errors[name] is ErrorCode.NONE], now_ms)
    return in_one_commit(states, groups.answer_when_durable(outcome, now_ms, answer), answer)


def _response(errors: Mapping[str, ErrorCode]) -> DeleteGroupsResponse:
    return DeleteGroupsResponse(
        results=[DeleteGroupsResponse.DeletableGroupResult(group_id, code) for group_id, code in errors.items()]
    )


def error_response(
    request: DeleteGroupsRequest,
    call: Call,
    code: ErrorCode,
) -> DeleteGroupsResponse:
    """Every group with the same error."""
    return _response(dict.fromkeys(request.groups_names, code))
