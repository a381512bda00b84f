"""The classic groups of a broker, as one of the kinds of groups.

As in Kafka, members and clients see the pending state at once. A response that depends on a record is parked until that
record is durable.
"""

from __future__ import annotations

from collections.abc import Iterable

from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.config.broker_config import BrokerConfig
from pipeline_broker.state.deadlines import Deadlines
from pipeline_broker.state.groups.classic import joining, membership, rebalancing
from pipeline_broker.state.groups.classic.classic_group import ClassicGroup, GroupState
from pipeline_broker.state.groups.classic.joining import StaticMemberStored
from pipeline_broker.state.groups.classic.membership import AssignmentStored
from pipeline_broker.state.groups.classic.messages import (
    DescribedGroup,
    DescribedMember,
    HeartbeatRequest,
    JoinRequest,
    JoinResult,
    LeaveResult,
    LeavingMember,
    LeftMember,
    SyncRequest,
    SyncResult,
)
from pipeline_broker.state.groups.classic.records import (
    group_metadata_record,
    group_tombstone,
    new_group_record,
)
from pipeline_broker.state.groups.classic.turn import Timer, TimerKind, Turn
from pipeline_broker.state.groups.group import Group, GroupType
from pipeline_broker.state.groups.kind import DUE_AT_ONCE_MAX
from pipeline_broker.state.groups.registry import GroupRegistry, check_replaceable
from pipeline_broker.state.outcome import Outcome, StateRecord, Write

__all__ = ["ClassicGroups"]


