"""The phases of a classic rebalance: collect joins, complete the generation, collect syncs.

`joining.py` and `membership.py` decide when to start one.
"""

from __future__ import annotations

from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.state.groups.classic.classic_group import ClassicGroup, GroupState
from pipeline_broker.state.groups.classic.messages import JoinResult, SyncResult
from pipeline_broker.state.groups.classic.turn import TimerKind, Turn

__all__ = [
    "complete_join",
    "expire_initial_delay",
    "expire_session",
    "expire_sync",
    "fail_syncs",
    "generation_result",
    "maybe_complete_join",
    "prepare_or_complete",
    "prepare_rebalance",
    "propagate_assignments",
    "remove_member",
    "synced",
]

# Minimum wait for static members if none of them has joined. Their rebalance timeout may be 0 ms: the timer would spin.
ROUND_MS_MIN = 1_000


def prepare_or_complete(turn: Turn, group: ClassicGroup) -> None:
    """Start a rebalance, or complete the current join phase if no member is missing."""
    if group.can_rebalance:
        prepare_rebalance(turn, group)
    else:
        maybe_complete_join(turn, group)


def prepare_rebalance(turn: Turn, group: ClassicGroup) -> None:
    """Enter the join phase.

    The first rebalance of a group waits for more members (`group.initial.rebalance.delay.ms`).
    """
    if group.state is GroupState.COMPLETING_REBALANCE:
        fail_syncs(turn, group, ErrorCode.REBALANCE_IN_PROGRESS)
    turn.cancel_timer(TimerKind.SYNC, group)
    group.pending_syncs.clear()
    if group.state is GroupState.EMPTY:
        delay_ms = turn.config.group_initial_rebalance_delay_ms
        group.is_initial, group.grew = True, False
        group.initial_remaining_ms = max(group.rebalance_timeout_ms - delay_ms, 0)
        turn.to_state(group, GroupState.PREPARING_REBALANCE)
        turn.set_timer(TimerKind.INITIAL_DELAY, group, delay_ms)
        return
    turn.to_state(group, GroupState.PREPARING_REBALANCE)
    if group.all_joined:
        complete_join(turn, group)
    else:
        turn.set_timer(TimerKind.JOIN, group, group.rebalance_timeout_ms)


def maybe_complete_join(turn: Turn, group: ClassicGroup) -> None:
    """End the join phase if all members have joined; the initial delay always runs to its end."""
    if group.state is GroupState.PREPARING_REBALANCE and group.all_joined and not group.is_initial:
        complete_join(turn, group)


def expire_initial_delay(turn: Turn, group: ClassicGroup) -> None:
    """Extend the initial delay if members have joined since it started and time remains; else end the join phase."""
    if not group.grew:
        complete_join(turn, group)
        return
    group.grew = False
    delay_ms = min(turn.config.group_initial_rebalance_delay_ms, group.initial_remaining_ms)
    group.initial_remaining_ms -= delay_ms
    turn.set_timer(TimerKind.INITIAL_DELAY, group, delay_ms)


def complete_join(turn: Turn, group: ClassicGroup) -> None:
    """End the join phase: drop dynamic members that have not joined, begin the generation, answer all joins.

    If only static members remain and none has joined, the phase lasts for another rebalance timeout instead.
    """
    turn.cancel_timer(TimerKind.JOIN, group)
    for member in list(group.members.values()):
        if member.member_id not in group.parked_joins and member.group_instance_id is None:
            turn.remove(group, member.member_id)
    if not group.elect_joined_leader() and group.members:
        # Only static members remain, and none has joined: they keep their membership for another round.
        turn.set_timer(TimerKind.JOIN, group, max(group.rebalance_timeout_ms, ROUND_MS_MIN))
        return
    group.next_generation(turn.now_ms)
    if group.state is GroupState.EMPTY:
        turn.store(group, {})
        return
    for member in group.members.values():
        turn.answer_join(group, member.member_id, generation_result(group, member.member_id))
        turn.refresh_session(group, member)
        member.is_new = False
        group.pending_syncs.add(member.member_id)
    turn.set_timer(TimerKind.SYNC, group, group.rebalance_timeout_ms)


def generation_result(group: ClassicGroup, member_id: str) -> JoinResult:
    """Return the JoinGroup response for the current generation; the leader's lists all members."""
    assert group.leader is not None, "it has members"
    return JoinResult(
        member_id=member_id,
        generation_id=group.generation_id,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol_name,
        leader=group.leader,
        members=group.joined_members() if member_id == group.leader else (),
    )


def expire_sync(turn: Turn, group: ClassicGroup) -> None:
    """Drop the members that have sent no SyncGroup request in time, and rebalance without them."""
    assert group.pending_syncs, "the last sync or leave cancels the timer, and so does a rebalance"
    for member_id in sorted(group.pending_syncs):
        turn.remove(group, member_id)
    prepare_rebalance(turn, group)


def expire_session(turn: Turn, group: ClassicGroup, member_id: str) -> None:
    """Remove a pending id, or a member whose session has expired.

    A member with a parked join or sync stays, unless it is new.
    """
    member = group.members.get(member_id)
    # The connection of a parked request is not read, so its member cannot send heartbeats. A new member is an
    # exception: it may be dead, and its session bounds how long its join stays parked.
    waits = member_id in group.parked_joins or member_id in group.parked_syncs
    if member is None or member.is_new or not waits:
        remove_member(turn, group, member_id)


def synced(turn: Turn, group: ClassicGroup, member_id: str) -> None:
    """Note that a member has sent its SyncGroup request; cancel the sync timer after the last one."""
    group.pending_syncs.discard(member_id)
    if not group.pending_syncs:
        turn.cancel_timer(TimerKind.SYNC, group)


def propagate_assignments(turn: Turn, group: ClassicGroup, assignments: dict[str, bytes]) -> None:
    for member in group.members.values():
        group.assign(member, assignments.get(member.member_id, b""))
        result = SyncResult(
            protocol_type=group.protocol_type,
            protocol_name=group.protocol_name,
            assignment=member.assignment,
        )
        if turn.answer_sync(group, member.member_id, result):
            turn.refresh_session(group, member)


def fail_syncs(turn: Turn, group: ClassicGroup, error: ErrorCode) -> None:
    for member in group.members.values():
        group.assign(member, b"")
        if turn.answer_sync(group, member.member_id, SyncResult(error=error)):
            turn.refresh_session(group, member)


def remove_member(turn: Turn, group: ClassicGroup, member_id: str) -> None:
    was_member = member_id in group.members
    turn.remove(group, member_id)
    if was_member:
        prepare_or_complete(turn, group)
    else:
        maybe_complete_join(turn, group)
