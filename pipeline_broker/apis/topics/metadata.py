"""Metadata: the broker, and topics with their partitions; creates a requested topic if auto-creation is enabled.

From version 12 a request may name topics by id; then names are ignored. A topic that is created here is visible once
durable. As in Apache Kafka, the client receives UNKNOWN_TOPIC_OR_PARTITION until then and retries. The answer is the
same if the broker already has `pipeline.auto.create.partitions` partitions; then nothing is created.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache

import attrs

from pipeline_broker.apis.authorization import (
    authorize_cluster,
    authorize_topic,
    authorized_operations,
    cluster_authorized_operations,
)
from pipeline_broker.apis.call import Call
from pipeline_broker.apis.leaders import Replicas, leader_for, replicas_for
from pipeline_broker.apis.steps import CHANGE_COST, Stepwise, commit_changes, everything, in_steps, pending_changes
from pipeline_broker.apis.throttling import check_changes
from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.broker.broker import Broker
from pipeline_broker.broker.leadership import Leader
from pipeline_broker.security.acl import AclOperation, ResourceType
from pipeline_broker.state.metadata_records import Topic
from pipeline_broker.state.outcome import Write
from pipeline_broker.state.topic_rules import PARTITIONS_MAX, TopicError, check_name
from pipeline_broker.wire.messages.topics.metadata import MetadataRequest, MetadataResponse
from pipeline_broker.wire.primitives import UUID_ZERO
from stages.request import Result

TopicResponse = MetadataResponse.MetadataResponseTopic
PartitionResponse = MetadataResponse.MetadataResponsePartition
IDS_FROM = 12
# Cost of describing a topic with a few partitions, about microseconds.
TOPIC_COST = 20
LISTENER_NOT_FOUND_FROM = 6
# Cached partition lists, by the leader's error. Each has at most 1.6 MB.
KNOWN_MAX = 8


logger = logging.getLogger(__name__)

Changes = list[tuple["Write", Callable[["Write"], None]]]


def handle(call: Call, request: MetadataRequest) -> Stepwise[Result]:
    # Version 0 has no null; there an empty list asks for all topics.
    if request.topics is None or (call.version == 0 and not request.topics):
        every = yield from everything(call.broker.topics.all())
        found = yield from in_steps(call, every, lambda topic: _describe_visible(call, topic, request), TOPIC_COST)
        visible = [topic for topic in found if topic is not None]
        return (yield from call.send_in_steps(_response(call, request, visible)))
    wrong = _check_ids(call, request.topics)
    if wrong is not None:
        return call.send(error_response(request, call, wrong))
    changes: Changes = []
    ids = dict.fromkeys(wanted.topic_id for wanted in request.topics if wanted.topic_id != UUID_ZERO)
    if ids:
        topics = yield from in_steps(call, ids, lambda topic_id: _find_by_id(call, topic_id, request), TOPIC_COST)
        return (yield from call.send_in_steps(_response(call, request, topics)))
    if call.broker.controller is not None and _may_create_any(call, request):
        return call.broker.controller.forward(call.request)
    topics = []
    # One request creates at most PARTITIONS_MAX partitions.
    left = PARTITIONS_MAX // call.broker.config.num_partitions
    for name in dict.fromkeys(wanted.name for wanted in request.topics if wanted.name is not None):
        before = len(changes)
        topics.append(_find(call, name, request, changes, may_create=left > 0))
        left -= len(changes) - before
        cost = CHANGE_COST if len(changes) > before else TOPIC_COST + len(topics[-1].partitions)
        if call.is_turn_over(cost):
            yield pending_changes(call, changes)
    return (yield from commit_changes(call, changes, _response(call, request, topics)))


def _check_ids(call: Call, wanted: list[MetadataRequest.MetadataRequestTopic]) -> ErrorCode | None:
    nulls = any(topic.name is None for topic in wanted)
    ids = any(topic.topic_id != UUID_ZERO for topic in wanted)
    # Null names and ids were in the layout before Kafka accepted them.
    if call.version < IDS_FROM:
        return ErrorCode.INVALID_REQUEST if nulls or ids else None
    return ErrorCode.UNKNOWN_SERVER_ERROR if nulls and not ids else None


def _response(call: Call, request: MetadataRequest, topics: list[TopicResponse]) -> MetadataResponse:
    leadership = call.broker.leadership
    response = MetadataResponse(
        brokers=[MetadataResponse.MetadataResponseBroker(*each) for each in leadership.brokers(call.session.listener)],
        cluster_id=call.broker.cluster_id,
        controller_id=leadership.controller_id(),
        topics=topics,
    )
    if request.include_cluster_authorized_operations:
        response.cluster_authorized_operations = cluster_authorized_operations(call)
    return response


def _find_by_id(call: Call, topic_id: bytes, request: MetadataRequest) -> TopicResponse:
    topic = call.broker.topics.by_id(topic_id)
    if topic is None:
        return TopicResponse(error_code=ErrorCode.UNKNOWN_TOPIC_ID, name=None, topic_id=topic_id)
    if not authorize_topic(call, AclOperation.DESCRIBE, topic.name):  # unlike the name, the id may be shown
        return TopicResponse(error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED, name=None, topic_id=topic_id)
    return _describe(call, topic, request)


def _find(call: Call, name: str, request: MetadataRequest, changes: Changes, *, may_create: bool) -> TopicResponse:
    # Checked before existence, so that the error does not reveal whether the topic exists.
    if not authorize_topic(call, AclOperation.DESCRIBE, name):
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
    """Decide the creation of a requested topic, if allowed; return the error for the client."""
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
        # Otherwise another request is creating it, the name is reserved, the client's quota is exhausted, or the broker
        # has too many partitions. The client retries in all cases.
    return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def _check_room(broker: Broker, name: str, partitions: int) -> None:
    """Refuse a topic that would exceed `pipeline.auto.create.partitions`. Count each refusal and log the first one.

    The broker's internal topics are always created.

    Raises:
        TopicError: the broker would have too many partitions.
    """
    if name in broker.internal_topics:
        return
    try:
        broker.topics.check_room(partitions, broker.config.pipeline_auto_create_partitions)
    except TopicError as error:
        broker.topics.not_created += 1
        if broker.topics.not_created == 1:
            logger.warning(
                "cannot create a topic on request, because of pipeline.auto.create.partitions: %s", error.message
            )
        raise


def _may_create_any(call: Call, request: MetadataRequest) -> bool:
    if not (call.broker.config.auto_create_topics_enable and request.allow_auto_topic_creation):
        return False
    names = [wanted.name for wanted in request.topics or () if wanted.name is not None]
    return any(call.broker.topics.get(name) is None for name in names)


def _may_create(call: Call, name: str) -> bool:
    return authorize_cluster(call, AclOperation.CREATE, is_logged=False) or authorize_topic(
        call, AclOperation.CREATE, name
    )


def _describe_visible(call: Call, topic: Topic, request: MetadataRequest) -> TopicResponse | None:
    is_visible = authorize_topic(call, AclOperation.DESCRIBE, topic.name, is_logged=False)
    return _describe(call, topic, request) if is_visible else None


def _describe(call: Call, topic: Topic, request: MetadataRequest) -> TopicResponse:
    response = TopicResponse(
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.name in call.broker.internal_topics,
        partitions=_partitions_of(call, topic),
    )
    if request.include_topic_authorized_operations:
        response.topic_authorized_operations = authorized_operations(call, ResourceType.TOPIC, topic.name)
    return response


def _partitions_of(call: Call, topic: Topic) -> list[PartitionResponse]:
    leadership, knows_listeners = call.broker.leadership, call.version >= LISTENER_NOT_FOUND_FROM
    if not leadership.leads_all:
        return list(_partitions_in_cluster(call, topic, knows_listeners=knows_listeners))
    code, leader = leader_for(call, topic.name, 0, knows_listeners=knows_listeners)
    replicas = replicas_for(call, topic.name, 0)
    partitions = _shared_partitions(code, leader, replicas, topic.partitions)[: topic.partitions]
    for log in call.broker.logs.partitions(topic.name):
        if log.leader_epoch != leader.epoch and log.partition < len(partitions):
            partitions[log.partition] = attrs.evolve(partitions[log.partition], leader_epoch=log.leader_epoch)
    return partitions


def _partitions_in_cluster(call: Call, topic: Topic, *, knows_listeners: bool) -> Iterator[PartitionResponse]:
    leadership = call.broker.leadership
    alike = leadership.alike(topic, range(topic.partitions))
    shared = {}
    for first in set(alike):
        code, leader = leader_for(call, topic.name, first, knows_listeners=knows_listeners)
        replicas = replicas_for(call, topic.name, first)
        shared[first] = code, leader, tuple(map(list, replicas)), _known_by_number(code, leader, replicas)
    for index, first in enumerate(alike):
        code, leader, lists, known = shared[first]
        partition = known.get(index)
        if partition is None:
            partition = known[index] = _partition(code, leader, lists, index)
        yield partition


def _shared_partitions(code: ErrorCode, leader: Leader, replicas: Replicas, count: int) -> list[PartitionResponse]:
    """Return at least the first `count` partitions of any topic; all topics share them, so they must not be changed."""
    known = _known_partitions(code, leader, replicas)
    lists = tuple(map(list, replicas))  # shared, too
    known.extend(_partition(code, leader, lists, index) for index in range(len(known), count))
    return known


def _partition(code: ErrorCode, leader: Leader, lists: Sequence[list[int]], index: int) -> PartitionResponse:
    return PartitionResponse(
        error_code=code,
        partition_index=index,
        leader_id=leader.broker_id,
        leader_epoch=leader.epoch,
        replica_nodes=lists[0],
        isr_nodes=lists[1],
        offline_replicas=lists[2],
    )


# The list grows to the partitions of the largest topic, at most PARTITIONS_MAX.
@lru_cache(maxsize=KNOWN_MAX)
def _known_partitions(code: ErrorCode, leader: Leader, replicas: Replicas) -> list[PartitionResponse]:
    return []


# As above, but each broker leads only some partitions.
@lru_cache(maxsize=KNOWN_MAX)
def _known_by_number(code: ErrorCode, leader: Leader, replicas: Replicas) -> dict[int, PartitionResponse]:
    return {}


def error_response(request: MetadataRequest, call: Call, code: ErrorCode) -> MetadataResponse:
    """Build the error response for every named topic, without the cluster, as in Kafka."""
    topics = [
        TopicResponse(error_code=code, name=wanted.name or "", topic_id=wanted.topic_id)
        for wanted in request.topics or ()
    ]
    return MetadataResponse(topics=topics, error_code=code)
