"""OffsetFetch: the durable committed offsets of groups, for some partitions, or for all if the topics are null.

A request may name several groups from version 8.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import compress
from operator import not_

from pipeline_broker.apis.authorization import authorize_group, authorize_topic
from pipeline_broker.apis.call import Call
from pipeline_broker.apis.groups.describe_groups import GROUP_COST
from pipeline_broker.apis.steps import ELEMENT_COST, Stepwise, in_steps
from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.broker.group_shard import GroupShard
from pipeline_broker.security.acl import AclOperation
from pipeline_broker.state.groups.commits import FetchedOffset, FetchTopic
from pipeline_broker.state.groups.offset_records import NO_TOPIC_ID
from pipeline_broker.state.metadata_records import Topic
from pipeline_broker.wire.messages.groups.offset_fetch import OffsetFetchRequest, OffsetFetchResponse
from stages.request import Result

ERROR_CODE_FROM = 2
SEVERAL_GROUPS_FROM = 8
TOPIC_ID_FROM = 10
# Partitions of one topic looked up in one turn.
FETCHED_AT_ONCE = 500
# Cost of looking up and answering one offset, about microseconds.
OFFSET_COST = 10

RequestGroup = OffsetFetchRequest.OffsetFetchRequestGroup
RequestTopic = OffsetFetchRequest.OffsetFetchRequestTopics
ResponseGroup = OffsetFetchResponse.OffsetFetchResponseGroup
ResponseTopic = OffsetFetchResponse.OffsetFetchResponseTopics
ResponsePartition = OffsetFetchResponse.OffsetFetchResponsePartitions


def handle(call: Call, request: OffsetFetchRequest) -> Stepwise[Result]:
    if call.version >= SEVERAL_GROUPS_FROM:
        groups = []
        for group in _named_once(request.groups):
            groups += [(yield from _fetch_group(call, group, request))]
        return (yield from call.send_in_steps(OffsetFetchResponse(groups=groups)))
    if not authorize_group(call, AclOperation.DESCRIBE, request.group_id):
        return (yield from call.send_in_steps(error_response(request, call, ErrorCode.GROUP_AUTHORIZATION_FAILED)))
    wanted = None
    if request.topics is not None:
        allowed = yield from in_steps(call, request.topics, lambda topic: _may_describe(call, topic.name))
        wanted = [RequestTopic(topic.name, partition_indexes=topic.partition_indexes) for topic in request.topics]
        # Refused topics come last, as in Kafka.
        wanted = [*compress(wanted, allowed), *compress(wanted, map(not_, allowed))]
    found = yield from _fetch_group(call, RequestGroup(request.group_id, topics=wanted), request)
    if found.error_code != ErrorCode.NONE:
        return (yield from call.send_in_steps(error_response(request, call, ErrorCode(found.error_code))))
    topics = yield from in_steps(call, found.topics, _without_group)
    return (yield from call.send_in_steps(OffsetFetchResponse(topics=topics)))


def _may_describe(call: Call, topic: str) -> bool:
    return authorize_topic(call, AclOperation.DESCRIBE, topic)


def _without_group(topic: ResponseTopic) -> OffsetFetchResponse.OffsetFetchResponseTopic:
    # The layout before version 8, for one group.
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
    last: dict[str, RequestGroup] = {}
    for group in groups:
        if last.get(group.group_id) != group:
            last[group.group_id] = group
            yield group


def _fetch_group(call: Call, group: RequestGroup, request: OffsetFetchRequest) -> Stepwise[ResponseGroup]:
    if call.spend(GROUP_COST):
        yield None
    if not authorize_group(call, AclOperation.DESCRIBE, group.group_id):
        return ResponseGroup(group.group_id, [], ErrorCode.GROUP_AUTHORIZATION_FAILED)
    groups = call.broker.groups.coordinator_of(group.group_id)
    if isinstance(groups, ErrorCode):
        return ResponseGroup(group.group_id, [], groups)
    error = groups.coordinator.fetch_error(group.group_id, group.member_id, group.member_epoch)
    if error is not ErrorCode.NONE:
        return ResponseGroup(group.group_id, [], error)
    if group.topics is None:
        found = yield from _all_topics(call, groups, group.group_id, request)
    else:
        found = []
        for topic in group.topics:
            found += [(yield from _fetch_topic(call, groups, group.group_id, topic, request))]
    if groups.is_unloaded:  # between two turns: the offsets that were found no longer count
        return ResponseGroup(group.group_id, [], ErrorCode.NOT_COORDINATOR)
    return ResponseGroup(group.group_id, found)


def _all_topics(
    call: Call, groups: GroupShard, group_id: str, request: OffsetFetchRequest
) -> Stepwise[list[ResponseTopic]]:
    topics = []
    # Partitions are listed now. An offset that is deleted in a later turn is reported as not committed.
    for name, indexes in groups.coordinator.committed_partitions(group_id).items():
        topic = call.broker.topics.get(name)
        if not authorize_topic(call, AclOperation.DESCRIBE, name):
            continue
        if call.version < TOPIC_ID_FROM:
            named = name, NO_TOPIC_ID
        elif topic is not None:
            named = "", topic.topic_id
        else:  # a deleted topic has no id that could name it
            continue
        partitions = yield from _in_turns(call, groups, group_id, _fetch_request(name, topic, indexes), request)
        topics.append(ResponseTopic(*named, partitions))
    return topics


def _fetch_topic(
    call: Call, groups: GroupShard, group_id: str, wanted: RequestTopic, request: OffsetFetchRequest
) -> Stepwise[ResponseTopic]:
    if call.spend(ELEMENT_COST):
        yield None
    by_id = call.version >= TOPIC_ID_FROM
    topic = call.broker.topics.by_id(wanted.topic_id) if by_id else call.broker.topics.get(wanted.name)
    if topic is None and by_id:
        return _refusal(wanted, ErrorCode.UNKNOWN_TOPIC_ID)
    name = wanted.name if topic is None else topic.name
    if not authorize_topic(call, AclOperation.DESCRIBE, name):
        return _refusal(wanted, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    partitions = yield from _in_turns(
        call, groups, group_id, _fetch_request(name, topic, wanted.partition_indexes), request
    )
    return ResponseTopic(wanted.name, wanted.topic_id, partitions)


def _fetch_request(name: str, topic: Topic | None, indexes: Sequence[int]) -> FetchTopic:
    """Build the request for offsets of the current topic of that name; offsets of a deleted one may still exist."""
    return FetchTopic(name, indexes, NO_TOPIC_ID if topic is None else topic.topic_id)


def _in_turns(
    call: Call, groups: GroupShard, group_id: str, wanted: FetchTopic, request: OffsetFetchRequest
) -> Stepwise[list[ResponsePartition]]:
    partitions = []
    for start in range(0, len(wanted.partitions), FETCHED_AT_ONCE):
        indexes = wanted.partitions[start : start + FETCHED_AT_ONCE]
        some = [FetchTopic(wanted.topic, indexes, wanted.topic_id)]
        partitions += _partitions(groups.coordinator.fetch(group_id, some, require_stable=request.require_stable))
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
    """Build the error response, with the error where the version has it.

    From version 8, each group has the error. Versions 2 to 7 have it at the top level, and version 1 in each partition.
    """
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
