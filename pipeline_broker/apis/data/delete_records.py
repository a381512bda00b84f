"""DeleteRecords: raises the log start offset of partitions.

Offset -1 stands for the high watermark. A log that starts after the requested offset stays as it is. The response has
the log start offset afterwards. As in Apache Kafka, a partition that is named more than once gets one answer, for the
last offset. Internal topics, and topics that are compacted without deletion, are refused. The timeout is ignored: no
replica has to confirm a deletion.
"""

from __future__ import annotations

from pipeline_broker.apis.authorization import topics_allowed
from pipeline_broker.apis.call import Call
from pipeline_broker.apis.steps import Stepwise, commit_changes, pending_changes
from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.broker.metadata_log import Change
from pipeline_broker.log.partition.partition_log import PartitionLog
from pipeline_broker.security.acl import AclOperation
from pipeline_broker.wire.messages.data.delete_records import DeleteRecordsRequest, DeleteRecordsResponse
from stages.request import Result

PartitionResult = DeleteRecordsResponse.DeleteRecordsPartitionResult
TopicResult = DeleteRecordsResponse.DeleteRecordsTopicResult

HIGH_WATERMARK = -1
NO_OFFSET = -1


# Cost of one partition, about microseconds.
DELETION_COST = 50


def handle(call: Call, request: DeleteRecordsRequest) -> Stepwise[Result]:
    is_allowed = topics_allowed(call, AclOperation.DELETE)
    changes: list[Change] = []
    topics = []
    for name, partitions in _wanted(request).items():
        results = []
        for index, offset in partitions.items():
            if is_allowed(name):
                results.append(_delete(call, name, index, offset, changes))
            else:
                results.append(_refusal(index, ErrorCode.TOPIC_AUTHORIZATION_FAILED))
            if call.is_turn_over(DELETION_COST):
                yield pending_changes(call, changes)
        topics.append(TopicResult(name, results))
    return (yield from commit_changes(call, changes, DeleteRecordsResponse(topics=topics)))


def _wanted(request: DeleteRecordsRequest) -> dict[str, dict[int, int]]:
    wanted: dict[str, dict[int, int]] = {}
    for topic in request.topics:
        for data in topic.partitions:
            wanted.setdefault(topic.name, {})[data.partition_index] = data.offset
    return wanted


def _delete(call: Call, name: str, index: int, offset: int, changes: list[Change]) -> PartitionResult:
    log = call.broker.find_log(name, b"", index, by_id=False)
    if isinstance(log, ErrorCode):
        return _refusal(index, log)
    start = log.high_watermark if offset == HIGH_WATERMARK else offset
    refused = _refused(call, log, start)
    if refused is not None:
        return _refusal(index, refused)
    if start > log.log_start_offset:
        write = call.broker.log_starts.raise_to(log.topic_id, log.partition, start)
        assert write is not None, "a log never starts before the log start offset in the metadata"
        changes.append((write, call.broker.log_start_durable))
    return PartitionResult(index, max(start, log.log_start_offset))


def _refused(call: Call, log: PartitionLog, start: int) -> ErrorCode | None:
    latest = call.broker.topics.latest(log.topic)
    if (
        latest is None or latest.topic_id != log.topic_id
    ):  # its deletion is not durable yet; no record about it may follow
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if log.topic in call.broker.internal_topics:
        return ErrorCode.INVALID_TOPIC_EXCEPTION
    if not log.policies.retention.delete and log.policies.compaction is not None:
        return ErrorCode.POLICY_VIOLATION
    if not 0 <= start <= log.high_watermark:
        return ErrorCode.OFFSET_OUT_OF_RANGE
    return None


def _refusal(index: int, code: ErrorCode) -> PartitionResult:
    return PartitionResult(index, NO_OFFSET, code)


def error_response(request: DeleteRecordsRequest, call: Call, code: ErrorCode) -> DeleteRecordsResponse:
    del call
    return DeleteRecordsResponse(
        topics=[
            TopicResult(name, [_refusal(index, code) for index in partitions])
            for name, partitions in _wanted(request).items()
        ]
    )