class ClassicGroups:
    """All classic groups of a broker; see `GroupKind`.

    Args:
        registry: the groups of every kind.
    """

    changes: tuple[type, ...] = (AssignmentStored, StaticMemberStored)

    def __init__(self, config: BrokerConfig, registry: GroupRegistry) -> None:
        self.config = config
        self._registry = registry
        self._deadlines: Deadlines[Timer] = Deadlines()

    # Requests of members. The coordinator has checked that an existing group of this id is a classic one.

    def join(self, request: JoinRequest, token: object, now_ms: int) -> Outcome:
        turn = self._turn(now_ms)
        group = self._group(request.group_id)
        error = self.join_error(request, group)
        if error is ErrorCode.NONE and not joining.has_memory(self._registry.memory, group, request):
            error = ErrorCode.GROUP_MAX_SIZE_REACHED
        if error is not ErrorCode.NONE:
            turn.answer(token, JoinResult(error=error, member_id=request.member_id))
            return turn.outcome
        is_new = group is None
        if group is None:
            group = self.create(request.group_id, now_ms)
        joining.join(turn, group, request, token)
        if is_new:
            turn.outcome.writes.append(Write(group.group_id, (new_group_record(group),)))
        return turn.outcome

    def join_error(self, request: JoinRequest, group: Group | None) -> ErrorCode:
        """Return the error of a join by the rules that do not depend on the kind of group; NONE if it obeys them.

        Args:
            group: the group to join; None to create one.
        """
        if not request.group_id:
            return ErrorCode.INVALID_GROUP_ID
        least_ms, most_ms = self.config.group_min_session_timeout_ms, self.config.group_max_session_timeout_ms
        if not least_ms <= request.session_timeout_ms <= most_ms:
            return ErrorCode.INVALID_SESSION_TIMEOUT
        if group is None and request.member_id:
            return ErrorCode.UNKNOWN_MEMBER_ID
        return ErrorCode.NONE

    def refuse_join(self, request: JoinRequest, error: ErrorCode, token: object, now_ms: int) -> Outcome:
        turn = self._turn(now_ms)
        turn.answer(token, JoinResult(error=error, member_id=request.member_id))
        return turn.outcome

    def sync(self, request: SyncRequest, token: object, now_ms: int) -> Outcome:
        turn = self._turn(now_ms)
        group = self._group(request.group_id)
        if not request.group_id:
            turn.answer(token, SyncResult(error=ErrorCode.INVALID_GROUP_ID))
        elif group is None:
            turn.answer(token, SyncResult(error=ErrorCode.UNKNOWN_MEMBER_ID))
        else:
            membership.sync(turn, group, request, token, self._registry.memory)
        return turn.outcome

    def heartbeat(self, request: HeartbeatRequest, now_ms: int) -> ErrorCode:
        if not request.group_id:
            return ErrorCode.INVALID_GROUP_ID
        group = self._group(request.group_id)
        if group is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        return membership.heartbeat(self._turn(now_ms), group, request)

    def leave(self, group_id: str, leaving: Iterable[LeavingMember], now_ms: int) -> tuple[LeaveResult, Outcome]:
        turn = self._turn(now_ms)
        group = self._group(group_id)
        if not group_id:
            return LeaveResult(ErrorCode.INVALID_GROUP_ID), turn.outcome
        if group is None:
            unknown = ErrorCode.UNKNOWN_MEMBER_ID
            left = tuple(LeftMember(leaver.member_id, leaver.group_instance_id, unknown) for leaver in leaving)
            return LeaveResult(members=left), turn.outcome
        if group.state is GroupState.DEAD:
            return LeaveResult(ErrorCode.COORDINATOR_NOT_AVAILABLE), turn.outcome
        return LeaveResult(members=membership.leave(turn, group, tuple(leaving))), turn.outcome

    def committed(self, group: ClassicGroup, member_id: str, now_ms: int) -> None:
        member = group.members.get(member_id)
        if member is not None:
            self._turn(now_ms).refresh_session(group, member)

    def expire_member(self, group: ClassicGroup, member_id: str, now_ms: int) -> Outcome:
        turn = self._turn(now_ms)
        rebalancing.remove_member(turn, group, member_id)
        return turn.outcome

    def force_rebalance(self, group: ClassicGroup, now_ms: int) -> Outcome:
        turn = self._turn(now_ms)
        rebalancing.prepare_or_complete(turn, group)
        return turn.outcome

    # Administration

    def describe(self, group: Group) -> DescribedGroup:
        """Describe a group with its members; without their metadata unless the group is Stable."""
        assert isinstance(group, ClassicGroup)
        stable_protocol = group.protocol_name if group.state is GroupState.STABLE else None
        return DescribedGroup(
            group_id=group.group_id,
            state=group.state.value,
            protocol_type=group.protocol_type or "",
            protocol_name=stable_protocol or "",
            members=tuple(
                DescribedMember(
                    member.member_id,
                    member.group_instance_id,
                    member.client_id,
                    member.client_host,
                    b"" if stable_protocol is None else member.metadata(stable_protocol),
                    member.assignment,
                )
                for member in group.members.values()
            ),
        )

    def not_found(self, group_id: str, reason: str) -> DescribedGroup:
        """Describe a missing group; `reason` is Kafka's error message."""
        return DescribedGroup(group_id=group_id, not_found=reason, state=GroupState.DEAD.value)

    def create(self, group_id: str, now_ms: int) -> ClassicGroup:
        """Create a group without members; `now_ms` is -1 if its age is unknown."""
        group = ClassicGroup(group_id=group_id, state_since_ms=now_ms)
        self._take_in(group)
        return group

    def take_over(self, group: ClassicGroup, now_ms: int, *, rebalances: bool) -> Outcome:
        """Register a group converted from another kind, and start its sessions.

        Args:
            rebalances: all members must join again.
        """
        self._registry.put(group)
        turn = self._turn(now_ms)
        for member in group.members.values():
            turn.refresh_session(group, member)
        if rebalances:
            rebalancing.prepare_rebalance(turn, group)
        return turn.outcome

    def records(self, group: ClassicGroup) -> tuple[StateRecord, ...]:
        return (group_metadata_record(group, {each.member_id: each.assignment for each in group.members.values()}),)

    def give_up(self, group: ClassicGroup, now_ms: int) -> Outcome:
        """Stop serving a group that becomes one of another kind: cancel its timers and answer its parked requests.

        The answer is REBALANCE_IN_PROGRESS, so that members join again.
        """
        turn = self._turn(now_ms)
        again = ErrorCode.REBALANCE_IN_PROGRESS
        for member_id in (*group.members, *group.pending_joins):
            turn.answer_join(group, member_id, JoinResult(error=again, member_id=member_id))
            turn.answer_sync(group, member_id, SyncResult(error=again))
            turn.end_session(group, member_id)
        for kind in (TimerKind.INITIAL_DELAY, TimerKind.JOIN, TimerKind.SYNC):
            turn.cancel_timer(kind, group)
        return turn.outcome

    def delete(self, group: ClassicGroup, now_ms: int) -> tuple[StateRecord, ...]:
        turn = self._turn(now_ms)
        for member_id in list(group.pending_joins):
            turn.remove(group, member_id)
        turn.to_state(group, GroupState.DEAD)
        return (group_tombstone(group.group_id),)

    def deleted(self, group: ClassicGroup) -> None:
        self._registry.remove(group)
        self._registry.hide(group)

    def not_deleted(self, group: ClassicGroup, now_ms: int) -> None:
        self._turn(now_ms).to_state(group, GroupState.EMPTY)

    # Time and durability

    def next_deadline_ms(self) -> int | None:
        return self._deadlines.next_ms()

    def advance(self, now_ms: int) -> Outcome:
        turn = self._turn(now_ms)
        for timer in self._deadlines.pop_due(now_ms, DUE_AT_ONCE_MAX):
            group = self._group(timer.group_id)
            if group is not None:
                self._expire(turn, group, timer)
        return turn.outcome

    def durable(self, change: AssignmentStored | StaticMemberStored, now_ms: int) -> Outcome:
        turn = self._turn(now_ms)
        if isinstance(change, AssignmentStored):
            membership.assignment_stored(turn, change)
        else:
            joining.static_member_stored(turn, change)
        return turn.outcome

    def failed(self, change: AssignmentStored | StaticMemberStored, error: ErrorCode, now_ms: int) -> Outcome:
        turn = self._turn(now_ms)
        if isinstance(change, AssignmentStored):
            membership.assignment_not_stored(turn, change, error)
        else:
            joining.static_member_not_stored(turn, change, error)
        return turn.outcome

    def replay(self, change: tuple[str, ClassicGroup | None]) -> None:
        group_id, replayed = change
        if replayed is not None:
            if self._group(group_id) is None:
                check_replaceable(self._registry.get(group_id), GroupType.CLASSIC)
            self._take_in(replayed)
            return
        group = self._group(group_id)
        if group is not None:
            self.deleted(group)

    def loaded(self, now_ms: int) -> Outcome:
        turn = self._turn(now_ms)
        for group in self._all():
            for member in group.members.values():
                turn.refresh_session(group, member)
            # The limit may have been lowered while the broker was down. A rebalance enforces it.
            if len(group.members) > self.config.group_max_size:
                rebalancing.prepare_rebalance(turn, group)
        return turn.outcome

    def unload(self, now_ms: int) -> Outcome:
        turn = self._turn(now_ms)
        gone = ErrorCode.NOT_COORDINATOR
        for group in self._all():
            for member_id in group.members:
                turn.answer_join(group, member_id, JoinResult(error=gone, member_id=member_id))
                turn.answer_sync(group, member_id, SyncResult(error=gone))
        return turn.outcome

    def topic_changed(self) -> None:
        """Do nothing: clients of the classic protocol watch topics themselves."""

    def _turn(self, now_ms: int) -> Turn:
        return Turn(now_ms, self.config, self._deadlines)

    def _group(self, group_id: str) -> ClassicGroup | None:
        group = self._registry.get(group_id)
        return group if isinstance(group, ClassicGroup) else None

    def _all(self) -> list[ClassicGroup]:
        return [group for group in self._registry.all() if isinstance(group, ClassicGroup)]

    def _take_in(self, group: ClassicGroup) -> None:
        self._registry.put(group)
        self._registry.show(group)

    def _expire(self, turn: Turn, group: ClassicGroup, timer: Timer) -> None:
        if timer.kind is TimerKind.INITIAL_DELAY:
            rebalancing.expire_initial_delay(turn, group)
        elif timer.kind is TimerKind.JOIN:
            rebalancing.complete_join(turn, group)
        elif timer.kind is TimerKind.SYNC:
            rebalancing.expire_sync(turn, group)
        else:
            rebalancing.expire_session(turn, group, timer.member_id)
