"""LeaveGroup: members leave, one (version 2 and earlier) or several, static ones by their instance id if need be."""

from __future__ import annotations

from pipeline_broker.apis.authorization import may_of_group
from pipeline_broker.apis.call import Call
from pipeline_broker.apis.steps import Stepwise
from pipeline_broker.security.acl import AclOperation
from pipeline_broker.state.groups.classic.messages import LeaveResult, LeavingMember
from pipeline_broker.wire.error import ErrorCode
from pipeline_broker.wire.messages.groups.leave_group import LeaveGroupRequest, LeaveGroupResponse
from stages.request import NO_OP, Final, Pending, Result

SEVERAL_FROM = 3
ANSWERED_IN_A_TURN = 100
"""Members whose answer is written in the turn in which they leave."""


def handle(call: Call, request: LeaveGroupRequest) -> Result | Stepwise[Result]:
    """Ask the coordinator; an answer that empties the group waits until that is durable."""
    if not may_of_group(call, AclOperation.READ, request.group_id):
        return call.refuse(ErrorCode.GROUP_AUTHORIZATION_FAILED)
    groups = call.broker.groups
    if call.version < SEVERAL_FROM:
        leaving = [LeavingMember(request.member_id)]
    else:
        leaving = [LeavingMember(member.member_id, member.group_instance_id) for member in request.members]
    now_ms = groups.time(call.now_ms)
    result, outcome = groups.coordinator.leave(request.group_id, leaving, now_ms)
    if len(leaving) > ANSWERED_IN_A_TURN:
        return _answer_in_steps(call, result, groups.answer_when_durable(outcome, now_ms, NO_OP))
    return groups.answer_when_durable(outcome, now_ms, call.send(_response(call, result)))


def _answer_in_steps(call: Call, result: LeaveResult, pending: Pending | Final) -> Stepwise[Result]:
    """Answer for very many members, who have left at once, in later turns."""
    yield pending if isinstance(pending, Pending) else None
    return (yield from call.send_in_steps(_response(call, result)))


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
