"""LeaveGroup: removes one member, or several from version 3; static members are found by their instance id.

Many members leave in several turns, so that other requests get theirs. If the group becomes empty, the response waits
until that change is durable.
"""

from __future__ import annotations

from collections.abc import Sequence

from pipeline_broker.apis.authorization import authorize_group
from pipeline_broker.apis.call import Call
from pipeline_broker.apis.steps import Stepwise
from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.security.acl import AclOperation
from pipeline_broker.state.groups.classic.messages import LeaveResult, LeavingMember, LeftMember
from pipeline_broker.wire.messages.groups.leave_group import LeaveGroupRequest, LeaveGroupResponse
from stages.request import NO_OP, Pending, Result

SEVERAL_FROM = 3
# Members that leave in one turn: about 2 ms of work.
LEAVING_IN_A_TURN = 250


def handle(call: Call, request: LeaveGroupRequest) -> Result | Stepwise[Result]:
    if not authorize_group(call, AclOperation.READ, request.group_id):
        return call.refuse(ErrorCode.GROUP_AUTHORIZATION_FAILED)
    groups = call.broker.groups.coordinator_of_named(request.group_id)
    if isinstance(groups, ErrorCode):
        return call.refuse(groups)
    if call.version < SEVERAL_FROM:
        leaving = [LeavingMember(request.member_id)]
    else:
        leaving = [LeavingMember(member.member_id, member.group_instance_id) for member in request.members]
    if len(leaving) > LEAVING_IN_A_TURN:
        return _leave_in_turns(call, request.group_id, leaving)
    now_ms = groups.time(call.now_ms)
    result, outcome = groups.coordinator.leave(request.group_id, leaving, now_ms)
    return groups.answer_when_durable(outcome, now_ms, call.send(_response(call, result)))


def _leave_in_turns(call: Call, group_id: str, leaving: Sequence[LeavingMember]) -> Stepwise[Result]:
    now_ms = call.broker.groups.time(call.now_ms)
    error = ErrorCode.NONE
    left: list[LeftMember] = []
    for begin in range(0, len(leaving), LEAVING_IN_A_TURN):
        groups = call.broker.groups.coordinator_of(group_id)
        if isinstance(groups, ErrorCode):  # the topic was deleted between two turns
            return call.refuse(groups)
        result, outcome = groups.coordinator.leave(group_id, leaving[begin : begin + LEAVING_IN_A_TURN], now_ms)
        pending = groups.answer_when_durable(outcome, now_ms, NO_OP)
        yield pending if isinstance(pending, Pending) else None
        error = result.error
        left += result.members
        if error is not ErrorCode.NONE:
            break
    return (yield from call.send_in_steps(_response(call, LeaveResult(error, tuple(left)))))


def _response(call: Call, result: LeaveResult) -> LeaveGroupResponse:
    if call.version < SEVERAL_FROM:
        codes = [result.error, *(member.error for member in result.members)]
        return LeaveGroupResponse(error_code=next((code for code in codes if code is not ErrorCode.NONE), 0))
    return LeaveGroupResponse(
        error_code=result.error,
        members=[
            LeaveGroupResponse.MemberResponse(member.member_id, member.group_instance_id, member.error)
            for member in result.members
        ],
    )
