"""DescribeTransactions: the state of transactional ids (KIP-664). The response waits until that state is durable."""

from __future__ import annotations

from functools import partial

from pipeline_broker.apis.authorization import authorize, authorize_topic
from pipeline_broker.apis.call import Call
from pipeline_broker.apis.steps import Stepwise, in_steps
from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.security.acl import AclOperation, ResourceType
from pipeline_broker.wire.messages.transactions.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
)
from stages.request import Result

State = DescribeTransactionsResponse.TransactionState
TopicData = DescribeTransactionsResponse.TopicData


def handle(call: Call, request: DescribeTransactionsRequest) -> Stepwise[Result]:
    states = yield from in_steps(call, request.transactional_ids, partial(_describe, call))
    answer = yield from call.send_in_steps(DescribeTransactionsResponse(transaction_states=states))
    return call.broker.transactions.answer_settled(None, answer)


def _describe(call: Call, transactional_id: str) -> State:
    if not authorize(call, AclOperation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, transactional_id):
        return _refusal(transactional_id, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    transactions = call.broker.transactions.coordinator_of(transactional_id)
    if isinstance(transactions, ErrorCode):
        return _refusal(transactional_id, transactions)
    known = transactions.coordinator.get(transactional_id)
    if known is None:
        return _refusal(transactional_id, ErrorCode.TRANSACTIONAL_ID_NOT_FOUND)
    topics: dict[str, list[int]] = {}
    for partition in sorted(known.partitions):
        if partition.topic in topics or authorize_topic(call, AclOperation.DESCRIBE, partition.topic, is_logged=False):
            topics.setdefault(partition.topic, []).append(partition.number)
    return State(
        transactional_id=transactional_id,
        transaction_state=known.state.title,
        transaction_timeout_ms=known.timeout_ms,
        transaction_start_time_ms=known.start_ms,
        producer_id=known.producer_id,
        producer_epoch=known.producer_epoch,
        topics=[TopicData(topic, indexes) for topic, indexes in topics.items()],
    )


def _refusal(transactional_id: str, code: ErrorCode) -> State:
    return State(error_code=code, transactional_id=transactional_id)


def error_response(request: DescribeTransactionsRequest, call: Call, code: ErrorCode) -> DescribeTransactionsResponse:
    return DescribeTransactionsResponse(transaction_states=[_refusal(it, code) for it in request.transactional_ids])
