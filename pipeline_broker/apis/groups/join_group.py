"""JoinGroup: joins or rejoins a group; answered when its next generation begins."""

from __future__ import annotations

import functools

from pipeline_broker.apis.authorization import authorize_group
from pipeline_broker.apis.call import Call
from pipeline_broker.apis.coordinator_topic import refuse_member
from pipeline_broker.apis.steps import Stepwise, in_own_turn
from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.broker.group_shard import WaitingMember
from pipeline_broker.security.acl import AclOperation
from pipeline_broker.state.groups.classic.messages import JoinRequest, JoinResult, MemberProtocol
from pipeline_broker.wire.messages.groups.join_group import JoinGroupRequest, JoinGroupResponse
from stages.request import Result, Send

REBALANCE_TIMEOUT_FROM = 1
MEMBER_ID_REQUIRED_FROM = 4
NULL_PROTOCOL_FROM = 7
SKIP_ASSIGNMENT_FROM = 9


def handle(call: Call, request: JoinGroupRequest) -> Result | Stepwise[Result]:
    if call.broker.groups.is_joining_long(request.group_id):
        return in_own_turn(functools.partial(_join, call, request))
    return _join(call, request)


def _join(call: Call, request: JoinGroupRequest) -> Result:
    if not authorize_group(call, AclOperation.READ, request.group_id):
        forbidden = error_response(request, call, ErrorCode.GROUP_AUTHORIZATION_FAILED)
        forbidden.member_id = ""
        return call.send(forbidden)
    groups = call.broker.groups.coordinator_of_named(request.group_id)
    if isinstance(groups, ErrorCode):
        return refuse_member(call, call.send(error_response(request, call, groups)), groups)
    has_rebalance_timeout = call.version >= REBALANCE_TIMEOUT_FROM
    join = JoinRequest(
        group_id=request.group_id,
        member_id=request.member_id,
        group_instance_id=request.group_instance_id,
        client_id=call.client_id or "",
        client_host=f"/{call.session.host}",
        session_timeout_ms=request.session_timeout_ms,
        rebalance_timeout_ms=request.rebalance_timeout_ms if has_rebalance_timeout else request.session_timeout_ms,
        protocol_type=request.protocol_type,
        protocols=tuple(MemberProtocol(protocol.name, protocol.metadata) for protocol in request.protocols),
        fresh_id=str(call.broker.new_id()),
        member_id_required=call.version >= MEMBER_ID_REQUIRED_FROM,
        assignment_skippable=call.version >= SKIP_ASSIGNMENT_FROM,
    )
    waiting = WaitingMember(call.request, lambda result: _answer(call, result))
    now_ms = groups.time(call.now_ms)
    return groups.carry_out(groups.coordinator.join(join, waiting, now_ms), now_ms, waiting)


def _answer(call: Call, result: JoinResult) -> Send:
    response = JoinGroupResponse(
        error_code=result.error,
        generation_id=result.generation_id,
        protocol_type=result.protocol_type,
        protocol_name=_protocol_name(call, result.protocol_name),
        leader=result.leader,
        skip_assignment=result.skip_assignment,
        member_id=result.member_id,
        members=[
            JoinGroupResponse.JoinGroupResponseMember(member.member_id, member.group_instance_id, member.metadata)
            for member in result.members
        ],
    )
    return call.send(response)


def _protocol_name(call: Call, name: str | None) -> str | None:
    return "" if name is None and call.version < NULL_PROTOCOL_FROM else name


def error_response(request: JoinGroupRequest, call: Call, code: ErrorCode) -> JoinGroupResponse:
    return JoinGroupResponse(error_code=code, protocol_name=_protocol_name(call, None), member_id=request.member_id)
