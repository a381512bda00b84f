"""AddOffsetsToTxn: adds the `__consumer_offsets` partition of a group to a transaction."""

from __future__ import annotations

from pipeline_broker.apis.authorization import authorize, authorize_group
from pipeline_broker.apis.call import Call
from pipeline_broker.apis.transactions.transaction_errors import fenced_or_older
from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.security.acl import AclOperation, ResourceType
from pipeline_broker.state.transactions.coordinator import Producer
from pipeline_broker.state.transactions.transaction import VERSION_1, Partition
from pipeline_broker.wire.messages.transactions.add_offsets_to_txn import (
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
)
from stages.request import Result

FENCED_SINCE = 2


def handle(call: Call, request: AddOffsetsToTxnRequest) -> Result:
    if not authorize(call, AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID, request.transactional_id):
        return call.refuse(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    if not authorize_group(call, AclOperation.READ, request.group_id):
        return call.refuse(ErrorCode.GROUP_AUTHORIZATION_FAILED)
    transactions = call.broker.transactions.writing_coordinator_of(request.transactional_id)
    if isinstance(transactions, ErrorCode):
        return call.refuse(transactions)
    groups = call.broker.groups
    now_ms = transactions.time(call.now_ms)
    decision = transactions.coordinator.add_partitions(
        request.transactional_id,
        Producer(request.producer_id, request.producer_epoch),
        [Partition(groups.topic.name, groups.topic.partition_of(request.group_id))],
        VERSION_1,
        now_ms,
    )
    response = AddOffsetsToTxnResponse(error_code=fenced_or_older(decision.error, call.version, FENCED_SINCE))
    return transactions.answer(decision, now_ms, call.send(response))
