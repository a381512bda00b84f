"""DescribeTopicPartitions: topics in the order of their names, page by page.

A page may end in the middle of a topic; its cursor is the start of the next page. An empty list requests all topics.
"""

from __future__ import annotations

from functools import partial
from itertools import compress

from pipeline_broker.apis.authorization import authorize_topic, authorized_operations
from pipeline_broker.apis.call import Call
from pipeline_broker.apis.leaders import Replicas, leader_for, replicas_for
from pipeline_broker.apis.steps import Stepwise, everything, in_steps
from pipeline_broker.apis.topics.metadata import TOPIC_COST
from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.broker.leadership import Leader
from pipeline_broker.security.acl import AclOperation, ResourceType
from pipeline_broker.state.metadata_records import Topic
from pipeline_broker.state.topic_rules import TopicError, check_name
from pipeline_broker.wire.messages.topics.describe_topic_partitions import (
    DescribeTopicPartitionsCursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
)
from stages.request import Send

TopicResponse = DescribeTopicPartitionsResponse.DescribeTopicPartitionsResponseTopic
PartitionResponse = DescribeTopicPartitionsResponse.DescribeTopicPartitionsResponsePartition
# Cost of deciding whether a client may see a topic, about microseconds.
RIGHT_COST = 2


def handle(call: Call, request: DescribeTopicPartitionsRequest) -> Stepwise[Send]:
    cursor = request.cursor
    first, index = ("", 0) if cursor is None else (cursor.topic_name, cursor.partition_index)
    if request.topics:
        names = sorted({topic.name for topic in request.topics if topic.name >= first})
    else:
        every = yield from everything(call.broker.topics.all())
        names = sorted(topic.name for topic in every if topic.name >= first)
    # The cursor must name a requested topic. If all topics are requested, its topic may have been deleted since.
    if cursor is not None and (index < 0 or (request.topics and first not in names)):
        return call.send(error_response(request, call, ErrorCode.INVALID_REQUEST))
    is_allowed = yield from in_steps(call, names, partial(authorize_topic, call, AclOperation.DESCRIBE), RIGHT_COST)
    forbidden = [name for name, allowed in zip(names, is_allowed, strict=True) if not allowed] if request.topics else []
    names = list(compress(names, is_allowed))
    left = max(min(call.broker.config.max_request_partition_size_limit, request.response_partition_limit), 1)
    response = DescribeTopicPartitionsResponse()
    for name in names:
        if not left:
            response.next_cursor = DescribeTopicPartitionsCursor(name, 0)
            break
        topic = call.broker.topics.get(name)
        start = index if name == first else 0
        stop = min(topic.partitions, start + left) if topic is not None else 0
        response.topics.append(_describe(call, name, topic, range(start, stop)))
        if call.spend(TOPIC_COST + stop - start):
            yield None
        left -= max(stop - start, 0)
        if topic is not None and start < stop < topic.partitions:
            response.next_cursor = DescribeTopicPartitionsCursor(name, stop)
            break
    response.topics += [TopicResponse(name=name, error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED) for name in forbidden]
    return (yield from call.send_in_steps(response))


def _describe(call: Call, name: str, topic: Topic | None, partitions: range) -> TopicResponse:
    operations = authorized_operations(call, ResourceType.TOPIC, name)
    response = TopicResponse(name=name, topic_authorized_operations=operations)
    if topic is None:
        response.error_code = _why_unknown(name)
        return response
    response.topic_id = topic.topic_id
    response.is_internal = name in call.broker.internal_topics
    leadership = call.broker.leadership
    alike = leadership.alike(topic, partitions)
    # Kafka sends the error in Metadata only.
    leaders = {first: (leader_for(call, name, first)[1], replicas_for(call, name, first)) for first in set(alike)}
    response.partitions = [
        _describe_partition(*leaders[first], index) for index, first in zip(partitions, alike, strict=True)
    ]
    return response


def _describe_partition(leader: Leader, replicas: Replicas, index: int) -> PartitionResponse:
    return PartitionResponse(
        partition_index=index,
        leader_id=leader.broker_id,
        leader_epoch=leader.epoch,
        replica_nodes=list(replicas.all),
        isr_nodes=list(replicas.in_sync),
        eligible_leader_replicas=[],
        last_known_elr=[],
        offline_replicas=list(replicas.offline),
    )


def _why_unknown(name: str) -> ErrorCode:
    try:
        check_name(name)
    except TopicError as error:
        return error.code
    return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def error_response(
    request: DescribeTopicPartitionsRequest,
    call: Call,
    code: ErrorCode,
) -> DescribeTopicPartitionsResponse:
    return DescribeTopicPartitionsResponse(
        topics=[TopicResponse(name=topic.name, error_code=code) for topic in request.topics]
    )
