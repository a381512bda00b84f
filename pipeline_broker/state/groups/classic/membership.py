"""SyncGroup, Heartbeat and LeaveGroup: responses by the state of the group.

| state | sync | heartbeat | commit (see `ClassicGroup.commit_error`) |
|---|---|---|---|
| Empty | 25 | 25 | 25 |
| PreparingRebalance | 27 | 27 * | ok * |
| CompletingRebalance | follower: parked; leader: assignment stored | 0 * | 27 |
| Stable | the assignment * | 0 * | ok * |
| Dead | 15 | 15 | 15 |

15 is COORDINATOR_NOT_AVAILABLE, 25 UNKNOWN_MEMBER_ID, 27 REBALANCE_IN_PROGRESS. A star marks the requests that restart
the session of the member.
"""

from __future__ import annotations

import attrs

from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.state.groups.classic import rebalancing
from pipeline_broker.state.groups.classic.classic_group import ClassicGroup, GroupState
from pipeline_broker.state.groups.classic.messages import (
    HeartbeatRequest,
    LeavingMember,
    LeftMember,
    SyncRequest,
    SyncResult,
)
from pipeline_broker.state.groups.classic.turn import Turn
from pipeline_broker.state.groups.memory import GroupMemory

__all__ = [
    "AssignmentStored",
    "assignment_not_stored",
    "assignment_stored",
    "heartbeat",
    "leave",
    "sync",
]

HEARTBEAT_ANSWERS: dict[GroupState, ErrorCode] = {
    GroupState.EMPTY: ErrorCode.UNKNOWN_MEMBER_ID,
    GroupState.PREPARING_REBALANCE: ErrorCode.REBALANCE_IN_PROGRESS,
    GroupState.COMPLETING_REBALANCE: ErrorCode.NONE,
    GroupState.STABLE: ErrorCode.NONE,
    GroupState.DEAD: ErrorCode.COORDINATOR_NOT_AVAILABLE,
}

SYNC_REFUSALS: dict[GroupState, ErrorCode] = {
    GroupState.EMPTY: ErrorCode.UNKNOWN_MEMBER_ID,
    GroupState.PREPARING_REBALANCE: ErrorCode.REBALANCE_IN_PROGRESS,
    GroupState.DEAD: ErrorCode.COORDINATOR_NOT_AVAILABLE,
}

# Errors of a failed append, and the errors that members receive for them.
STORE_ERRORS: dict[ErrorCode, ErrorCode] = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.RECORD_LIST_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.INVALID_FETCH_SIZE: ErrorCode.UNKNOWN_SERVER_ERROR,
}


@attrs.frozen(eq=False)
class AssignmentStored:
    """The leader's assignment, applied once its record is durable if the generation is still the same."""

    group: ClassicGroup
    generation_id: int
    assignments: dict[str, bytes]


def _sync_error(group: ClassicGroup, request: SyncRequest) -> ErrorCode:
    if group.state is GroupState.DEAD:
        return SYNC_REFUSALS[group.state]
    error = group.generation_error(request.member_id, request.group_instance_id, request.generation_id)
    if error is not ErrorCode.NONE:
        return error
    # Versions before 5 send neither of the two.
    if request.protocol_type not in {None, group.protocol_type} or request.protocol_name not in {
        None,
        group.protocol_name,
    }:
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    return SYNC_REFUSALS.get(group.state, ErrorCode.NONE)


def sync(turn: Turn, group: ClassicGroup, request: SyncRequest, token: object, memory: GroupMemory) -> None:
    """Answer a sync, or park it until the leader's assignment is durable."""
    error = _sync_error(group, request)
    if error is not ErrorCode.NONE:
        turn.answer(token, SyncResult(error=error))
        return
    member = group.members[request.member_id]
    # A leader that repeats its request before its first assignment is durable waits for that one. A second record
    # could differ from the assignment that the members have received.
    assigns = group.leader == request.member_id and group.assigned_generation_id != group.generation_id
    assignments = {each: request.assignments.get(each, b"") for each in group.members} if assigns else {}
    if not memory.has_room(sum(map(len, assignments.values()))):
        turn.answer(token, SyncResult(error=ErrorCode.GROUP_MAX_SIZE_REACHED))
        return
    rebalancing.synced(turn, group, request.member_id)
    if group.state is GroupState.STABLE:
        result = SyncResult(
            protocol_type=group.protocol_type,
            protocol_name=group.protocol_name,
            assignment=member.assignment,
        )
        turn.answer(token, result)
        turn.refresh_session(group, member)
        return
    turn.park_sync(group, member, token)
    if assigns:
        group.assigned_generation_id = group.generation_id
        turn.store(group, assignments, AssignmentStored(group, group.generation_id, assignments))


def _awaited(change: AssignmentStored) -> bool:
    group = change.group
    return group.state is GroupState.COMPLETING_REBALANCE and group.generation_id == change.generation_id


def assignment_stored(turn: Turn, change: AssignmentStored) -> None:
    """Make the group Stable, after the assignment became durable, and answer all parked syncs."""
    if _awaited(change):
        rebalancing.propagate_assignments(turn, change.group, change.assignments)
        turn.to_state(change.group, GroupState.STABLE)


def assignment_not_stored(turn: Turn, change: AssignmentStored, error: ErrorCode) -> None:
    """Fail all parked syncs and rebalance, after the assignment could not be stored."""
    if _awaited(change):
        rebalancing.fail_syncs(turn, change.group, STORE_ERRORS.get(error, error))
        rebalancing.prepare_or_complete(turn, change.group)


def heartbeat(turn: Turn, group: ClassicGroup, request: HeartbeatRequest) -> ErrorCode:
    """Restart the session of a member; return REBALANCE_IN_PROGRESS if it must join again.

    Returns another error if the member, its instance id or its generation is not current, or the group is Dead.
    """
    if group.state is not GroupState.DEAD:
        error = group.generation_error(request.member_id, request.group_instance_id, request.generation_id)
        if error is not ErrorCode.NONE:
            return error
        turn.refresh_session(group, group.members[request.member_id])
    return HEARTBEAT_ANSWERS[group.state]


def leave(turn: Turn, group: ClassicGroup, leaving: tuple[LeavingMember, ...]) -> tuple[LeftMember, ...]:
    """Remove members, rebalance once for all of them, and return one result for each entry of the request."""
    left = []
    removed: dict[str, None] = {}
    for leaver in leaving:
        member_id, error = _find(group, leaver)
        if member_id in removed:
            error = ErrorCode.UNKNOWN_MEMBER_ID
        elif error is ErrorCode.NONE:
            removed[member_id] = None
        left.append(LeftMember(leaver.member_id, leaver.group_instance_id, error))
    # Remove the leader last, or each of the others would be elected leader in turn.
    for member_id in sorted(removed, key=lambda each: each == group.leader):
        turn.remove(group, member_id)
    if group.state is not GroupState.EMPTY and any(leaver.error is ErrorCode.NONE for leaver in left):
        rebalancing.prepare_or_complete(turn, group)
    return tuple(left)


def _find(group: ClassicGroup, leaver: LeavingMember) -> tuple[str, ErrorCode]:
    # Administrators name static members by their instance id alone.
    if leaver.member_id == "":
        owner = group.static_members.get(leaver.group_instance_id or "", "")
        return owner, ErrorCode.NONE if owner else ErrorCode.UNKNOWN_MEMBER_ID
    if leaver.member_id in group.pending_joins:
        return leaver.member_id, ErrorCode.NONE
    return leaver.member_id, group.member_error(leaver.member_id, leaver.group_instance_id)
