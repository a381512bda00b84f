"""TxnOffsetCommit: stores a group's offsets, which take effect when a transaction commits.

The records are a transactional batch in the group's partition. From version 5 the request itself adds that partition to
the transaction. Unknown partitions are refused one by one.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from itertools import islice, repeat

from pipeline_broker.apis.authorization import authorize, authorize_group
from pipeline_broker.apis.call import Call
from pipeline_broker.apis.offsets_to_commit import (
    ANSWER_COST,
    ANSWERED_IN_A_TURN,
    OffsetsToCommit,
    offsets_to_commit,
    partitions_of,
    topics_to_commit,
)
from pipeline_broker.apis.steps import Stepwise, in_steps
from pipeline_broker.apis.transactions.remote_coordinator import RemoteAnswer, ask_coordinator, coordinator_elsewhere
from pipeline_broker.apis.transactions.transaction_errors import Joining, joining_of_txn_offset_commit, writer_error
from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.broker.transaction_shard import NOTHING_APPENDED, Appending
from pipeline_broker.log.errors import LogError
from pipeline_broker.log.partition.partition_log import PartitionLog
from pipeline_broker.security.acl import AclOperation, ResourceType
from pipeline_broker.state.groups.commits import CommitRequest, PreparedOffsets
from pipeline_broker.state.transactions.coordinator import Producer
from pipeline_broker.state.transactions.transaction import VERSION_2, Partition
from pipeline_broker.wire.messages.transactions.txn_offset_commit import TxnOffsetCommitRequest, TxnOffsetCommitResponse
from stages.request import NO_OP, Final, Pending, Result

TOPIC_ID_FROM = 6
MEMBER_EPOCH_FROM = 6
# Producers of earlier versions know generations, not member epochs.
GENERATION_ERRORS = {ErrorCode.STALE_MEMBER_EPOCH: ErrorCode.ILLEGAL_GENERATION}

RequestPartition = TxnOffsetCommitRequest.TxnOffsetCommitRequestPartition
ResponseTopic = TxnOffsetCommitResponse.TxnOffsetCommitResponseTopic
ResponsePartition = TxnOffsetCommitResponse.TxnOffsetCommitResponsePartition


def handle(call: Call, request: TxnOffsetCommitRequest) -> Stepwise[Result]:
    refused = _refused(call, request)
    if refused is not None:
        return call.send(error_response(request, call, refused))
    now_ms = call.broker.groups.time(call.now_ms)
    offsets = yield from offsets_to_commit(
        call,
        request.topics,
        functools.partial(topics_to_commit, call, request.topics, by_id=call.version >= TOPIC_ID_FROM),
        functools.partial(PreparedOffsets, request.group_id, call.broker.groups.config, now_ms),
    )
    refused = _refused(call, request)  # checked again: it may have changed between turns
    if refused is not None:
        return call.send(error_response(request, call, refused))
    elsewhere = yield from _ask_elsewhere(call, request)
    errors, stored = _commit(call, request, offsets, elsewhere)
    codes = offsets.codes(errors)
    if len(offsets.refusals) <= ANSWERED_IN_A_TURN:
        return _answered(call, request, stored, call.send(_response(request, codes)))
    waiting = _answered(call, request, stored, NO_OP)
    yield waiting if isinstance(waiting, Pending) else None
    answers = yield from in_steps(call, partitions_of(request.topics), lambda it: _answer(it, next(codes)), ANSWER_COST)
    return (yield from call.send_in_steps(_response_of(request, iter(answers))))


def _refused(call: Call, request: TxnOffsetCommitRequest) -> ErrorCode | None:
    if not authorize(call, AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID, request.transactional_id):
        return ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    if not authorize_group(call, AclOperation.READ, request.group_id):
        return ErrorCode.GROUP_AUTHORIZATION_FAILED
    return None if call.broker.can_write else ErrorCode.COORDINATOR_NOT_AVAILABLE


def _ask_elsewhere(call: Call, request: TxnOffsetCommitRequest) -> Stepwise[RemoteAnswer | None]:
    """Ask the transaction coordinator to add or verify the group's partition, if it is another broker."""
    groups = call.broker.groups.coordinator_of(request.group_id)
    coordinator = coordinator_elsewhere(call, request.transactional_id)
    if isinstance(groups, ErrorCode) or coordinator is None:
        return None
    producer = Producer(request.producer_id, request.producer_epoch)
    joining = joining_of_txn_offset_commit(call.version)
    answers = yield from ask_coordinator(call, coordinator, request.transactional_id, producer, [groups.log], joining)
    return answers[groups.log]


