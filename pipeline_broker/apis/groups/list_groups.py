"""ListGroups: all groups, or the groups in some states (version 4) and of some types (version 5).

A long list takes several turns.
"""

from __future__ import annotations

from pipeline_broker.apis.authorization import authorize_cluster, authorize_group
from pipeline_broker.apis.call import Call
from pipeline_broker.apis.steps import Stepwise, everything, in_steps
from pipeline_broker.security.acl import AclOperation
from pipeline_broker.wire.messages.groups.list_groups import ListGroupsRequest, ListGroupsResponse
from stages.request import Result

# Groups listed in one turn.
LISTED_AT_ONCE = 100
# Cost of listing one group, about microseconds.
GROUP_COST = 5

ListedGroup = ListGroupsResponse.ListedGroup


def handle(call: Call, request: ListGroupsRequest) -> Stepwise[Result]:
    may_all = authorize_cluster(call, AclOperation.DESCRIBE, is_logged=False)
    # Once, not for each coordinator: a filter may have very many names.
    states = frozenset((yield from in_steps(call, request.states_filter, str.lower)))
    types = frozenset((yield from in_steps(call, request.types_filter, str.lower)))
    listed: list[ListedGroup] = []
    for groups in call.broker.groups:
        group_ids = [group.group_id for group in (yield from everything(groups.coordinator.registry.all_shown()))]
        for start in range(0, len(group_ids), LISTED_AT_ONCE):
            some = group_ids[start : start + LISTED_AT_ONCE]
            listed += [
                ListedGroup(group.group_id, group.protocol_type, group.state, group.group_type)
                for group in groups.coordinator.list_groups(states, types, some)
                if may_all or authorize_group(call, AclOperation.DESCRIBE, group.group_id, is_logged=False)
            ]
            if call.spend(GROUP_COST * len(some)):
                yield None
    return (yield from call.send_in_steps(ListGroupsResponse(groups=listed)))
