"""Metadata: the broker, and topics with their partitions; a topic asked for may be created (auto-create).

The version-10 request names topics by id as well. A topic that is created here is shown when it is durable; the client
is answered LEADER_NOT_AVAILABLE and asks again, as Apache Kafka does.
"""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

from pipeline_broker.broker import OFFSETS_TOPIC
from pipeline_broker.state.topics import NO_TOPIC_ID, Topic, TopicError, check_topic_name
from pipeline_broker.wire.error import ErrorCode
from pipeline_broker.wire.messages.metadata import MetadataRequest, MetadataResponse
from stages.request import Pending, Result

if TYPE_CHECKING:
    from pipeline_broker.apis.call import Call
    from pipeline_broker.state.outcome import StateRecord

__all__ = ["REQUEST", "error_response", "handle", "new_topic_id"]

REQUEST = MetadataRequest
TopicResponse = MetadataResponse.MetadataResponseTopic
PartitionResponse = MetadataResponse.MetadataResponsePartition
LEADER_EPOCH = 0
ALL_OPERATIONS = 0b0000_1101_1111_1000
"""READ, WRITE, CREATE, DELETE, ALTER, DESCRIBE, DESCRIBE_CONFIGS, ALTER_CONFIGS: everybody may do everything."""
ALL_CLUSTER_OPERATIONS = 0b0011_1111_0010_0000 & ~0b0010_0000_0000_0000
NULL_NAME_FROM = 12


def new_topic_id() -> bytes:
    """A topic id that is used by no other topic."""
    return uuid.uuid4().bytes


def handle(call: Call, request: MetadataRequest) -> Result:
    """Answer, and create the topics that may be."""
    # Version 0 has no null; there an empty list asks for all topics.
    wants_all = request.topics is None or (call.version == 0 and not request.topics)
    records: list[StateRecord] = []
    if wants_all:
        topics = [_describe(call, topic, request) for topic in call.broker.topics]
    else:
        topics = [_find(call, wanted, request, records) for wanted in request.topics or ()]
    response = call.send(_response(call, request, topics))
    if not records:
        return response
    pending = call.broker.commit_metadata(records, call.now_ms, lambda: response)
    assert isinstance(pending, Pending)
    return pending


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
    records: list[StateRecord],
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
    return _refusal(call, wanted, _auto_create(call, wanted.name, request, records))


def _auto_create(
    call: Call, name: str, request: MetadataRequest, records: list[StateRecord]
) -> ErrorCode:
    """Decide the creation of a topic that is asked for, if it may be; what the client is told meanwhile."""
    broker = call.broker
    try:
        check_topic_name(name)
    except TopicError as error:
        return error.code
    if not (broker.config.auto_create_topics_enable and request.allow_auto_topic_creation):
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    count = broker.config.offsets_topic_num_partitions if name == OFFSETS_TOPIC else broker.config.num_partitions
    settings = {"cleanup.policy": "compact"} if name == OFFSETS_TOPIC else {}
    try:
        broker.topics.check_create(name, count, 1)
    except TopicError as error:
        if error.code is ErrorCode.TOPIC_ALREADY_EXISTS:  # another request is creating it
            return ErrorCode.LEADER_NOT_AVAILABLE
        return error.code
    records += broker.topics.create(Topic(name, new_topic_id(), count, settings))
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
            for index in range(topic.partition_count)
        ],
    )
    if request.include_topic_authorized_operations:
        response.topic_authorized_operations = ALL_OPERATIONS
    return response


def error_response(request: MetadataRequest, call: Call, code: ErrorCode) -> MetadataResponse:
    """Every topic that was named with the same error."""
    topics = [_refusal(call, wanted, code) for wanted in request.topics or ()]
    return _response(call, MetadataRequest(), topics)
