"""OffsetCommit: a group notes how far it is; answered, and visible, when that is durable."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from pipeline_broker.apis.authorization import may_of_group, topics_allowed
from pipeline_broker.apis.call import Call
from pipeline_broker.security.acl import AclOperation
from pipeline_broker.state.groups.commits import CommitRequest, PartitionCommit
from pipeline_broker.state.metadata_records import Topic
from pipeline_broker.state.outcome import Outcome
from pipeline_broker.wire.error import ErrorCode
from pipeline_broker.wire.messages.groups.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from stages.request import Result

MISSING_GROUP_NAMED_FROM = 9
TOPIC_ID_FROM = 10

RequestPartition = OffsetCommitRequest.OffsetCommitRequestPartition
RequestTopic = OffsetCommitRequest.OffsetCommitRequestTopic
ResponseTopic = OffsetCommitResponse.OffsetCommitResponseTopic
ResponsePartition = OffsetCommitResponse.OffsetCommitResponsePartition


def handle(call: Call, request: OffsetCommitRequest) -> Result:
    """Commit what is about partitions that exist; the others are refused one by one."""
    if not may_of_group(call, AclOperation.READ, request.group_id):
        return call.send(error_response(request, call, ErrorCode.GROUP_AUTHORIZATION_FAILED))
    groups = call.broker.groups
    if not groups.is_ready:
        return call.send(error_response(request, call, ErrorCode.NOT_COORDINATOR))
    is_allowed = topics_allowed(call, AclOperation.READ)
    topics = [_find(call, wanted, is_allowed) for wanted in request.topics]
    commit = CommitRequest(
        group_id=request.group_id,
        generation_id=request.generation_id_or_member_epoch,
        member_id=request.member_id,
        group_instance_id=request.group_instance_id,
        retention_ms=request.retention_time_ms,
        missing_group_named=call.version >= MISSING_GROUP_NAMED_FROM,
        partitions=[
            PartitionCommit(
                topic=topic.name,
                partition=partition.partition_index,
                offset=partition.committed_offset,
                leader_epoch=partition.committed_leader_epoch,
                metadata=partition.committed_metadata,
                topic_id=topic.topic_id,
            )
            for topic, wanted in zip(topics, request.topics, strict=True)
            if isinstance(topic, Topic)
            for partition in wanted.partitions
            if _refusal(topic, partition) is None
        ],
    )
    if not commit.partitions:  # nothing that a group would have to be asked about, or made for
        return call.send(_response(request, topics, ()))
    now_ms = groups.time(call.now_ms)
    result = groups.coordinator.commit(commit, now_ms)
    writes = [] if result.write is None else [result.write]
    answer = call.send(_response(request, topics, result.errors))
    return groups.answer_when_durable(Outcome(writes=writes), now_ms, answer)


def _find(call: Call, wanted: RequestTopic, is_allowed: Callable[[str], bool]) -> Topic | ErrorCode:
    topics = call.broker.topics
    by_id = call.version >= TOPIC_ID_FROM
    topic = topics.by_id(wanted.topic_id) if by_id else topics.get(wanted.name)
    if topic is None and by_id:
        return ErrorCode.UNKNOWN_TOPIC_ID
    if not is_allowed(wanted.name if topic is None else topic.name):
        return ErrorCode.TOPIC_AUTHORIZATION_FAILED
    return topic or ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def _refusal(topic: Topic | ErrorCode, partition: RequestPartition) -> ErrorCode | None:
    if isinstance(topic, ErrorCode):
        return topic
    return None if partition.partition_index in range(topic.partitions) else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def _response(
    request: OffsetCommitRequest, topics: Sequence[Topic | ErrorCode], errors: Iterable[ErrorCode]
) -> OffsetCommitResponse:
    codes = iter(errors)
    return OffsetCommitResponse(
        topics=[
            _answer(wanted, [_refusal(topic, partition) or next(codes) for partition in wanted.partitions])
            for topic, wanted in zip(topics, request.topics, strict=True)
        ]
    )


def _answer(wanted: RequestTopic, codes: list[ErrorCode]) -> ResponseTopic:
    partitions = [
        ResponsePartition(partition.partition_index, code)
        for partition, code in zip(wanted.partitions, codes, strict=True)
    ]
    return ResponseTopic(wanted.name, wanted.topic_id, partitions)


def error_response(
    request: OffsetCommitRequest,
    call: Call,
    code: ErrorCode,
) -> OffsetCommitResponse:
    """Every partition with the same error."""
    return OffsetCommitResponse(topics=[_answer(topic, [code] * len(topic.partitions)) for topic in request.topics])
