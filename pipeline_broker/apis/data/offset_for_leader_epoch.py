"""OffsetForLeaderEpoch: the end offset of a leader epoch, by which consumers detect truncation (KIP-320).

The latest epoch ends at the high watermark, and a later one has no end offset. As in Apache Kafka, an epoch below all
known ones ends at the log start offset, also if it is negative. A client authorized for CLUSTER_ACTION may query all
topics; the replica id in the request grants nothing.
"""

from __future__ import annotations

from functools import partial

from pipeline_broker.apis.authorization import authorize_cluster, topics_allowed
from pipeline_broker.apis.call import Call
from pipeline_broker.apis.steps import ELEMENT_COST, Stepwise, in_steps
from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.broker.leadership import epoch_error
from pipeline_broker.security.acl import AclOperation
from pipeline_broker.wire.messages.data.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
)
from stages.request import Result

EpochEndOffset = OffsetForLeaderEpochResponse.EpochEndOffset
TopicResult = OffsetForLeaderEpochResponse.OffsetForLeaderTopicResult


def handle(call: Call, request: OffsetForLeaderEpochRequest) -> Stepwise[Result]:
    is_broker = authorize_cluster(call, AclOperation.CLUSTER_ACTION, is_logged=False)
    is_allowed = topics_allowed(call, AclOperation.DESCRIBE)
    forbidden = partial(_refusal, code=ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    topics = []
    for topic in request.topics:
        if is_broker or is_allowed(topic.topic):
            found = yield from in_steps(call, topic.partitions, partial(_look_up, call, topic.topic))
        else:
            found = yield from in_steps(call, topic.partitions, forbidden)
        topics.append(TopicResult(topic.topic, found))
        if call.spend(ELEMENT_COST):
            yield None
    return (yield from call.send_in_steps(OffsetForLeaderEpochResponse(topics=topics)))


def _look_up(call: Call, name: str, data: OffsetForLeaderEpochRequest.OffsetForLeaderPartition) -> EpochEndOffset:
    log = call.broker.find_log(name, b"", data.partition, by_id=False)
    if isinstance(log, ErrorCode):
        return _refusal(data, log)
    refused = epoch_error(data.current_leader_epoch, log.leader_epoch)
    if refused is not None:
        return _refusal(data, refused)
    return EpochEndOffset(ErrorCode.NONE, data.partition, *log.end_of_epoch(data.leader_epoch))


def _refusal(data: OffsetForLeaderEpochRequest.OffsetForLeaderPartition, code: ErrorCode) -> EpochEndOffset:
    return EpochEndOffset(code, data.partition)


def _refuse_topic(topic: OffsetForLeaderEpochRequest.OffsetForLeaderTopic, code: ErrorCode) -> TopicResult:
    return TopicResult(topic.topic, [_refusal(data, code) for data in topic.partitions])


def error_response(request: OffsetForLeaderEpochRequest, call: Call, code: ErrorCode) -> OffsetForLeaderEpochResponse:
    del call
    return OffsetForLeaderEpochResponse(topics=[_refuse_topic(topic, code) for topic in request.topics])
