"""InitProducerId: a fresh id and epoch 0 for an idempotent producer.

Without a transactional id whatever id and epoch the client had does not matter: it gets new ones, unless it names only
one of the two. Transactions are not served yet; a transactional id is refused with a code that clients treat as final.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipeline_broker.apis.authorization import may, may_of_cluster, may_somewhere
from pipeline_broker.security.acl import AclOperation, ResourceType
from pipeline_broker.wire.error import ErrorCode
from pipeline_broker.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from stages.request import Result

if TYPE_CHECKING:
    from pipeline_broker.apis.call import Call

__all__ = ["REQUEST", "error_response", "handle"]

REQUEST = InitProducerIdRequest
NO_PRODUCER_ID = -1
NO_PRODUCER_EPOCH = -1


def handle(call: Call, request: InitProducerIdRequest) -> Result:
    """Allocate an id; answered when the block that it is from is durable."""
    transactional_id = request.transactional_id
    if transactional_id is not None:
        is_empty = not transactional_id and may(call, AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID, "")
        code = ErrorCode.INVALID_REQUEST if is_empty else ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        return call.send(error_response(request, call, code))
    if not may_of_cluster(call, AclOperation.IDEMPOTENT_WRITE) and not may_somewhere(
        call, AclOperation.WRITE, ResourceType.TOPIC
    ):
        return call.send(error_response(request, call, ErrorCode.CLUSTER_AUTHORIZATION_FAILED))
    if (request.producer_id == NO_PRODUCER_ID) != (request.producer_epoch == NO_PRODUCER_EPOCH):
        return call.send(error_response(request, call, ErrorCode.INVALID_REQUEST))
    allocation = call.broker.producer_ids.allocate()
    answer = call.send(InitProducerIdResponse(producer_id=allocation.producer_id, producer_epoch=0))
    if allocation.write is None:
        return answer
    return call.broker.commit_metadata([(allocation.write, call.broker.producer_ids.durable)], call.now_ms, answer)


def error_response(
    request: InitProducerIdRequest,
    call: Call,
    code: ErrorCode,
) -> InitProducerIdResponse:
    """The response that carries only an error."""
    return InitProducerIdResponse(error_code=code, producer_id=NO_PRODUCER_ID, producer_epoch=NO_PRODUCER_EPOCH)
