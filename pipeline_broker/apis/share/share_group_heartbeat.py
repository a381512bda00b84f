"""ShareGroupHeartbeat: joins, maintains or ends a membership of a share group.

The first heartbeat creates the topic of the share coordinator. New share partitions get their state in the same commit,
before the group's own records.
"""

from __future__ import annotations

import functools

from pipeline_broker.apis.authorization import authorize_group, authorize_topic
from pipeline_broker.apis.call import Call
from pipeline_broker.apis.coordinator_topic import refuse_member, with_share_state_topic
from pipeline_broker.apis.steps import SUBSCRIBED_AT_ONCE_MAX, Stepwise, in_own_turn
from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.broker.appended import Appended, in_one_commit
from pipeline_broker.broker.group_shard import GroupShard
from pipeline_broker.security.acl import AclOperation
from pipeline_broker.state.groups.share.messages import (
    FoundTopic,
    Heartbeat,
    HeartbeatAnswer,
    ShareGroupError,
)
from pipeline_broker.state.outcome import Outcome
from pipeline_broker.state.share_coordinator.records import ShareKey
from pipeline_broker.wire.messages.share.share_group_heartbeat import (
    ShareGroupHeartbeatAssignment,
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
)
from stages.request import Result

LEAVING_EPOCH = -1


def handle(call: Call, request: ShareGroupHeartbeatRequest) -> Result | Stepwise[Result]:
    is_long = len(request.subscribed_topic_names or ()) > SUBSCRIBED_AT_ONCE_MAX
    if is_long or (request.member_epoch == 0 and call.broker.groups.is_joining_long(request.group_id)):
        return in_own_turn(functools.partial(_check_and_decide, call, request))
    return _check_and_decide(call, request)


def _check_and_decide(call: Call, request: ShareGroupHeartbeatRequest) -> Result:
    if not authorize_group(call, AclOperation.READ, request.group_id):
        return call.send(error_response(request, call, ErrorCode.GROUP_AUTHORIZATION_FAILED))
    refused = _refused(request)
    if refused is not None:
        return call.send(_error(ErrorCode.INVALID_REQUEST, refused or None))
    groups = call.broker.groups.coordinator_of(request.group_id)
    if isinstance(groups, ErrorCode):
        return refuse_member(call, call.send(error_response(request, call, groups)), groups)
    if not all(authorize_topic(call, AclOperation.DESCRIBE, name) for name in request.subscribed_topic_names or ()):
        return call.send(_error(ErrorCode.TOPIC_AUTHORIZATION_FAILED, None))
    return with_share_state_topic(
        call,
        busy=lambda: call.send(_error(ErrorCode.COORDINATOR_NOT_AVAILABLE, None)),
        then=lambda: _heartbeat(call, request),
    )


def _refused(request: ShareGroupHeartbeatRequest) -> str | None:
    """Return Kafka's message for an invalid request, empty if Kafka has none; None if it is valid."""
    if not request.group_id.strip():
        return "GroupId can't be empty."
    if not request.member_id.strip():
        return ""
    if request.rack_id is not None and not request.rack_id.strip():
        return "RackId can't be empty."
    if request.member_epoch == 0 and not request.subscribed_topic_names:
        return "SubscribedTopicNames must be set in first request."
    if request.member_epoch < LEAVING_EPOCH:
        return "MemberEpoch is invalid."
    return None


def _heartbeat(call: Call, request: ShareGroupHeartbeatRequest) -> Result:
    groups, coordinator = call.broker.groups.coordinator_of(request.group_id), call.broker.share.manager
    if isinstance(groups, ErrorCode):  # the topic was deleted while the request was parked
        return call.send(error_response(request, call, groups))
    heartbeat = Heartbeat(
        group_id=request.group_id,
        member_id=request.member_id,
        member_epoch=request.member_epoch,
        rack_id=request.rack_id,
        topics=request.subscribed_topic_names,
        client_id=call.client_id or "",
        client_host=f"/{call.session.host}",
    )

    def find_topic(name: str) -> FoundTopic | None:
        topic = call.broker.topics.get(name)
        if topic is None:
            return None
        keys = [ShareKey(request.group_id, topic.topic_id, number) for number in range(topic.partitions)]
        lost = frozenset(key.partition for key in keys if coordinator.states.find(key) is None)
        return FoundTopic(topic.topic_id, topic.partitions, lost)

    now_ms = groups.time(call.now_ms)
    try:
        answer = groups.coordinator.share.heartbeat(heartbeat, find_topic, now_ms)
    except ShareGroupError as error:
        return call.send(_error(error.code, str(error)))
    return _when_durable(call, groups, request, answer, now_ms)


def _when_durable(
    call: Call, groups: GroupShard, request: ShareGroupHeartbeatRequest, answer: HeartbeatAnswer, now_ms: int
) -> Result:
    appended = Appended()
    begun = [(ShareKey(request.group_id, one.topic_id, one.partition), one.state_epoch) for one in answer.begins]
    call.broker.share.manager.initialize(begun, appended, now_ms)
    outcome = Outcome(writes=[] if answer.write is None else [answer.write])
    send = call.send(_response(request, answer))
    return in_one_commit(appended, groups.answer_when_durable(outcome, now_ms, send), send)


def _response(request: ShareGroupHeartbeatRequest, answer: HeartbeatAnswer) -> ShareGroupHeartbeatResponse:
    response = ShareGroupHeartbeatResponse(
        member_id=request.member_id,
        member_epoch=answer.member_epoch,
        heartbeat_interval_ms=answer.heartbeat_interval_ms,
    )
    if answer.assignment is not None:
        response.assignment = ShareGroupHeartbeatAssignment(
            [
                ShareGroupHeartbeatResponse.TopicPartitions(topic_id, sorted(partitions))
                for topic_id, partitions in answer.assignment.items()
            ]
        )
    return response


def _error(code: ErrorCode, text: str | None) -> ShareGroupHeartbeatResponse:
    return ShareGroupHeartbeatResponse(error_code=code, error_message=text)


def error_response(request: ShareGroupHeartbeatRequest, call: Call, code: ErrorCode) -> ShareGroupHeartbeatResponse:
    del request, call
    return _error(code, None)
