"""InitProducerId: allocates a producer id and epoch for an idempotent or a transactional producer.

An idempotent producer always gets a new id; its old id and epoch are only checked for completeness. A transactional id
gets a higher epoch, which fences the previous producer. A client that names its id and epoch recovers after an error
(KIP-360).
"""

from __future__ import annotations

from pipeline_broker.apis.authorization import authorize, authorize_by_resource_type, authorize_cluster
from pipeline_broker.apis.call import Call
from pipeline_broker.apis.transactions.transaction_errors import fenced_or_older
from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.security.acl import AclOperation, ResourceType
from pipeline_broker.wire.messages.transactions.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from stages.request import Result

NO_PRODUCER_ID = -1
NO_PRODUCER_EPOCH = -1
FENCED_SINCE = 4


def handle(call: Call, request: InitProducerIdRequest) -> Result:
    refused = _refusal(call, request)
    if refused is not None:
        return call.send(error_response(request, call, refused))
    if request.transactional_id is not None:
        return _of_transactional_id(call, request, request.transactional_id)
    allocation = call.broker.producer_ids.allocate()
    answer = call.send(InitProducerIdResponse(producer_id=allocation.producer_id, producer_epoch=0))
    if allocation.write is None:
        return answer
    return call.broker.commit_metadata([(allocation.write, call.broker.producer_ids.durable)], call.now_ms, answer)


def _refusal(call: Call, request: InitProducerIdRequest) -> ErrorCode | None:
    transactional_id = request.transactional_id
    if transactional_id is not None:
        if not authorize(call, AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID, transactional_id):
            return ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    elif not authorize_by_resource_type(call, AclOperation.WRITE, ResourceType.TOPIC) and not authorize_cluster(
        call, AclOperation.IDEMPOTENT_WRITE
    ):  # only the second check logs a denial, so it comes last
        return ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    if (request.producer_id == NO_PRODUCER_ID) != (request.producer_epoch == NO_PRODUCER_EPOCH):
        return ErrorCode.INVALID_REQUEST
    return None


def _of_transactional_id(call: Call, request: InitProducerIdRequest, transactional_id: str) -> Result:
    from pipeline_broker.state.transactions.coordinator import (  # noqa: PLC0415 - only transactions need it
        Producer,
    )

    transactions = call.broker.transactions.writing_coordinator_of(transactional_id)
    if isinstance(transactions, ErrorCode):
        return call.send(error_response(request, call, transactions))
    expected = None
    if request.producer_id != NO_PRODUCER_ID:
        expected = Producer(request.producer_id, request.producer_epoch)
    now_ms = transactions.time(call.now_ms)
    decision = transactions.coordinator.init_producer_id(
        transactional_id, request.transaction_timeout_ms, expected, now_ms
    )
    code = fenced_or_older(decision.error, call.version, FENCED_SINCE)
    response = error_response(request, call, code)
    if code is ErrorCode.NONE:
        response.producer_id, response.producer_epoch = decision.producer.producer_id, decision.producer.epoch
    return transactions.answer(decision, now_ms, call.send(response))


def error_response(
    request: InitProducerIdRequest,
    call: Call,
    code: ErrorCode,
) -> InitProducerIdResponse:
    return InitProducerIdResponse(error_code=code, producer_id=NO_PRODUCER_ID, producer_epoch=NO_PRODUCER_EPOCH)
