"""ShareGroupDescribe: durable epochs, members and assignments of share groups."""

from __future__ import annotations

from functools import partial

from pipeline_broker.apis.authorization import authorize_group, authorize_topic, authorized_operations
from pipeline_broker.apis.call import Call
from pipeline_broker.apis.groups.describe_groups import GROUP_COST
from pipeline_broker.apis.refusals import REFUSAL_TEXTS
from pipeline_broker.apis.steps import Stepwise, in_steps
from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.security.acl import AclOperation, ResourceType
from pipeline_broker.state.groups.share.messages import DescribedMember, DescribedShareGroup, ShareGroupError
from pipeline_broker.wire.messages.share.share_group_describe import (
    ShareGroupDescribeAssignment,
    ShareGroupDescribeRequest,
    ShareGroupDescribeResponse,
)
from stages.request import Result

DescribedGroup = ShareGroupDescribeResponse.DescribedGroup


def handle(call: Call, request: ShareGroupDescribeRequest) -> Stepwise[Result]:
    named = dict.fromkeys(request.group_ids)
    groups = yield from in_steps(call, named, partial(_describe, call, request), GROUP_COST)
    return (yield from call.send_in_steps(ShareGroupDescribeResponse(groups=groups)))


def _describe(call: Call, request: ShareGroupDescribeRequest, group_id: str) -> DescribedGroup:
    if not authorize_group(call, AclOperation.DESCRIBE, group_id):
        return DescribedGroup(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED, group_id=group_id)
    groups = call.broker.groups.coordinator_of_named(group_id)
    if isinstance(groups, ErrorCode):
        text = None if groups is ErrorCode.INVALID_GROUP_ID else REFUSAL_TEXTS.get(groups)
        return DescribedGroup(error_code=groups, error_message=text, group_id=group_id)
    try:
        found = groups.coordinator.share.describe(group_id)
    except ShareGroupError as error:
        return DescribedGroup(error_code=error.code, error_message=str(error), group_id=group_id)
    topics = {name for member in found.members for name in member.topics} | set(found.topic_names.values())
    if not all(authorize_topic(call, AclOperation.DESCRIBE, name) for name in topics):
        code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        text = "The group has described topic(s) that the client is not authorized to describe."
        return DescribedGroup(error_code=code, error_message=text or REFUSAL_TEXTS[code], group_id=group_id)
    group = DescribedGroup(
        group_id=group_id,
        group_state=found.state,
        group_epoch=found.group_epoch,
        assignment_epoch=found.assignment_epoch,
        assignor_name=call.broker.share.manager.config.share_assignor,
        members=[_member(found, member) for member in found.members],
    )
    if request.include_authorized_operations:
        group.authorized_operations = authorized_operations(call, ResourceType.GROUP, group_id)
    return group


def _member(group: DescribedShareGroup, member: DescribedMember) -> ShareGroupDescribeResponse.Member:
    return ShareGroupDescribeResponse.Member(
        member_id=member.member_id,
        rack_id=member.rack_id,
        member_epoch=member.member_epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=list(member.topics),
        assignment=ShareGroupDescribeAssignment(
            [
                ShareGroupDescribeResponse.TopicPartitions(
                    topic_id, group.topic_names.get(topic_id, ""), sorted(partitions)
                )
                for topic_id, partitions in member.assignment.items()
            ]
        ),
    )


def error_response(request: ShareGroupDescribeRequest, call: Call, code: ErrorCode) -> ShareGroupDescribeResponse:
    del call
    return ShareGroupDescribeResponse(
        groups=[DescribedGroup(error_code=code, group_id=group_id) for group_id in request.group_ids]
    )
