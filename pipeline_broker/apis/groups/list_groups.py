"""ListGroups: the groups, all or those of some states (version 4) and types (version 5)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipeline_broker.apis.authorization import may_of_cluster, may_of_group
from pipeline_broker.apis.steps import Stepwise
from pipeline_broker.security.acl import AclOperation
from pipeline_broker.wire.error import ErrorCode
from pipeline_broker.wire.messages.groups.list_groups import ListGroupsRequest, ListGroupsResponse
from stages.request import Result

if TYPE_CHECKING:
    from pipeline_broker.apis.call import Call

__all__ = ["REQUEST", "error_response", "handle"]

REQUEST = ListGroupsRequest


def handle(call: Call, request: ListGroupsRequest) -> Stepwise[Result]:
    """Ask the coordinator."""
    listed = call.broker.groups.coordinator.list_groups(request.states_filter, request.types_filter)
    if not may_of_cluster(call, AclOperation.DESCRIBE, is_logged=False):
        listed = [
            group for group in listed if may_of_group(call, AclOperation.DESCRIBE, group.group_id, is_logged=False)
        ]
    response = ListGroupsResponse(
        groups=[
            ListGroupsResponse.ListedGroup(group.group_id, group.protocol_type, group.state, group.group_type)
            for group in listed
        ]
    )
    return (yield from call.send_in_steps(response))


def error_response(
    request: ListGroupsRequest,
    call: Call,
    code: ErrorCode,
) -> ListGroupsResponse:
    """The response that carries only an error."""
    return ListGroupsResponse(error_code=code)
