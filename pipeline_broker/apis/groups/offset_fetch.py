"""OffsetFetch: how far a group is, in some partitions or (null) in all; several groups from version 8."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import compress
from operator import not_

from pipeline_broker.apis.authorization import may_of_group, may_of_topic
from pipeline_broker.apis.call import Call
from pipeline_broker.apis.groups.describe_groups import GROUP_COST
from pipeline_broker.apis.steps import ELEMENT_COST, Stepwise, in_steps
from pipeline_broker.security.acl import AclOperation
from pipeline_broker.state.group_records import NO_TOPIC_ID
from pipeline_broker.state.groups.commits import FetchedOffset, FetchTopic
from pipeline_broker.state.metadata_records import Topic
from pipeline_broker.wire.error import ErrorCode
from pipeline_broker.wire.messages.groups.offset_fetch import OffsetFetchRequest, OffsetFetchResponse
from stages.request import Result

ERROR_CODE_FROM = 2
SEVERAL_GROUPS_FROM = 8
TOPIC_ID_FROM = 10
FETCHED_AT_ONCE = 500
"""Partitions of one topic that are looked up before others may have a turn."""
OFFSET_COST = 10
"""Of looking up one and telling it, about microseconds."""

RequestGroup = OffsetFetchRequest.OffsetFetchRequestGroup
RequestTopic = OffsetFetchRequest.OffsetFetchRequestTopics
ResponseGroup = OffsetFetchResponse.OffsetFetchResponseGroup
ResponseTopic = OffsetFetchResponse.OffsetFetchResponseTopics
ResponsePartition = OffsetFetchResponse.OffsetFetchResponsePartitions


def handle(call: Call, request: OffsetFetchRequest) -> Stepwise[Result]:
    """Show what is durable."""
    if call.version >= SEVERAL_GROUPS_FROM:
        groups = []
        for group in _named_once(request.groups):
            groups += [(yield from _of_group(call, group, request))]
        return (yield from call.send_in_steps(OffsetFetchResponse(groups=groups)))
    if not may_of_group(call, AclOperation.DESCRIBE, request.group_id):
        return (yield from call.send_in_steps(error_response(request, call, ErrorCode.GROUP_AUTHORIZATION_FAILED)))
    wanted = None
    if request.topics is not None:
        allowed = yield from in_steps(call, request.topics, lambda topic: _may_describe(call, topic.name))
        wanted = [RequestTopic(topic.name, partition_indexes=topic.partition_indexes) for topic in request.topics]
        # Those that are refused come last, as in Kafka.
        wanted = [*compress(wanted, allowed), *compress(wanted, map(not_, allowed))]
    found = yield from _of_group(call, RequestGroup(request.group_id, topics=wanted), request)
    if found.error_code != ErrorCode.NONE:
        return (yield from call.send_in_steps(error_response(request, call, ErrorCode(found.error_code))))
    topics = yield from in_steps(call, found.topics, _without_group)
    return (yield from call.send_in_steps(OffsetFetchResponse(topics=topics)))


def _may_describe(call: Call, topic: str) -> bool:
    return may_of_topic(call, AclOperation.DESCRIBE, topic)


def _without_group(topic: ResponseTopic) -> OffsetFetchResponse.OffsetFetchResponseTopic:
    """A topic in an answer about one group, as before version 8."""
    partition = OffsetFetchResponse.OffsetFetchResponsePartition
    partitions = [
        partition(
            each.partition_index,
            each.committed_offset,
            each.committed_leader_epoch,
            each.metadata,
            each.error_code,
        )
        for each in topic.partitions
    ]
    return OffsetFetchResponse.OffsetFetchResponseTopic(topic.name, partitions)


def _named_once(groups: list[RequestGroup]) -> Iterable[RequestGroup]:
    """The groups without repetitions of what was asked of the same group before."""
    last: dict[str, RequestGroup] = {}
    for group in groups:
        if last.get(group.group_id) != group:
            last[group.group_id] = group
            yield group


def _of_group(call: Call, group: RequestGroup, request: OffsetFetchRequest) -> Stepwise[ResponseGroup]:
    if call.spend(GROUP_COST):
        yield None
    if not may_of_group(call, AclOperation.DESCRIBE, group.group_id):
        return ResponseGroup(group.group_id, [], ErrorCode.GROUP_AUTHORIZATION_FAILED)
    error = call.broker.groups.coordinator.fetch_error(group.group_id, group.member_id, group.member_epoch)
    if error is not ErrorCode.NONE:
        return ResponseGroup(group.group_id, [], error)
    if group.topics is None:
        return ResponseGroup(group.group_id, (yield from _all_topics(call, group.group_id, request)))
    found = []
    for topic in group.topics:
        found += [(yield from _of_topic(call, group.group_id, topic, request))]
    return ResponseGroup(group.group_id, found)


def _all_topics(call: Call, group_id: str, request: OffsetFetchRequest) -> Stepwise[list[ResponseTopic]]:
    """All that the group has committed when this begins: what goes while others have their turns is told as gone."""
    topics = []
    for name, indexes in call.broker.groups.coordinator.committed_partitions(group_id).items():
        topic = call.broker.topics.get(name)
        if not may_of_topic(call, AclOperation.DESCRIBE, name):
            continue
        if call.version < TOPIC_ID_FROM:
            named = name, NO_TOPIC_ID
        elif topic is not None:
            named = "", topic.topic_id
        else:  # one that is gone has no id to be named by
            continue
        partitions = yield from _in_turns(call, group_id, _asked(name, topic, indexes), request)
        topics.append(ResponseTopic(*named, partitions))
    return topics


def _of_topic(call: Call, group_id: str, wanted: RequestTopic, request: OffsetFetchRequest) -> Stepwise[ResponseTopic]:
    if call.spend(ELEMENT_COST):
        yield None
    by_id = call.version >= TOPIC_ID_FROM
    topic = call.broker.topics.by_id(wanted.topic_id) if by_id else call.broker.topics.get(wanted.name)
    if topic is None and by_id:
        return _refusal(wanted, ErrorCode.UNKNOWN_TOPIC_ID)
    name = wanted.name if topic is None else topic.name
    if not may_of_topic(call, AclOperation.DESCRIBE, name):
        return _refusal(wanted, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    partitions = yield from _in_turns(call, group_id, _asked(name, topic, wanted.partition_indexes), request)
    return ResponseTopic(wanted.name, wanted.topic_id, partitions)


def _asked(name: str, topic: Topic | None, indexes: Sequence[int]) -> FetchTopic:
    """What is wanted of the topic that has a name now: offsets of one before it may be there still, see Forgetting."""
    return FetchTopic(name, indexes, NO_TOPIC_ID if topic is None else topic.topic_id)


def _in_turns(
    call: Call, group_id: str, wanted: FetchTopic, request: OffsetFetchRequest
) -> Stepwise[list[ResponsePartition]]:
    """The offsets of one topic."""
    partitions = []
    for start in range(0, len(wanted.partitions), FETCHED_AT_ONCE):
        indexes = wanted.partitions[start : start + FETCHED_AT_ONCE]
        some = [FetchTopic(wanted.topic, indexes, wanted.topic_id)]
        coordinator = call.broker.groups.coordinator
        partitions += _partitions(coordinator.fetch(group_id, some, require_stable=request.require_stable))
        if call.spend(OFFSET_COST * len(indexes)):
            yield None
    return partitions


def _partitions(offsets: list[FetchedOffset]) -> list[ResponsePartition]:
    return [
        ResponsePartition(
            offset.partition,
            offset.committed.offset,
            offset.committed.leader_epoch,
            offset.committed.metadata,
            offset.error,
        )
        for offset in offsets
    ]


def _refusal(wanted: RequestTopic, code: ErrorCode) -> ResponseTopic:
    partitions = [ResponsePartition(index, -1, -1, "", code) for index in wanted.partition_indexes]
    return ResponseTopic(wanted.name, wanted.topic_id, partitions)


def error_response(request: OffsetFetchRequest, call: Call, code: ErrorCode) -> OffsetFetchResponse:
    """Every group with the same error; in version 1, which has no place for it, every partition."""
    if call.version >= SEVERAL_GROUPS_FROM:
        return OffsetFetchResponse(groups=[ResponseGroup(group.group_id, [], code) for group in request.groups])
    if call.version >= ERROR_CODE_FROM:
        return OffsetFetchResponse(error_code=code)
    return OffsetFetchResponse(
        topics=[
            OffsetFetchResponse.OffsetFetchResponseTopic(
                topic.name,
                [
                    OffsetFetchResponse.OffsetFetchResponsePartition(index, -1, -1, "", code)
                    for index in topic.partition_indexes
                ],
            )
            for topic in request.topics or ()
        ]
    )
