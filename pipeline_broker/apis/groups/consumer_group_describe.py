"""ConsumerGroupDescribe (KIP-848): durable epochs, members and assignments of consumer groups.

A group is refused as a whole if it has topics that the client may not describe.
"""

from __future__ import annotations

from collections.abc import Sequence

from pipeline_broker.apis.authorization import authorize_group, authorized_operations, topics_allowed
from pipeline_broker.apis.call import Call
from pipeline_broker.apis.groups.describe_groups import GROUP_COST
from pipeline_broker.apis.steps import Stepwise, in_steps
from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.security.acl import AclOperation, ResourceType
from pipeline_broker.state.groups.consumer.messages import (
    DescribedConsumerGroup,
    DescribedConsumerMember,
    NamedPartitions,
)
from pipeline_broker.wire.messages.groups.consumer_group_describe import (
    ConsumerGroupDescribeAssignment,
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
)
from stages.request import Result

DescribedGroup = ConsumerGroupDescribeResponse.DescribedGroup
CLASSIC_MEMBER, CONSUMER_MEMBER = 0, 1
HIDDEN_TOPICS = "The group has described topic(s) that the client is not authorized to describe."


def handle(call: Call, request: ConsumerGroupDescribeRequest) -> Stepwise[Result]:
    named = dict.fromkeys(request.group_ids)
    groups = yield from in_steps(call, named, lambda group_id: _describe(call, group_id, request), GROUP_COST)
    return (yield from call.send_in_steps(ConsumerGroupDescribeResponse(groups=groups)))


def _describe(call: Call, group_id: str, request: ConsumerGroupDescribeRequest) -> DescribedGroup:
    if not authorize_group(call, AclOperation.DESCRIBE, group_id):
        return _refused(group_id, ErrorCode.GROUP_AUTHORIZATION_FAILED)
    groups = call.broker.groups.coordinator_of_named(group_id)
    if isinstance(groups, ErrorCode):
        return _refused(group_id, groups)
    described = groups.coordinator.consumer.describe(group_id)
    if described.not_found is not None:
        return DescribedGroup(
            error_code=ErrorCode.GROUP_ID_NOT_FOUND, error_message=described.not_found, group_id=group_id
        )
    if not _may_see(call, described):
        return DescribedGroup(
            error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED, error_message=HIDDEN_TOPICS, group_id=group_id
        )
    group = DescribedGroup(
        group_id=group_id,
        group_state=described.state,
        group_epoch=described.epoch,
        assignment_epoch=described.assignment_epoch,
        assignor_name=described.assignor,
        members=[_member(member) for member in described.members],
    )
    if request.include_authorized_operations:
        group.authorized_operations = authorized_operations(call, ResourceType.GROUP, group_id)
    return group


def _may_see(call: Call, described: DescribedConsumerGroup) -> bool:
    may_describe = topics_allowed(call, AclOperation.DESCRIBE)
    return all(
        may_describe(name)
        for member in described.members
        for name in (*member.topic_names, *(name for _, name, _ in (*member.assignment, *member.target)))
    )


def _member(member: DescribedConsumerMember) -> ConsumerGroupDescribeResponse.Member:
    return ConsumerGroupDescribeResponse.Member(
        member_id=member.member_id,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        member_epoch=member.member_epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=list(member.topic_names),
        subscribed_topic_regex=member.topic_regex,
        assignment=_assignment(member.assignment),
        target_assignment=_assignment(member.target),
        member_type=CLASSIC_MEMBER if member.is_classic else CONSUMER_MEMBER,
    )


def _assignment(partitions: Sequence[NamedPartitions]) -> ConsumerGroupDescribeAssignment:
    return ConsumerGroupDescribeAssignment(
        [
            ConsumerGroupDescribeResponse.TopicPartitions(topic_id, name, list(numbers))
            for topic_id, name, numbers in partitions
        ]
    )


def _refused(group_id: str, code: ErrorCode) -> DescribedGroup:
    return DescribedGroup(error_code=code, group_id=group_id)


def error_response(request: ConsumerGroupDescribeRequest, call: Call, code: ErrorCode) -> ConsumerGroupDescribeResponse:
    return ConsumerGroupDescribeResponse(
        groups=[DescribedGroup(error_code=code, group_id=group_id) for group_id in request.group_ids]
    )
