"""DescribeGroups: state, protocol and members of groups.

An unknown group is described as Dead, with an error from version 6. A group that is named twice is described once.
"""

from __future__ import annotations

from pipeline_broker.apis.authorization import authorize_group, authorized_operations
from pipeline_broker.apis.call import Call
from pipeline_broker.apis.steps import Stepwise, in_steps
from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.security.acl import AclOperation, ResourceType
from pipeline_broker.wire.messages.groups.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from stages.request import Result

MISSING_IS_ERROR_FROM = 6
# Cost of describing one group, about microseconds.
GROUP_COST = 50

DescribedGroup = DescribeGroupsResponse.DescribedGroup
DescribedGroupMember = DescribeGroupsResponse.DescribedGroupMember


def handle(call: Call, request: DescribeGroupsRequest) -> Stepwise[Result]:
    named = dict.fromkeys(request.groups)
    groups = yield from in_steps(call, named, lambda group_id: _describe(call, group_id, request), GROUP_COST)
    return (yield from call.send_in_steps(DescribeGroupsResponse(groups=groups)))


def _describe(call: Call, group_id: str, request: DescribeGroupsRequest) -> DescribedGroup:
    if not authorize_group(call, AclOperation.DESCRIBE, group_id):
        return DescribedGroup(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED, group_id=group_id)
    groups = call.broker.groups.coordinator_of(group_id)
    if isinstance(groups, ErrorCode):
        return DescribedGroup(error_code=groups, group_id=group_id)
    described = groups.coordinator.describe(group_id)
    group = DescribedGroup(
        group_id=group_id,
        group_state=described.state,
        protocol_type=described.protocol_type,
        protocol_data=described.protocol_name,
        members=[
            DescribedGroupMember(
                member_id=member.member_id,
                group_instance_id=member.group_instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                member_metadata=member.metadata,
                member_assignment=member.assignment,
            )
            for member in described.members
        ],
    )
    if described.not_found is not None and call.version >= MISSING_IS_ERROR_FROM:
        group.error_code = ErrorCode.GROUP_ID_NOT_FOUND
        group.error_message = described.not_found
    elif request.include_authorized_operations:
        group.authorized_operations = authorized_operations(call, ResourceType.GROUP, group_id)
    return group


def error_response(
    request: DescribeGroupsRequest,
    call: Call,
    code: ErrorCode,
) -> DescribeGroupsResponse:
    return DescribeGroupsResponse(
        groups=[DescribedGroup(error_code=code, group_id=group_id) for group_id in request.groups]
    )
