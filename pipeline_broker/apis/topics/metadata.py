"""Metadata: the broker, and topics with their partitions; a topic asked for may be created (auto-create).

From version 12 on topics may be named by id: where one is, names do not count. A topic that is created here is shown
when it is durable; the client is answered UNKNOWN_TOPIC_OR_PARTITION and asks again, as with Apache Kafka. While the
broker has `pipeline.auto.create.partitions` partitions, nothing is created here, and the answer is the same.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import lru_cache

from pipeline_broker.apis.authorization import (
    authorized_operations,
    may_of_cluster,
    may_of_topic,
    operations_of_cluster,
)
from pipeline_broker.apis.call import Call
from pipeline_broker.apis.leader_epoch import LEADER_EPOCH, leader_of
from pipeline_broker.apis.steps import CHANGE_COST, Stepwise, commit_changes, in_steps, submitted
from pipeline_broker.apis.throttling import check_changes
from pipeline_broker.broker.broker import Broker
from pipeline_broker.security.acl import AclOperation, ResourceType
from pipeline_broker.state.metadata_records import Topic
from pipeline_broker.state.outcome import Write
from pipeline_broker.state.topic_rules import PARTITIONS_MAX, TopicError, check_name
from pipeline_broker.wire.error import ErrorCode
from pipeline_broker.wire.messages.topics.metadata import MetadataRequest, MetadataResponse
from pipeline_broker.wire.primitives import UUID_ZERO
from stages.request import Result

TopicResponse = MetadataResponse.MetadataResponseTopic
PartitionResponse = MetadataResponse.MetadataResponsePartition
IDS_FROM = 12
TOPIC_COST = 20
"""Of describing one with a few partitions, about microseconds."""
LISTENER_NOT_FOUND_FROM = 6
KNOWN_MAX = 8
"""Answers of all partitions that are remembered, by what is wrong with their leader: 1.6 MB each at most."""


logger = logging.getLogger(__name__)

Changes = list[tuple["Write", Callable[["Write"], None]]]


def handle(call: Call, request: MetadataRequest) -> Stepwise[Result]:
    """Answer, and create the topics that may be."""
    # Version 0 has no null; there an empty list asks for all topics.
    if request.topics is None or (call.version == 0 and not request.topics):
        visible = [
            topic
            for topic in call.broker.topics.all()
            if may_of_topic(call, AclOperation.DESCRIBE, topic.name, is_logged=False)
        ]
        topics = yield from in_steps(call, visible, lambda topic: _describe(call, topic, request), TOPIC_COST)
        return (yield from call.send_in_steps(_response(call, request, topics)))
    wrong = _check_ids(call, request.topics)
    if wrong is not None:
        return call.send(error_response(request, call, wrong))
    changes: Changes = []
    ids = dict.fromkeys(wanted.topic_id for wanted in request.topics if wanted.topic_id != UUID_ZERO)
    if ids:
        topics = yield from in_steps(call, ids, lambda topic_id: _find_by_id(call, topic_id, request), TOPIC_COST)
        return (yield from call.send_in_steps(_response(call, request, topics)))
    topics = []
    left = PARTITIONS_MAX // call.broker.config.num_partitions
    for name in dict.fromkeys(wanted.name for wanted in request.topics if wanted.name is not None):
        before = len(changes)
        topics.append(_find(call, name, request, changes, may_create=left > 0))
        left -= len(changes) - before
        if call.is_turn_over(CHANGE_COST if len(changes) > before else TOPIC_COST):
            yield submitted(call, changes)
    return (yield from commit_changes(call, changes, _response(call, request, topics)))


def _check_ids(call: Call, wanted: list[MetadataRequest.MetadataRequestTopic]) -> ErrorCode | None:
    """What is wrong with how topics are named; null and ids were in the layout before anybody could use them."""
    nulls = any(topic.name is None for topic in wanted)
    ids = any(topic.topic_id != UUID_ZERO for topic in wanted)
    if call.version < IDS_FROM:
        return ErrorCode.INVALID_REQUEST if nulls or ids else None
    return ErrorCode.UNKNOWN_SERVER_ERROR if nulls and not ids else None


def _response(call: Call, request: MetadataRequest, topics: list[TopicResponse]) -> MetadataResponse:
    broker = call.broker
    response = MetadataResponse(
        brokers=[]
        if call.address is None
        else [MetadataResponse.MetadataResponseBroker(broker.config.node_id, *call.address)],
        cluster_id=broker.cluster_id,
        controller_id=broker.config.node_id,
        topics=topics,
    )
    if request.include_cluster_authorized_operations:
        response.cluster_authorized_operations = operations_of_cluster(call)
    return response


def _find_by_id(call: Call, topic_id: bytes, request: MetadataRequest) -> TopicResponse:
    topic = call.broker.topics.by_id(topic_id)
    if topic is None:
        return TopicResponse(error_code=ErrorCode.UNKNOWN_TOPIC_ID, name=None, topic_id=topic_id)
    if not may_of_topic(call, AclOperation.DESCRIBE, topic.name):  # an id is no secret
        return TopicResponse(error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED, name=None, topic_id=topic_id)
    return _describe(call, topic, request)


def _find(call: Call, name: str, request: MetadataRequest, changes: Changes, *, may_create: bool) -> TopicResponse:
    if not may_of_topic(call, AclOperation.DESCRIBE, name):
        return TopicResponse(error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED, name=name)
    topic = call.broker.topics.get(name)
    if topic is not None:
        return _describe(call, topic, request)
    response = TopicResponse(
        error_code=_auto_create(call, name, request, changes, may_create=may_create),
        name=name,
        is_internal=name in call.broker.internal_topics,
    )
    is_refused = response.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    if request.include_topic_authorized_operations and not is_refused:  # KafkaApis.handleTopicMetadataRequest
        response.topic_authorized_operations = authorized_operations(call, ResourceType.TOPIC, name)
    return response


def _auto_create(call: Call, name: str, request: MetadataRequest, changes: Changes, *, may_create: bool) -> ErrorCode:
    """Decide the creation of a topic that is asked for, if it may be; what the client is told meanwhile."""
    broker = call.broker
    is_allowed = broker.config.auto_create_topics_enable and request.allow_auto_topic_creation
    if is_allowed and not _may_create(call, name):
        return ErrorCode.TOPIC_AUTHORIZATION_FAILED
    try:
        check_name(name)
        if is_allowed and may_create and broker.can_write:
            new = broker.new_topic(name)
            partitions = broker.topics.check_create(new).partitions
            _check_room(broker, name, partitions)
            check_changes(call.quota, partitions, strict=True, throttles=False)
            changes.append((broker.topics.create(new), broker.topic_durable))
    except TopicError as error:
        if error.code is ErrorCode.INVALID_TOPIC_EXCEPTION:
            return error.code
        # Else another request is creating it, or it is a name of the broker's own, or the client's quota is used up, or
        # there are too many partitions.
    return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def _check_room(broker: Broker, name: str, partitions: int) -> None:
    """Refuse a topic that would exceed `pipeline.auto.create.partitions`; the log says so once.

    Topics that the broker needs for itself, as for committed offsets, are always made.
    """
    if name in broker.internal_topics:
        return
    try:
        broker.topics.check_room(partitions, broker.config.pipeline_auto_create_partitions)
    except TopicError as error:
        broker.topics.not_created += 1
        if broker.topics.not_created == 1:
            logger.warning(
                "a topic that was asked for is not created: pipeline.auto.create.partitions: %s", error.message
            )
        raise


def _may_create(call: Call, name: str) -> bool:
    return may_of_cluster(call, AclOperation.CREATE, is_logged=False) or may_of_topic(call, AclOperation.CREATE, name)


def _describe(call: Call, topic: Topic, request: MetadataRequest) -> TopicResponse:
    node_id = call.broker.config.node_id
    code, leader_id = leader_of(call, knows_listeners=call.version >= LISTENER_NOT_FOUND_FROM)
    response = TopicResponse(
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.name in call.broker.internal_topics,
        partitions=_partitions(code, leader_id, node_id, topic.partitions),
    )
    if request.include_topic_authorized_operations:
        response.topic_authorized_operations = authorized_operations(call, ResourceType.TOPIC, topic.name)
    return response


def _partitions(code: ErrorCode, leader_id: int, node_id: int, count: int) -> list[PartitionResponse]:
    """The first partitions of a topic, which look like those of any other: nothing may change them."""
    known = _known_partitions(code, leader_id, node_id)
    nodes, offline = [node_id], [node_id] if code else []
    known.extend(
        PartitionResponse(
            error_code=code,
            partition_index=index,
            leader_id=leader_id,
            leader_epoch=LEADER_EPOCH,
            replica_nodes=nodes,
            isr_nodes=nodes,
            offline_replicas=offline,
        )
        for index in range(len(known), count)
    )
    return known[:count]


@lru_cache(maxsize=KNOWN_MAX)
def _known_partitions(code: ErrorCode, leader_id: int, node_id: int) -> list[PartitionResponse]:
    """Those of the largest topic so far, at most PARTITIONS_MAX."""
    return []


def error_response(request: MetadataRequest, call: Call, code: ErrorCode) -> MetadataResponse:
    """Every topic that was named with the same error, and nothing of the cluster, as in Kafka."""
    topics = [
        TopicResponse(error_code=code, name=wanted.name or "", topic_id=wanted.topic_id)
        for wanted in request.topics or ()
    ]
    return MetadataResponse(topics=topics, error_code=code)
