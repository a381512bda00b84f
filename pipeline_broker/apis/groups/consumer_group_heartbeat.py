"""ConsumerGroupHeartbeat (KIP-848): joins, maintains or ends a membership."""

from __future__ import annotations

import functools

from pipeline_broker.apis.authorization import authorize_group, topics_allowed
from pipeline_broker.apis.call import Call
from pipeline_broker.apis.coordinator_topic import refuse_member
from pipeline_broker.apis.steps import SUBSCRIBED_AT_ONCE_MAX, Stepwise, in_own_turn
from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.broker.group_shard import WaitingMember
from pipeline_broker.security.acl import AclOperation
from pipeline_broker.state.groups.consumer.messages import HeartbeatRequest, HeartbeatResult, Matches, MatchesNeeded
from pipeline_broker.wire.messages.groups.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from pipeline_broker.wire.uuid_text import uuid_text
from stages.request import Result, Send

ID_REQUIRED_FROM = 1


def handle(call: Call, request: ConsumerGroupHeartbeatRequest) -> Result | Stepwise[Result]:
    if request.subscribed_topic_regex:
        return _match_and_heartbeat(call, request, request.subscribed_topic_regex)
    is_long = len(request.subscribed_topic_names or ()) > SUBSCRIBED_AT_ONCE_MAX
    if is_long or (request.member_epoch == 0 and call.broker.groups.is_joining_long(request.group_id)):
        return in_own_turn(functools.partial(_heartbeat, call, request))
    return _heartbeat(call, request)


def _match_and_heartbeat(call: Call, request: ConsumerGroupHeartbeatRequest, regex: str) -> Stepwise[Result]:
    """Decide in a turn of its own, after matching the names of all topics in turns if the expression is new."""
    yield None
    try:
        return _heartbeat(call, request, may_match=False)
    except MatchesNeeded:
        groups = call.broker.groups.coordinator_of(request.group_id)
    matches = None if isinstance(groups, ErrorCode) else (yield from groups.coordinator.consumer.find_matches(regex))
    return _heartbeat(call, request, matches)


def _heartbeat(
    call: Call, request: ConsumerGroupHeartbeatRequest, matches: Matches | None = None, *, may_match: bool = True
) -> Result:
    if not authorize_group(call, AclOperation.READ, request.group_id):
        return call.send(error_response(request, call, ErrorCode.GROUP_AUTHORIZATION_FAILED))
    may_describe = topics_allowed(call, AclOperation.DESCRIBE)
    names = request.subscribed_topic_names
    if not all(map(may_describe, names or ())):
        return call.send(error_response(request, call, ErrorCode.TOPIC_AUTHORIZATION_FAILED))
    groups = call.broker.groups.coordinator_of(request.group_id)
    if isinstance(groups, ErrorCode):
        return refuse_member(call, call.send(error_response(request, call, groups)), groups)
    if not call.broker.can_write:
        # As in Kafka while its log directory is offline, a member looks for the coordinator until it can be served.
        groups.coordinator.consumer.refresh_session(request.group_id, request.member_id, groups.time(call.now_ms))
        return call.send(error_response(request, call, ErrorCode.NOT_COORDINATOR))
    owned = request.topic_partitions
    heartbeat = HeartbeatRequest(
        group_id=request.group_id,
        member_id=request.member_id,
        member_epoch=request.member_epoch,
        instance_id=request.instance_id,
        rack_id=request.rack_id,
        rebalance_timeout_ms=request.rebalance_timeout_ms,
        topic_names=None if names is None else frozenset(names),
        topic_regex=request.subscribed_topic_regex,
        server_assignor=request.server_assignor,
        owned=None if owned is None else {each.topic_id: frozenset(each.partitions) for each in owned},
        client_id=call.client_id or "",
        client_host=f"/{call.session.host}",
        fresh_id=uuid_text(call.broker.new_id().bytes),
        id_required=call.version >= ID_REQUIRED_FROM,
        may_describe=may_describe,
        matches=matches,
        may_match=may_match,
    )
    waiting = WaitingMember(call.request, lambda result: _answer(call, result))
    now_ms = groups.time(call.now_ms)
    return groups.carry_out(groups.coordinator.consumer.heartbeat(heartbeat, waiting, now_ms), now_ms, waiting)


def _answer(call: Call, result: HeartbeatResult) -> Send:
    response = ConsumerGroupHeartbeatResponse(
        error_code=result.error,
        error_message=result.message,
        member_id=result.member_id,
        member_epoch=result.member_epoch,
        heartbeat_interval_ms=result.heartbeat_interval_ms,
    )
    if result.assignment is not None:
        response.assignment = ConsumerGroupHeartbeatResponse.Assignment(
            [
                ConsumerGroupHeartbeatResponse.TopicPartitions(topic_id, sorted(partitions))
                for topic_id, partitions in sorted(result.assignment.items())
            ]
        )
    return call.send(response)


def error_response(
    request: ConsumerGroupHeartbeatRequest, call: Call, code: ErrorCode
) -> ConsumerGroupHeartbeatResponse:
    return ConsumerGroupHeartbeatResponse(error_code=code)
