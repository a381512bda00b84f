"""TxnOffsetCommit: offsets of a group that count once a transaction commits.

The records go to the partition of the group as a batch of the transaction; from version 5 on that partition becomes
part of the transaction by this very request.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pipeline_broker.apis.authorization import may, may_of_group, topics_allowed
from pipeline_broker.apis.call import Call
from pipeline_broker.apis.transactions.transaction_errors import Joining, joining_of_txn_offset_commit, writer_error
from pipeline_broker.broker.transactions import Appending
from pipeline_broker.log.errors import LogError
from pipeline_broker.log.partition.partition_log import PartitionLog
from pipeline_broker.security.acl import AclOperation, ResourceType
from pipeline_broker.state.groups.commits import CommitRequest, PartitionCommit
from pipeline_broker.state.pending_offsets import Holder
from pipeline_broker.state.transactions.coordinator import Producer
from pipeline_broker.state.transactions.transaction import VERSION_2, Partition
from pipeline_broker.wire.error import ErrorCode
from pipeline_broker.wire.messages.transactions.txn_offset_commit import TxnOffsetCommitRequest, TxnOffsetCommitResponse
from stages.request import Pending, Result

TOLD_AS = {ErrorCode.STALE_MEMBER_EPOCH: ErrorCode.ILLEGAL_GENERATION}
"""Producers know of generations only."""

RequestTopic = TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic
RequestPartition = TxnOffsetCommitRequest.TxnOffsetCommitRequestPartition
ResponseTopic = TxnOffsetCommitResponse.TxnOffsetCommitResponseTopic
ResponsePartition = TxnOffsetCommitResponse.TxnOffsetCommitResponsePartition


def handle(call: Call, request: TxnOffsetCommitRequest) -> Result:
    """Store what is about partitions that exist; the others are refused one by one."""
    refused = _refusal(call, request)
    if refused is not None:
        return call.send(error_response(request, call, refused))
    refusals = _refused_partitions(call, request)
    accepted = [
        PartitionCommit(
            topic=topic.name,
            partition=partition.partition_index,
            offset=partition.committed_offset,
            leader_epoch=partition.committed_leader_epoch,
            metadata=partition.committed_metadata,
        )
        for topic in request.topics
        for partition in topic.partitions
        if (topic.name, partition.partition_index) not in refusals
    ]
    if not accepted:
        return call.send(_response(request, refusals, ()))
    return _commit(call, request, accepted, refusals)


def _refusal(call: Call, request: TxnOffsetCommitRequest) -> ErrorCode | None:
    if not may(call, AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID, request.transactional_id):
        return ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    if not may_of_group(call, AclOperation.READ, request.group_id):
        return ErrorCode.GROUP_AUTHORIZATION_FAILED
    return None


def _refused_partitions(call: Call, request: TxnOffsetCommitRequest) -> Mapping[tuple[str, int], ErrorCode]:
    is_allowed = topics_allowed(call, AclOperation.READ)
    refusals = {}
    for topic in request.topics:
        known = call.broker.topics.get(topic.name)
        for partition in topic.partitions:
            index = partition.partition_index
            if not is_allowed(topic.name):
                refusals[topic.name, index] = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            elif known is None or index not in range(known.partitions):
                refusals[topic.name, index] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return refusals


def _commit(
    call: Call,
    request: TxnOffsetCommitRequest,
    accepted: list[PartitionCommit],
    refusals: Mapping[tuple[str, int], ErrorCode],
) -> Result:
    if not request.group_id:
        return call.send(_response(request, refusals, [ErrorCode.INVALID_GROUP_ID] * len(accepted)))
    transactions, groups = call.broker.transactions, call.broker.groups
    log = groups.topic.log_of(request.group_id)
    if log is None:
        return call.send(error_response(request, call, ErrorCode.NOT_COORDINATOR))
    joined = _join(call, request, log)
    if isinstance(joined, ErrorCode):
        answer = call.send(_response(request, refusals, [joined] * len(accepted)))
        return transactions.answer_settled(request.transactional_id, answer)
    commit = CommitRequest(
        group_id=request.group_id,
        generation_id=request.generation_id,
        member_id=request.member_id,
        group_instance_id=request.group_instance_id,
        missing_group_named=False,
        partitions=accepted,
        holder=Holder(log.partition, request.producer_id),
    )
    try:
        errors, entry, stored = groups.commit_in_transaction(
            commit, (request.producer_id, request.producer_epoch), call.now_ms
        )
    except LogError as error:
        errors, entry = (ErrorCode[error.error_name],) * len(accepted), None
    answer = call.send(_response(request, refusals, [TOLD_AS.get(code, code) for code in errors]))
    entries = [*joined.entries, *([] if entry is None else [entry])]
    if not entries:
        return transactions.answer_settled(request.transactional_id, answer)

    def apply() -> None:
        joined.apply()
        if entry is not None:
            stored()

    return Pending(entries, answer, apply)


def _join(call: Call, request: TxnOffsetCommitRequest, log: PartitionLog) -> Appending | ErrorCode:
    """Make sure that the partition of the group is part of the transaction."""
    transactions = call.broker.transactions
    joining = joining_of_txn_offset_commit(call.version)
    producer = Producer(request.producer_id, request.producer_epoch)
    if transactions.is_going_on(log, producer.producer_id, producer.epoch) or (
        joining is not Joining.ADDED and not call.broker.config.transaction_partition_verification_enable
    ):
        return transactions.nothing
    refusal = transactions.refusal if request.transactional_id else None
    if refusal is not None:
        return refusal
    partition = Partition(log.topic, log.partition)
    if joining is Joining.ADDED:
        now_ms = transactions.time(call.now_ms)
        code, appending = transactions.add(request.transactional_id, producer, [partition], VERSION_2, now_ms)
    else:
        appending = transactions.nothing
        code = transactions.verify(request.transactional_id, producer, [partition])[partition]
    return appending if code is ErrorCode.NONE else writer_error(code, joining)


def _response(
    request: TxnOffsetCommitRequest, refusals: Mapping[tuple[str, int], ErrorCode], errors: Iterable[ErrorCode]
) -> TxnOffsetCommitResponse:
    codes = iter(errors)
    topics = []
    for topic in request.topics:
        partitions = []
        for partition in topic.partitions:
            refused = refusals.get((topic.name, partition.partition_index))
            partitions.append(ResponsePartition(partition.partition_index, next(codes) if refused is None else refused))
        topics.append(ResponseTopic(topic.name, partitions))
    return TxnOffsetCommitResponse(topics=topics)


def error_response(request: TxnOffsetCommitRequest, call: Call, code: ErrorCode) -> TxnOffsetCommitResponse:
    """Every partition with the same error."""
    everything = {
        (topic.name, partition.partition_index): code for topic in request.topics for partition in topic.partitions
    }
    return _response(request, everything, ())
