"""FindCoordinator: one broker coordinates everything; asking for a group's coordinator makes `__consumer_offsets`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipeline_broker.apis.authorization import REFUSAL_TEXTS, may
from pipeline_broker.coordinators import OFFSETS_TOPIC
from pipeline_broker.security.acl import AclOperation, ResourceType
from pipeline_broker.wire.error import ErrorCode
from pipeline_broker.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from stages.request import Result

if TYPE_CHECKING:
    from pipeline_broker.apis.call import Call

__all__ = ["REQUEST", "error_response", "handle"]

REQUEST = FindCoordinatorRequest
GROUP = 0
TRANSACTION = 1
RESOURCE_TYPES = {GROUP: ResourceType.GROUP, TRANSACTION: ResourceType.TRANSACTIONAL_ID}
FORBIDDEN = {
    GROUP: ErrorCode.GROUP_AUTHORIZATION_FAILED,
    TRANSACTION: ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
}
MANY_FROM = 4
NO_NODE = -1


def handle(call: Call, request: FindCoordinatorRequest) -> Result:
    """Name this broker, once there is a place for what it coordinates."""
    broker = call.broker
    if request.key_type not in {GROUP, TRANSACTION}:
        return call.send(error_response(request, call, ErrorCode.INVALID_REQUEST))
    if call.address is None:
        return call.send(error_response(request, call, ErrorCode.COORDINATOR_NOT_AVAILABLE))
    answer = call.send(_response(request, call, ErrorCode.NONE))
    if (
        request.key_type == TRANSACTION
        or broker.groups.is_ready
        or not any(_may_describe(call, request, key) for key in _keys(request, call))
    ):
        return answer
    if broker.topics.latest(OFFSETS_TOPIC) is not None or not broker.can_write:  # somebody else asked a moment ago
        return call.send(error_response(request, call, ErrorCode.COORDINATOR_NOT_AVAILABLE))
    write = broker.topics.create(broker.new_topic(OFFSETS_TOPIC))
    return broker.commit_metadata([(write, broker.topic_durable)], call.now_ms, answer)


def error_response(request: FindCoordinatorRequest, call: Call, code: ErrorCode) -> FindCoordinatorResponse:
    """No coordinator for any key, and why."""
    return _response(request, call, code)


def _response(request: FindCoordinatorRequest, call: Call, code: ErrorCode) -> FindCoordinatorResponse:
    coordinators = [_coordinator(call, request, key, code) for key in _keys(request, call)]
    if call.version >= MANY_FROM:
        return FindCoordinatorResponse(coordinators=coordinators)
    (only,) = coordinators
    return FindCoordinatorResponse(
        error_code=only.error_code,
        error_message=_text_of_one(ErrorCode(only.error_code)),
        node_id=only.node_id,
        host=only.host,
        port=only.port,
    )


def _text_of_one(code: ErrorCode) -> str:
    """Refusals have a text where a request is about one key only."""
    return REFUSAL_TEXTS.get(code, code.name)


def _keys(request: FindCoordinatorRequest, call: Call) -> list[str]:
    return [request.key] if call.version < MANY_FROM else request.coordinator_keys


def _may_describe(call: Call, request: FindCoordinatorRequest, key: str) -> bool:
    return may(call, AclOperation.DESCRIBE, RESOURCE_TYPES[request.key_type], key)


def _coordinator(
    call: Call, request: FindCoordinatorRequest, key: str, code: ErrorCode
) -> FindCoordinatorResponse.Coordinator:
    if code is ErrorCode.NONE and not _may_describe(call, request, key):
        code = FORBIDDEN[request.key_type]
    node_id, host, port = NO_NODE, "", NO_NODE
    if code is ErrorCode.NONE and call.address is not None:
        node_id, (host, port) = call.broker.config.node_id, call.address
    return FindCoordinatorResponse.Coordinator(
        key=key,
        node_id=node_id,
        host=host,
        port=port,
        error_code=code,
        error_message="" if code is ErrorCode.NONE or code in REFUSAL_TEXTS else code.name,
    )
