"""DescribeShareGroupOffsets: the durable start offsets and lags of share groups."""

from __future__ import annotations

from collections.abc import Iterable

from pipeline_broker.apis.authorization import authorize_group, authorize_topic
from pipeline_broker.apis.call import Call
from pipeline_broker.apis.refusals import REFUSAL_TEXTS
from pipeline_broker.apis.steps import ELEMENT_COST, Stepwise, everything, in_steps
from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.security.acl import AclOperation
from pipeline_broker.state.share_coordinator.records import ShareKey
from pipeline_broker.wire.messages.share.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsResponse,
)
from stages.request import Result

WantedGroup = DescribeShareGroupOffsetsRequest.Group
Group = DescribeShareGroupOffsetsResponse.Group
Topic = DescribeShareGroupOffsetsResponse.Topic
Partition = DescribeShareGroupOffsetsResponse.Partition
UNKNOWN = -1


def handle(call: Call, request: DescribeShareGroupOffsetsRequest) -> Stepwise[Result]:
    groups = []
    for wanted in request.groups:
        groups += [(yield from _group(call, wanted))]
    return (yield from call.send_in_steps(DescribeShareGroupOffsetsResponse(groups=groups)))


def _group(call: Call, wanted: WantedGroup) -> Stepwise[Group]:
    if call.spend(ELEMENT_COST):
        yield None
    if not authorize_group(call, AclOperation.DESCRIBE, wanted.group_id):
        return _refused(wanted.group_id, ErrorCode.GROUP_AUTHORIZATION_FAILED)
    groups = call.broker.groups.coordinator_of(wanted.group_id)
    if isinstance(groups, ErrorCode):
        return Group(wanted.group_id, error_code=groups, error_message=REFUSAL_TEXTS.get(groups))
    if wanted.topics is None:
        group = groups.coordinator.share.find(wanted.group_id)
        kept = {} if group is None or group.shown is None else group.shown.initialized
        names = {} if group is None or group.shown is None else group.shown.topic_names
        topics = []
        for topic_id, partitions in (yield from everything(kept.items())):
            name = names[topic_id]
            if authorize_topic(call, AclOperation.DESCRIBE, name, is_logged=False):
                topics.append((yield from _topic(call, wanted.group_id, name, sorted(partitions))))
        return Group(wanted.group_id, topics)
    topics = []
    for each in wanted.topics:
        if authorize_topic(call, AclOperation.DESCRIBE, each.topic_name):
            topics.append((yield from _topic(call, wanted.group_id, each.topic_name, each.partitions)))
        else:
            topics.append(_refuse_topic(each.topic_name, each.partitions, ErrorCode.TOPIC_AUTHORIZATION_FAILED))
    return Group(wanted.group_id, topics)


def _topic(call: Call, group_id: str, name: str, partitions: Iterable[int]) -> Stepwise[Topic]:
    topic = call.broker.topics.get(name)
    if topic is None:
        return _refuse_topic(name, partitions, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    keys = (ShareKey(group_id, topic.topic_id, index) for index in partitions)
    return Topic(name, topic.topic_id, (yield from in_steps(call, keys, lambda key: _partition(call, key, name))))


def _partition(call: Call, key: ShareKey, name: str) -> Partition:
    summary = call.broker.share.manager.states.summary(key)
    log = call.broker.logs.find(name, key.partition)
    if summary is None or summary.start_offset < 0 or log is None:
        return Partition(partition_index=key.partition, start_offset=UNKNOWN, leader_epoch=0)
    lag = log.high_watermark - summary.start_offset - max(0, summary.delivery_complete_count)
    return Partition(
        partition_index=key.partition,
        start_offset=summary.start_offset,
        leader_epoch=summary.leader_epoch,
        lag=UNKNOWN if summary.delivery_complete_count < 0 else lag,
    )


def _refuse_topic(name: str, partitions: Iterable[int], code: ErrorCode) -> Topic:
    text = REFUSAL_TEXTS.get(code)
    refused = [
        Partition(partition_index=index, start_offset=UNKNOWN, error_code=code, error_message=text)
        for index in partitions
    ]
    return Topic(name, partitions=refused)


def _refused(group_id: str, code: ErrorCode) -> Group:
    return Group(group_id, error_code=code)


def error_response(
    request: DescribeShareGroupOffsetsRequest, call: Call, code: ErrorCode
) -> DescribeShareGroupOffsetsResponse:
    del call
    return DescribeShareGroupOffsetsResponse(groups=[_refused(wanted.group_id, code) for wanted in request.groups])
