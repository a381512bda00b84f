"""EndTxn: commits or aborts a transaction.

The response waits until the markers are durable, or only the decision if the transaction has many partitions. From
version 5 it has the producer epoch of the next transaction.
"""

from __future__ import annotations

from pipeline_broker.apis.authorization import authorize
from pipeline_broker.apis.call import Call
from pipeline_broker.apis.transactions.transaction_errors import fenced_or_older
from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.security.acl import AclOperation, ResourceType
from pipeline_broker.state.transactions.coordinator import Producer
from pipeline_broker.state.transactions.transaction import VERSION_1, VERSION_2
from pipeline_broker.wire.messages.transactions.end_txn import EndTxnRequest, EndTxnResponse
from stages.request import Result

FENCED_SINCE = 2
EPOCH_BUMPED_SINCE = 5


def handle(call: Call, request: EndTxnRequest) -> Result:
    if not authorize(call, AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID, request.transactional_id):
        return call.refuse(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    transactions = call.broker.transactions.writing_coordinator_of(request.transactional_id)
    if isinstance(transactions, ErrorCode):
        return call.refuse(transactions)
    now_ms = transactions.time(call.now_ms)
    is_bumped = call.version >= EPOCH_BUMPED_SINCE
    decision = transactions.coordinator.end(
        request.transactional_id,
        Producer(request.producer_id, request.producer_epoch),
        VERSION_2 if is_bumped else VERSION_1,
        now_ms,
        committed=request.committed,
    )
    response = EndTxnResponse(error_code=fenced_or_older(decision.error, call.version, FENCED_SINCE))
    if is_bumped and decision.error is ErrorCode.NONE:
        response.producer_id, response.producer_epoch = decision.producer.producer_id, decision.producer.epoch
    return transactions.answer(decision, now_ms, call.send(response))
