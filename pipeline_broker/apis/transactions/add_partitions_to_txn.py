"""AddPartitionsToTxn: a transaction will write to partitions.

Versions 0 to 3 are clients': all partitions are added, or none with an error for each. Versions 4 and 5 are spoken
between brokers: many transactions at once, and some only to be verified. This broker asks nobody; who asks it must be
allowed to act for the cluster.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from pipeline_broker.apis.authorization import may, may_of_cluster, topics_allowed
from pipeline_broker.apis.call import Call
from pipeline_broker.apis.transactions.transaction_errors import fenced_or_older
from pipeline_broker.broker.transactions import Appending
from pipeline_broker.security.acl import AclOperation, ResourceType
from pipeline_broker.state.transactions.coordinator import Producer
from pipeline_broker.state.transactions.transaction import VERSION_1, VERSION_2, Partition
from pipeline_broker.wire.error import ErrorCode
from pipeline_broker.wire.messages.transactions.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
)
from stages.request import Pending, Result

BETWEEN_BROKERS_SINCE = 4
FENCED_SINCE = 2

RequestTransaction = AddPartitionsToTxnRequest.AddPartitionsToTxnTransaction
RequestTopic = AddPartitionsToTxnRequest.AddPartitionsToTxnTopic
TransactionResult = AddPartitionsToTxnResponse.AddPartitionsToTxnResult
TopicResult = AddPartitionsToTxnResponse.AddPartitionsToTxnTopicResult
PartitionResult = AddPartitionsToTxnResponse.AddPartitionsToTxnPartitionResult


def handle(call: Call, request: AddPartitionsToTxnRequest) -> Result:
    """Add them, or say of which they are part."""
    between_brokers = call.version >= BETWEEN_BROKERS_SINCE
    if between_brokers and not may_of_cluster(call, AclOperation.CLUSTER_ACTION):
        return call.send(error_response(request, call, ErrorCode.CLUSTER_AUTHORIZATION_FAILED))
    results, appendings = [], []
    transactions = request.transactions if between_brokers else [_as_transaction(request)]
    for transaction in transactions:
        codes, appending = _of_transaction(call, transaction, between_brokers=between_brokers)
        results.append(TransactionResult(transaction.transactional_id, _topic_results(transaction.topics, codes)))
        appendings += [] if appending is None else [appending]
    if between_brokers:
        answer = call.send(AddPartitionsToTxnResponse(results_by_transaction=results))
    else:
        answer = call.send(AddPartitionsToTxnResponse(results_by_topic_v3_and_below=results[0].topic_results))
    if not any(appending.entries for appending in appendings):
        only = transactions[0].transactional_id if len(transactions) == 1 else None
        return call.broker.transactions.answer_settled(only, answer)

    def apply() -> None:
        for appending in appendings:
            appending.apply()

    return Pending([entry for appending in appendings for entry in appending.entries], answer, apply)


def _as_transaction(request: AddPartitionsToTxnRequest) -> RequestTransaction:
    return RequestTransaction(
        request.v3_and_below_transactional_id,
        request.v3_and_below_producer_id,
        request.v3_and_below_producer_epoch,
        topics=request.v3_and_below_topics,
    )


def _of_transaction(
    call: Call, request: RequestTransaction, *, between_brokers: bool
) -> tuple[Mapping[Partition, ErrorCode], Appending | None]:
    """The error for each partition, and what was appended."""
    partitions = _partitions(request.topics)
    refused = _refusals(call, request, partitions, between_brokers=between_brokers)
    if refused is not None:
        return refused, None
    transactions = call.broker.transactions
    producer = Producer(request.producer_id, request.producer_epoch)
    if request.verify_only:
        return transactions.verify(request.transactional_id, producer, partitions), None
    now_ms = transactions.time(call.now_ms)
    version = VERSION_2 if between_brokers else VERSION_1
    code, appending = transactions.add(request.transactional_id, producer, partitions, version, now_ms)
    return dict.fromkeys(partitions, fenced_or_older(code, call.version, FENCED_SINCE)), appending


def _refusals(
    call: Call, request: RequestTransaction, partitions: Collection[Partition], *, between_brokers: bool
) -> Mapping[Partition, ErrorCode] | None:
    """Why nothing is looked at any further, for each partition."""
    if not between_brokers and not may(
        call, AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID, request.transactional_id
    ):
        return dict.fromkeys(partitions, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    is_allowed = topics_allowed(call, AclOperation.WRITE)
    codes = {}
    for partition in partitions:
        code = ErrorCode.OPERATION_NOT_ATTEMPTED
        if not between_brokers and (partition.topic in call.broker.reserved_topics or not is_allowed(partition.topic)):
            code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        elif isinstance(call.broker.find_log(partition.topic, b"", partition.number, by_id=False), ErrorCode):
            code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        codes[partition] = code
    if any(code is not ErrorCode.OPERATION_NOT_ATTEMPTED for code in codes.values()):
        return codes
    refusal = call.broker.transactions.refusal if request.transactional_id else None
    return None if refusal is None else dict.fromkeys(partitions, refusal)


def _partitions(topics: Sequence[RequestTopic]) -> list[Partition]:
    return [Partition(topic.name, index) for topic in topics for index in topic.partitions]


def _topic_results(topics: Sequence[RequestTopic], codes: Mapping[Partition, ErrorCode]) -> list[TopicResult]:
    return [
        TopicResult(
            topic.name, [PartitionResult(index, codes[Partition(topic.name, index)]) for index in topic.partitions]
        )
        for topic in topics
    ]


def error_response(request: AddPartitionsToTxnRequest, call: Call, code: ErrorCode) -> AddPartitionsToTxnResponse:
    """Every partition with the same error; between brokers one for all."""
    if call.version >= BETWEEN_BROKERS_SINCE:
        return AddPartitionsToTxnResponse(error_code=code)
    topics = request.v3_and_below_topics
    results = _topic_results(topics, dict.fromkeys(_partitions(topics), code))
    return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=results)
