"""AddPartitionsToTxn: adds partitions to a transaction.

Clients use versions 0 to 3, in which all partitions are added, or none, with an error for each. Brokers use versions 4
and 5 among each other: many transactions at once, some only to be verified. They need CLUSTER_ACTION. This broker sends
no such requests itself.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from itertools import repeat

from pipeline_broker.apis.authorization import authorize, authorize_cluster, topics_allowed
from pipeline_broker.apis.call import Call
from pipeline_broker.apis.steps import Stepwise, in_steps
from pipeline_broker.apis.transactions.transaction_errors import fenced_or_older
from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.broker.transaction_shard import NOTHING_APPENDED, Appending
from pipeline_broker.security.acl import AclOperation, ResourceType
from pipeline_broker.state.transactions.coordinator import Producer
from pipeline_broker.state.transactions.transaction import VERSION_1, VERSION_2, Partition
from pipeline_broker.wire.messages.transactions.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
)
from stages.request import NO_OP, Final, Pending, Result

BETWEEN_BROKERS_SINCE = 4
FENCED_SINCE = 2

# Costs of one partition, about microseconds.
LOOK_COST = 1
DECISION_COST = 1
ANSWER_COST = 1
# Partitions that are answered in the turn that decides about them.
ANSWERED_IN_A_TURN = 400

RequestTransaction = AddPartitionsToTxnRequest.AddPartitionsToTxnTransaction
RequestTopic = AddPartitionsToTxnRequest.AddPartitionsToTxnTopic
TransactionResult = AddPartitionsToTxnResponse.AddPartitionsToTxnResult
TopicResult = AddPartitionsToTxnResponse.AddPartitionsToTxnTopicResult
PartitionResult = AddPartitionsToTxnResponse.AddPartitionsToTxnPartitionResult


def handle(call: Call, request: AddPartitionsToTxnRequest) -> Stepwise[Result]:
    between_brokers = call.version >= BETWEEN_BROKERS_SINCE
    if between_brokers and not authorize_cluster(call, AclOperation.CLUSTER_ACTION):
        return call.send(error_response(request, call, ErrorCode.CLUSTER_AUTHORIZATION_FAILED))
    transactions = request.transactions if between_brokers else [_as_transaction(request)]
    wanted = []
    for transaction in transactions:
        wanted.append((yield from _partitions_in_steps(call, transaction.topics)))  # noqa: PERF401 - a comprehension cannot yield
    codes: list[ErrorCode] = []
    appendings: list[Appending] = []
    for transaction, partitions in zip(transactions, wanted, strict=True):
        found, appending = _of_transaction(call, transaction, partitions, between_brokers=between_brokers)
        codes += found
        appendings.append(appending)
        if call.is_turn_over(len(partitions) * DECISION_COST):
            appended, appendings = _as_one(appendings), []
            yield Pending(appended.entries, NO_OP, appended.apply)
    only = transactions[0].transactional_id if len(transactions) == 1 else None
    if len(codes) <= ANSWERED_IN_A_TURN:
        return _answered(call, _as_one(appendings), only, call.send(_response(call, transactions, iter(codes))))
    waiting = _answered(call, _as_one(appendings), only, NO_OP)
    yield waiting if isinstance(waiting, Pending) else None
    remaining = iter(codes)
    results = []
    for transaction in transactions:
        topics = []
        for topic in transaction.topics:
            partition_results = yield from in_steps(
                call, topic.partitions, lambda index: PartitionResult(index, next(remaining)), ANSWER_COST
            )
            topics.append(TopicResult(topic.name, partition_results))
        results.append(TransactionResult(transaction.transactional_id, topics))
    return (yield from call.send_in_steps(_response_of(call, results)))


def _as_one(appendings: Sequence[Appending]) -> Appending:
    def apply() -> None:
        for appending in appendings:
            appending.apply()

    return Appending([entry for appending in appendings for entry in appending.entries], apply)


def _answered(call: Call, appended: Appending, transactional_id: str | None, answer: Final) -> Pending | Final:
    if appended.entries:
        return Pending(appended.entries, answer, appended.apply)
    # Nothing was appended, but earlier decisions about the id (about any id if None) may not be durable yet.
    return call.broker.transactions.answer_settled(transactional_id, answer)


def _as_transaction(request: AddPartitionsToTxnRequest) -> RequestTransaction:
    return RequestTransaction(
        request.v3_and_below_transactional_id,
        request.v3_and_below_producer_id,
        request.v3_and_below_producer_epoch,
        topics=request.v3_and_below_topics,
    )


def _of_transaction(
    call: Call, request: RequestTransaction, partitions: Sequence[Partition], *, between_brokers: bool
) -> tuple[Sequence[ErrorCode], Appending]:
    refusals = _refusals(call, request, between_brokers=between_brokers)
    if refusals is not None:
        return refusals, NOTHING_APPENDED
    transactions = call.broker.transactions.writing_coordinator_of(request.transactional_id)
    if isinstance(transactions, ErrorCode):
        return [transactions] * len(partitions), NOTHING_APPENDED
    producer = Producer(request.producer_id, request.producer_epoch)
    if request.verify_only:
        codes = transactions.verify(request.transactional_id, producer, partitions)
        return [codes[partition] for partition in partitions], NOTHING_APPENDED
    now_ms = transactions.time(call.now_ms)
    version = VERSION_2 if between_brokers else VERSION_1
    code, appending = transactions.add(request.transactional_id, producer, partitions, version, now_ms)
    return [fenced_or_older(code, call.version, FENCED_SINCE)] * len(partitions), appending


def _refusals(call: Call, request: RequestTransaction, *, between_brokers: bool) -> Sequence[ErrorCode] | None:
    """Return an error for each partition if any is refused; None otherwise."""
    count = sum(len(topic.partitions) for topic in request.topics)
    if not between_brokers and not authorize(
        call, AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID, request.transactional_id
    ):
        return [ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED] * count
    is_allowed = topics_allowed(call, AclOperation.WRITE)
    codes: list[ErrorCode] = []
    for topic in request.topics:
        if not between_brokers and (topic.name in call.broker.reserved_topics or not is_allowed(topic.name)):
            codes += [ErrorCode.TOPIC_AUTHORIZATION_FAILED] * len(topic.partitions)
        else:
            there = range(call.broker.partition_count(topic.name))
            codes += [
                ErrorCode.OPERATION_NOT_ATTEMPTED if index in there else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                for index in topic.partitions
            ]
    # One refused partition refuses all; the valid ones get OPERATION_NOT_ATTEMPTED.
    return codes if codes.count(ErrorCode.OPERATION_NOT_ATTEMPTED) < count else None


def _partitions_in_steps(call: Call, topics: Sequence[RequestTopic]) -> Stepwise[list[Partition]]:
    partitions: list[Partition] = []
    for topic in topics:
        partitions += yield from in_steps(call, topic.partitions, functools.partial(Partition, topic.name), LOOK_COST)
    return partitions


def _topic_results(topics: Sequence[RequestTopic], codes: Iterator[ErrorCode]) -> list[TopicResult]:
    return [
        TopicResult(topic.name, [PartitionResult(index, next(codes)) for index in topic.partitions]) for topic in topics
    ]


def _response(
    call: Call, transactions: Sequence[RequestTransaction], codes: Iterator[ErrorCode]
) -> AddPartitionsToTxnResponse:
    results = [TransactionResult(it.transactional_id, _topic_results(it.topics, codes)) for it in transactions]
    return _response_of(call, results)


def _response_of(call: Call, results: list[TransactionResult]) -> AddPartitionsToTxnResponse:
    if call.version >= BETWEEN_BROKERS_SINCE:
        return AddPartitionsToTxnResponse(results_by_transaction=results)
    return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=results[0].topic_results)


def error_response(request: AddPartitionsToTxnRequest, call: Call, code: ErrorCode) -> AddPartitionsToTxnResponse:
    """Build the response with `code` for every partition, or at the top level from version 4."""
    if call.version >= BETWEEN_BROKERS_SINCE:
        return AddPartitionsToTxnResponse(error_code=code)
    results = _topic_results(request.v3_and_below_topics, repeat(code))
    return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=results)
