"""FindCoordinator: the leader of the partition with the key; the request creates the topic of the coordinators."""

from __future__ import annotations

import re

from pipeline_broker.apis.authorization import authorize, authorize_cluster
from pipeline_broker.apis.call import Call
from pipeline_broker.apis.coordinator_topic import answer_with_topic
from pipeline_broker.apis.refusals import REFUSAL_TEXTS
from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.broker.broker import Broker
from pipeline_broker.broker.coordinator import InternalTopic
from pipeline_broker.broker.leadership import NO_BROKER, BrokerAddress
from pipeline_broker.security.acl import AclOperation, ResourceType
from pipeline_broker.wire.messages.groups.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from stages.request import Result, Send

GROUP = 0
TRANSACTION = 1
SHARE = 2
SHARE_FROM = 6
# The key of a share partition: group, topic id, partition.
SHARE_KEY = re.compile(r"(.+):[A-Za-z0-9_-]{22}:[0-9]+")
RESOURCE_TYPES = {GROUP: ResourceType.GROUP, TRANSACTION: ResourceType.TRANSACTIONAL_ID}
FORBIDDEN = {
    GROUP: ErrorCode.GROUP_AUTHORIZATION_FAILED,
    TRANSACTION: ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    SHARE: ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
}
MANY_FROM = 4
NO_PORT = -1
NOT_FOUND = BrokerAddress(NO_BROKER, "", NO_PORT)


def handle(call: Call, request: FindCoordinatorRequest) -> Result:
    broker = call.broker
    known = {GROUP, TRANSACTION} if call.version < SHARE_FROM else FORBIDDEN.keys()
    if request.key_type not in known:
        return call.send(error_response(request, call, ErrorCode.INVALID_REQUEST))
    if not broker.leadership.brokers(call.session.listener):
        return call.send(error_response(request, call, ErrorCode.COORDINATOR_NOT_AVAILABLE))
    answer = call.send(_response(request, call, ErrorCode.NONE))
    topic = _topic(broker, request.key_type)
    # A request without an allowed key must not create the topic.
    if topic.exists or all(_refusal(call, request, key) for key in _keys(request, call)):
        return answer
    if broker.controller is not None:
        return broker.controller.forward(call.request)

    def busy() -> Send:
        return call.send(error_response(request, call, ErrorCode.COORDINATOR_NOT_AVAILABLE))

    # In a cluster the leaders are unknown until the topic exists, so the client asks again, as with Apache Kafka.
    return answer_with_topic(call, topic, answer if broker.members is None else busy(), busy)


def _topic(broker: Broker, key_type: int) -> InternalTopic:
    if key_type == GROUP:
        return broker.groups.topic
    return broker.transactions.topic if key_type == TRANSACTION else broker.share.topic


def error_response(request: FindCoordinatorRequest, call: Call, code: ErrorCode) -> FindCoordinatorResponse:
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
    return REFUSAL_TEXTS.get(code, code.name)


def _text_of_many(key_type: int, code: ErrorCode) -> str:
    # Kafka sends a message for an authorization error only if the request has one key, or asks for a share coordinator.
    if code is ErrorCode.NONE or (code in REFUSAL_TEXTS and key_type != SHARE):
        return ""
    return _text_of_one(code)


def _keys(request: FindCoordinatorRequest, call: Call) -> list[str]:
    return [request.key] if call.version < MANY_FROM else request.coordinator_keys


def _refusal(call: Call, request: FindCoordinatorRequest, key: str) -> ErrorCode:
    if request.key_type != SHARE:
        is_allowed = authorize(call, AclOperation.DESCRIBE, RESOURCE_TYPES[request.key_type], key)
    else:  # authorized before the key is parsed: only brokers look up share coordinators
        is_allowed = authorize_cluster(call, AclOperation.CLUSTER_ACTION)
        if is_allowed and not SHARE_KEY.fullmatch(key):
            return ErrorCode.INVALID_REQUEST
    return ErrorCode.NONE if is_allowed else FORBIDDEN[request.key_type]


def _coordinator(
    call: Call, request: FindCoordinatorRequest, key: str, code: ErrorCode
) -> FindCoordinatorResponse.Coordinator:
    if code is ErrorCode.NONE:
        code = _refusal(call, request, key)
    found = None
    if code is ErrorCode.NONE:
        topic = _topic(call.broker, request.key_type)
        found = call.broker.leadership.coordinator(call.session.listener, topic.name, topic.partition_of(key))
        code = ErrorCode.NONE if found is not None else ErrorCode.COORDINATOR_NOT_AVAILABLE
    node_id, host, port = found or NOT_FOUND
    return FindCoordinatorResponse.Coordinator(
        key=key,
        node_id=node_id,
        host=host,
        port=port,
        error_code=code,
        error_message=_text_of_many(request.key_type, code),
    )
