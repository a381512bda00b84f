"""SyncGroup: returns a member's assignment; the leader sends the assignments of all members.

The response is sent once the assignments are durable.
"""

from __future__ import annotations

from pipeline_broker.apis.authorization import authorize_group
from pipeline_broker.apis.call import Call
from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.broker.group_shard import WaitingMember
from pipeline_broker.security.acl import AclOperation
from pipeline_broker.state.groups.classic.messages import SyncRequest, SyncResult
from pipeline_broker.wire.messages.groups.sync_group import SyncGroupRequest, SyncGroupResponse
from stages.request import Result, Send

PROTOCOL_REQUIRED_FROM = 5


def handle(call: Call, request: SyncGroupRequest) -> Result:
    if call.version >= PROTOCOL_REQUIRED_FROM and None in {request.protocol_type, request.protocol_name}:
        return call.refuse(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    if not authorize_group(call, AclOperation.READ, request.group_id):
        return call.refuse(ErrorCode.GROUP_AUTHORIZATION_FAILED)
    groups = call.broker.groups.coordinator_of_named(request.group_id)
    if isinstance(groups, ErrorCode):
        return call.refuse(groups)
    if request.assignments and not call.broker.can_write:  # like Kafka with an offline log directory
        return call.refuse(ErrorCode.NOT_COORDINATOR)  # makes the leader rejoin
    sync = SyncRequest(
        group_id=request.group_id,
        generation_id=request.generation_id,
        member_id=request.member_id,
        group_instance_id=request.group_instance_id,
        protocol_type=request.protocol_type,
        protocol_name=request.protocol_name,
        assignments={assigned.member_id: assigned.assignment for assigned in request.assignments},
    )
    waiting = WaitingMember(call.request, lambda result: _answer(call, result))
    now_ms = groups.time(call.now_ms)
    return groups.carry_out(groups.coordinator.sync(sync, waiting, now_ms), now_ms, waiting)


def _answer(call: Call, result: SyncResult) -> Send:
    response = SyncGroupResponse(
        error_code=result.error,
        protocol_type=result.protocol_type,
        protocol_name=result.protocol_name,
        assignment=result.assignment,
    )
    return call.send(response)
