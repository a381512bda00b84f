"""Heartbeat: keeps a member's session alive, and reports whether it must rejoin."""

from __future__ import annotations

from pipeline_broker.apis.authorization import authorize_group
from pipeline_broker.apis.call import Call
from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.security.acl import AclOperation
from pipeline_broker.state.groups.classic import messages
from pipeline_broker.wire.messages.groups.heartbeat import HeartbeatRequest, HeartbeatResponse
from stages.request import Result


def handle(call: Call, request: HeartbeatRequest) -> Result:
    if not authorize_group(call, AclOperation.READ, request.group_id):
        return call.refuse(ErrorCode.GROUP_AUTHORIZATION_FAILED)
    groups = call.broker.groups.coordinator_of_named(request.group_id)
    if isinstance(groups, ErrorCode):
        return call.refuse(groups)
    heartbeat = messages.HeartbeatRequest(
        group_id=request.group_id,
        generation_id=request.generation_id,
        member_id=request.member_id,
        group_instance_id=request.group_instance_id,
    )
    return call.send(HeartbeatResponse(error_code=groups.coordinator.heartbeat(heartbeat, groups.time(call.now_ms))))