def _commit(
    call: Call, request: TxnOffsetCommitRequest, offsets: OffsetsToCommit, elsewhere: RemoteAnswer | None
) -> tuple[Sequence[ErrorCode], Appending | None]:
    """Return the error for each partition that is not refused, and the appended entries.

    The entries are None if nothing must become durable.
    """
    count = len(offsets.partitions)
    if not count:
        return (), None
    if not request.group_id:
        return [ErrorCode.INVALID_GROUP_ID] * count, None
    groups = call.broker.groups.coordinator_of(request.group_id)
    if isinstance(groups, ErrorCode):
        # As in Kafka, the transaction coordinator answers first.
        transactions = call.broker.transactions.writing_coordinator_of(request.transactional_id)
        is_refused = bool(request.transactional_id) and isinstance(transactions, ErrorCode)
        return [ErrorCode.COORDINATOR_NOT_AVAILABLE if is_refused else groups] * count, None
    joined = _join(call, request, groups.log, elsewhere)
    if isinstance(joined, ErrorCode):
        return [joined] * count, NOTHING_APPENDED
    commit = CommitRequest(
        group_id=request.group_id,
        generation_id=request.generation_id_or_member_epoch,
        member_id=request.member_id,
        group_instance_id=request.group_instance_id,
        missing_group_named=call.version >= MEMBER_EPOCH_FROM,
        partitions=offsets.partitions,
        prepared=offsets.prepared,
        producer_id=request.producer_id,
    )
    try:
        errors, entry, stored = groups.commit_in_transaction(
            commit, (request.producer_id, request.producer_epoch), call.now_ms
        )
    except LogError as error:
        errors, entry = (ErrorCode[error.error_name],) * count, None
    codes = (
        list(errors) if call.version >= MEMBER_EPOCH_FROM else [GENERATION_ERRORS.get(code, code) for code in errors]
    )
    if entry is None:
        return codes, joined

    def apply() -> None:
        joined.apply()
        stored()

    return codes, Appending([*joined.entries, entry], apply)


def _answered(call: Call, request: TxnOffsetCommitRequest, stored: Appending | None, answer: Final) -> Pending | Final:
    if stored is None:
        return answer
    if not stored.entries:
        # Nothing was appended, but earlier decisions about the transactional id may not be durable yet.
        return call.broker.transactions.answer_settled(request.transactional_id, answer)
    return Pending(stored.entries, answer, stored.apply)


def _join(
    call: Call, request: TxnOffsetCommitRequest, log: PartitionLog, elsewhere: RemoteAnswer | None
) -> Appending | ErrorCode:
    """Add or verify the group's partition in the transaction; return the appended entries or an error."""
    joining = joining_of_txn_offset_commit(call.version)
    producer = Producer(request.producer_id, request.producer_epoch)
    if log.producers.is_in_transaction(producer.producer_id, producer.epoch) or (
        joining is not Joining.ADDED and not call.broker.config.transaction_partition_verification_enable
    ):
        return NOTHING_APPENDED
    if elsewhere is not None:
        code = elsewhere.code_now(log, producer.producer_id)
        return NOTHING_APPENDED if code is ErrorCode.NONE else writer_error(code, joining)
    transactions = call.broker.transactions.writing_coordinator_of(request.transactional_id)
    if isinstance(transactions, ErrorCode):
        return transactions
    partition = Partition(log.topic, log.partition)
    if joining is Joining.ADDED:
        now_ms = transactions.time(call.now_ms)
        code, appending = transactions.add(request.transactional_id, producer, [partition], VERSION_2, now_ms)
    else:
        appending = NOTHING_APPENDED
        code = transactions.verify(request.transactional_id, producer, [partition])[partition]
    return appending if code is ErrorCode.NONE else writer_error(code, joining)


def _answer(partition: RequestPartition, code: ErrorCode) -> ResponsePartition:
    return ResponsePartition(partition.partition_index, code)


def _response(request: TxnOffsetCommitRequest, codes: Iterator[ErrorCode]) -> TxnOffsetCommitResponse:
    return _response_of(request, map(_answer, partitions_of(request.topics), codes))


def _response_of(request: TxnOffsetCommitRequest, answers: Iterator[ResponsePartition]) -> TxnOffsetCommitResponse:
    return TxnOffsetCommitResponse(
        topics=[
            ResponseTopic(wanted.name, wanted.topic_id, list(islice(answers, len(wanted.partitions))))
            for wanted in request.topics
        ]
    )


def error_response(request: TxnOffsetCommitRequest, call: Call, code: ErrorCode) -> TxnOffsetCommitResponse:
    return _response(request, repeat(code))
