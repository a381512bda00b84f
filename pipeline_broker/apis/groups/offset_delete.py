"""OffsetDelete: deletes a group's committed offsets of some partitions.

Unknown partitions are refused one by one.
"""

from __future__ import annotations

from collections.abc import Container

from pipeline_broker.apis.authorization import authorize_group, topics_allowed
from pipeline_broker.apis.call import Call
from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.security.acl import AclOperation
from pipeline_broker.state.groups.administration import DeletedOffset
from pipeline_broker.state.outcome import Outcome
from pipeline_broker.wire.messages.groups.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse
from stages.request import Result

ResponseTopic = OffsetDeleteResponse.OffsetDeleteResponseTopic
ResponsePartition = OffsetDeleteResponse.OffsetDeleteResponsePartition


def handle(call: Call, request: OffsetDeleteRequest) -> Result:
    if not authorize_group(call, AclOperation.DELETE, request.group_id):
        return call.refuse(ErrorCode.GROUP_AUTHORIZATION_FAILED)
    groups = call.broker.groups.coordinator_of_named(request.group_id)
    if isinstance(groups, ErrorCode):
        return call.refuse(groups)
    is_allowed = topics_allowed(call, AclOperation.READ)
    wanted: list[DeletedOffset] = []
    refusals: dict[tuple[str, int], ErrorCode] = {}
    for topic in request.topics:
        found = call.broker.topics.get(topic.name)
        for partition in topic.partitions:
            index = partition.partition_index
            if not is_allowed(topic.name):
                refusals[topic.name, index] = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            elif found is None or index not in range(found.partitions):
                refusals[topic.name, index] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            else:
                wanted.append(DeletedOffset(topic.name, index))
    now_ms = groups.time(call.now_ms)
    result = groups.coordinator.delete_offsets(request.group_id, wanted)
    if result.error is not ErrorCode.NONE:
        return call.refuse(result.error)
    codes = refusals | {(each.topic, each.partition): error for each, error in zip(wanted, result.errors, strict=True)}
    answer = OffsetDeleteResponse(
        topics=[
            ResponseTopic(
                topic.name,
                [ResponsePartition(index, codes[topic.name, index]) for index in _refused_first(topic, refusals)],
            )
            for topic in request.topics
        ]
    )
    writes = [] if result.write is None else [result.write]
    return groups.answer_when_durable(Outcome(writes=writes), now_ms, call.send(answer))


def _refused_first(
    topic: OffsetDeleteRequest.OffsetDeleteRequestTopic, refused: Container[tuple[str, int]]
) -> list[int]:
    indexes = [each.partition_index for each in topic.partitions]
    # Kafka lists refused partitions first.
    return sorted(indexes, key=lambda index: (topic.name, index) not in refused)
