"""ListGroups: the groups, all or those of some states (version 4) and types (version 5)."""

from __future__ import annotations

from pipeline_broker.apis.authorization import may_of_cluster, may_of_group
from pipeline_broker.apis.call import Call
from pipeline_broker.apis.steps import Stepwise
from pipeline_broker.security.acl import AclOperation
from pipeline_broker.wire.messages.groups.list_groups import ListGroupsRequest, ListGroupsResponse
from stages.request import Result


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
