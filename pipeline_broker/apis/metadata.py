"""Metadata: the broker, and topics with their partitions; a topic asked for may be created (auto-create).

The version-10 request names topics by id as well. A topic that is created here is shown when it is durable; the client
is answered LEADER_NOT_AVAILABLE and asks again, as Apache Kafka does.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from pipeline_broker.state.metadata_records import Topic
from pipeline_broker.state.topic_rules import TopicError, check_name
from pipeline_broker.wire.error import ErrorCode
from pipeline_broker.wire.messages.metadata import MetadataRequest, MetadataResponse
from stages.request import Result

if TYPE_CHECKING:
    from pipeline_broker.apis.call import Call
    from pipeline_broker.state.outcome import Write

__all__ = ["REQUEST", "error_response", "handle"]

REQUEST = MetadataRequest
TopicResponse = MetadataResponse.MetadataResponseTopic
PartitionResponse = MetadataResponse.MetadataResponsePartition
LEADER_EPOCH = 0
ALL_OPERATIONS = 0b0000_1101_1111_1000
"""READ, WRITE, CREATE, DELETE, ALTER, DESCRIBE, DESCRIBE_CONFIGS, ALTER_CONFIGS: everybody may do everything."""
ALL_CLUSTER_OPERATIONS = 0b0011_1111_0010_0000 & ~0b0010_0000_0000_0000
NULL_NAME_FROM = 12
NO_TOPIC_ID = bytes(16)


Changes = list[tuple["Write", Callable[["Write"], None]]]


def handle(call: Call, request: MetadataRequest) -> Result:
    """Answer, and create the topics that may be."""
    # Version 0 has no null; there an empty list asks for all topics.
    wants_all = request.topics is None or (call.version == 0 and not request.topics)
    changes: Changes = []
    if wants_all:
        topics = [_describe(call, topic, request) for topic in call.broker.topics.all()]
    else:
        topics = [_find(call, wanted, request, changes) for wanted in request.topics or ()]
    return call.broker.commit_metadata(changes, call.now_ms, call.send(_response(call, request, topics)))


def _response(call: Call, request: MetadataRequest, topics: list[TopicResponse]) -> MetadataResponse:
    broker = call.broker
    response = MetadataResponse(
        brokers=[
            MetadataResponse.MetadataResponseBroker(
                node_id=broker.config.node_id, host=broker.advertised_host, port=broker.advertised_port
            )
        ],
        cluster_id=broker.cluster_id,
        controller_id=broker.config.node_id,
        topics=topics,
    )
    if request.include_cluster_authorized_operations:
        response.cluster_authorized_operations = ALL_CLUSTER_OPERATIONS
    return response


def _find(
    call: Call,
    wanted: MetadataRequest.MetadataRequestTopic,
    request: MetadataRequest,
    changes: Changes,
) -> TopicResponse:
    broker = call.broker
    if wanted.topic_id != NO_TOPIC_ID:
        topic = broker.topics.by_id(wanted.topic_id)
        if topic is None:
            return _refusal(call, wanted, ErrorCode.UNKNOWN_TOPIC_ID)
        return _describe(call, topic, request)
    if wanted.name is None:
        return _refusal(call, wanted, ErrorCode.UNKNOWN_TOPIC_ID)
    topic = broker.topics.get(wanted.name)
    if topic is not None:
        return _describe(call, topic, request)
    return _refusal(call, wanted, _auto_create(call, wanted.name, request, changes))


def _auto_create(call: Call, name: str, request: MetadataRequest, changes: Changes) -> ErrorCode:
    """Decide the creation of a topic that is asked for, if it may be; what the client is told meanwhile."""
    broker = call.broker
    try:
        check_name(name)
        if not (broker.config.auto_create_topics_enable and request.allow_auto_topic_creation):
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        changes.append((broker.topics.create(broker.new_topic(name)), broker.topic_durable))
    except TopicError as error:
        if error.code is not ErrorCode.TOPIC_ALREADY_EXISTS:  # else another request is creating it
            return error.code
    return ErrorCode.LEADER_NOT_AVAILABLE


def _refusal(call: Call, wanted: MetadataRequest.MetadataRequestTopic, code: ErrorCode) -> TopicResponse:
    name = wanted.name if wanted.name is not None or call.version >= NULL_NAME_FROM else ""
    internal = wanted.name in call.broker.internal_topics
    return TopicResponse(error_code=code, name=name, topic_id=wanted.topic_id, is_internal=internal)


def _describe(call: Call, topic: Topic, request: MetadataRequest) -> TopicResponse:
    node_id = call.broker.config.node_id
    response = TopicResponse(
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.name in call.broker.internal_topics,
        partitions=[
            PartitionResponse(
                partition_index=index,
                leader_id=node_id,
                leader_epoch=LEADER_EPOCH,
                replica_nodes=[node_id],
                isr_nodes=[node_id],
            )
            for index in range(topic.partitions)
        ],
    )
    if request.include_topic_authorized_operations:
        response.topic_authorized_operations = ALL_OPERATIONS
    return response


def error_response(request: MetadataRequest, call: Call, code: ErrorCode) -> MetadataResponse:
    """Every topic that was named with the same error."""
    topics = [_refusal(call, wanted, code) for wanted in request.topics or ()]
    return _response(call, MetadataRequest(), topics)
