"""The coordinator of classic groups and of their committed offsets.

Rules of this room: see `state/outcome.py`. A request that cannot be answered at once is parked under the caller's
token, and its answer comes out of whichever call makes it possible. The caller

    * appends the records of every `Write` in the outcome, in order, and calls `durable` (or `failed`) with it after;
    * calls `advance` when `next_deadline_ms` has come;
    * after a restart calls `replay` for every durable record in order, then `loaded`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

import attrs

from pipeline_broker.state.classic_groups import commits, joining, membership, rebalancing
from pipeline_broker.state.classic_groups.classic_group import ClassicGroup, GroupState
from pipeline_broker.state.classic_groups.commits import CommitRequest, CommitResult, FetchedOffset, FetchTopic
from pipeline_broker.state.classic_groups.joining import StaticMemberStored
from pipeline_broker.state.classic_groups.membership import AssignmentStored
from pipeline_broker.state.classic_groups.messages import (
    DescribedGroup,
    DescribedMember,
    GroupSettings,
    HeartbeatRequest,
    JoinRequest,
    JoinResult,
    LeaveResult,
    LeavingMember,
    LeftMember,
    ListedGroup,
    SyncRequest,
    SyncResult,
)
from pipeline_broker.state.classic_groups.turn import Timer, TimerKind, Turn
from pipeline_broker.state.deadlines import Deadlines
from pipeline_broker.state.group_records import (
    GroupKey,
    OffsetKey,
    group_from_value,
    group_tombstone,
    new_group_record,
    offset_from_value,
    offset_tombstone,
    read_key,
)
from pipeline_broker.state.offsets import CommittedOffsets, OffsetChange
from pipeline_broker.state.outcome import Outcome, Write
from pipeline_broker.wire.error import ErrorCode

__all__ = ["GroupCoordinator"]


@attrs.frozen(eq=False)
class GroupDeleted:
    """A group and its offsets: gone once their tombstones are durable."""

    group: ClassicGroup
    offsets: OffsetChange


class GroupCoordinator:
    """All classic groups of a broker, and what they have committed."""

    def __init__(self, settings: GroupSettings) -> None:
        self.settings = settings
        self._groups: dict[str, ClassicGroup] = {}
        self._offsets = CommittedOffsets()
        self._deadlines: Deadlines[Timer] = Deadlines()

    # Members

    def join(self, request: JoinRequest, token: object, now_ms: int) -> Outcome:
        """Answer a JoinGroup, or park it."""
        turn = self._turn(now_ms)
        group = self._groups.get(request.group_id)
        error = self._join_error(request, group)
        if error is not ErrorCode.NONE:
            turn.answer(token, JoinResult(error=error, member_id=request.member_id))
            return turn.outcome
        is_new = group is None
        if group is None:
            group = self._create(request.group_id, now_ms)
        joining.join(turn, group, request, token)
        if is_new:
            turn.outcome.writes.append(Write(group.group_id, (new_group_record(group),)))
        return turn.outcome

    def sync(self, request: SyncRequest, token: object, now_ms: int) -> Outcome:
        """Answer a SyncGroup, or park it."""
        turn = self._turn(now_ms)
        group = self._groups.get(request.group_id)
        if not request.group_id:
            turn.answer(token, SyncResult(error=ErrorCode.INVALID_GROUP_ID))
        elif group is None:
            turn.answer(token, SyncResult(error=ErrorCode.UNKNOWN_MEMBER_ID))
        else:
            membership.sync(turn, group, request, token)
        return turn.outcome

    def heartbeat(self, request: HeartbeatRequest, now_ms: int) -> ErrorCode:
        """Note that a member is alive."""
        if not request.group_id:
            return ErrorCode.INVALID_GROUP_ID
        group = self._groups.get(request.group_id)
        if group is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        return membership.heartbeat(self._turn(now_ms), group, request)

    def leave(self, group_id: str, leaving: Iterable[LeavingMember], now_ms: int) -> tuple[LeaveResult, Outcome]:
        """Let members go; the answer may leave when the writes of the outcome are durable."""
        turn = self._turn(now_ms)
        group = self._groups.get(group_id)
        if not group_id:
            return LeaveResult(ErrorCode.INVALID_GROUP_ID), turn.outcome
        if group is None:
            unknown = ErrorCode.UNKNOWN_MEMBER_ID
            left = tuple(LeftMember(who.member_id, who.group_instance_id, unknown) for who in leaving)
            return LeaveResult(members=left), turn.outcome
        if group.state is GroupState.DEAD:
            return LeaveResult(ErrorCode.COORDINATOR_NOT_AVAILABLE), turn.outcome
        return LeaveResult(members=membership.leave(turn, group, tuple(leaving))), turn.outcome

    # Administration

    def describe(self, group_id: str) -> DescribedGroup:
        """Show one group with its members; metadata of a protocol only where one is agreed."""
        group = self._groups.get(group_id)
        if group is None:
            return DescribedGroup(group_id=group_id, found=False, state=GroupState.DEAD.value)
        stable_protocol = group.protocol_name if group.state is GroupState.STABLE else None
        return DescribedGroup(
            group_id=group_id,
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

    def list_groups(self, states: Collection[str] = (), types: Collection[str] = ()) -> list[ListedGroup]:
        """Name the groups that are in one of the states and of one of the types, in any case; none given: all."""
        wanted_states = {state.lower() for state in states}
        wanted_types = {group_type.lower() for group_type in types}
        listed = (
            ListedGroup(group.group_id, group.protocol_type or "", group.state.value) for group in self._groups.values()
        )
        return [
            group
            for group in listed
            if (not wanted_states or group.state.lower() in wanted_states)
            and (not wanted_types or group.group_type in wanted_types)
        ]

    def delete(self, group_ids: Iterable[str], now_ms: int) -> tuple[dict[str, ErrorCode], Outcome]:
        """Delete empty groups with their offsets; the answer may leave when the writes are durable."""
        turn = self._turn(now_ms)
        errors: dict[str, ErrorCode] = {}
        for group_id in group_ids:
            if group_id in errors:
                continue
            group = self._groups.get(group_id)
            if group is None or group.state is GroupState.DEAD:
                errors[group_id] = ErrorCode.GROUP_ID_NOT_FOUND
            elif group.state is not GroupState.EMPTY:
                errors[group_id] = ErrorCode.NON_EMPTY_GROUP
            else:
                errors[group_id] = ErrorCode.NONE
                self._delete(turn, group)
        return errors, turn.outcome

    # Offsets

    def commit(self, request: CommitRequest, now_ms: int) -> CommitResult:
        """Check a commit; it is visible after `durable` was called with its write, never after `failed`."""
        group = self._groups.get(request.group_id)
        if group is None and request.generation_id >= 0:
            named = request.missing_group_named
            error = ErrorCode.GROUP_ID_NOT_FOUND if named else ErrorCode.ILLEGAL_GENERATION
            return CommitResult((error,) * len(request.partitions))
        if group is None:
            group = self._create(request.group_id, now_ms)
        return commits.commit(self._turn(now_ms), group, self._offsets, request)

    def fetch(self, group_id: str, topics: Iterable[FetchTopic] | None = None) -> list[FetchedOffset]:
        """Show the durable offsets of a group: of some partitions, or (None) all."""
        group = self._groups.get(group_id)
        if group is not None and group.state is GroupState.DEAD and topics is None:
            return []
        return commits.fetch(self._offsets, group_id, topics)

    def forget_topic(self, topic: str) -> Outcome:
        """Delete what all groups have committed for a topic that is gone."""
        outcome = Outcome()
        for group_id, keys in self._offsets.of_topic(topic).items():
            outcome.writes.append(self._delete_offsets(group_id, keys))
        return outcome

    # Time and durability

    def next_deadline_ms(self) -> int | None:
        """When `advance` must be called at the latest; None: not until something else happens."""
        return self._deadlines.next_ms()

    def advance(self, now_ms: int) -> Outcome:
        """Do what is due."""
        turn = self._turn(now_ms)
        for timer in self._deadlines.pop_due(now_ms):
            if timer.kind is TimerKind.OFFSET_EXPIRY:
                self._expire_offsets(turn)
            elif (group := self._groups.get(timer.group_id)) is not None:
                self._expire(turn, group, timer)
        return turn.outcome

    def durable(self, write: Write, now_ms: int) -> Outcome:
        """The records of a write are durable; writes become durable in the order in which they were returned."""
        turn = self._turn(now_ms)
        change = write.change
        if isinstance(change, OffsetChange):
            self._offsets.apply(change)
        elif isinstance(change, AssignmentStored):
            membership.assignment_stored(turn, change)
        elif isinstance(change, StaticMemberStored):
            joining.static_member_stored(turn, change)
        elif isinstance(change, GroupDeleted):
            self._offsets.apply(change.offsets)
            self._forget(change.group)
        return turn.outcome

    def failed(self, write: Write, error: ErrorCode, now_ms: int) -> Outcome:
        """The records of a write will never be durable."""
        turn = self._turn(now_ms)
        change = write.change
        if isinstance(change, OffsetChange):
            self._offsets.drop(change)
        elif isinstance(change, AssignmentStored):
            membership.assignment_not_stored(turn, change, error)
        elif isinstance(change, StaticMemberStored):
            joining.static_member_not_stored(turn, change, error)
        elif isinstance(change, GroupDeleted):
            self._offsets.drop(change.offsets)
            turn.to_state(change.group, GroupState.EMPTY)
        return turn.outcome

    def replay(self, key: bytes, value: bytes | None) -> None:
        """Take over one durable record; raises CorruptStateRecordError."""
        subject = read_key(key)
        if isinstance(subject, OffsetKey):
            self._offsets.replay(subject, None if value is None else offset_from_value(value))
            if value is not None and subject.group_id not in self._groups:
                self._create(subject.group_id, -1)
        elif isinstance(subject, GroupKey):
            if value is None:
                self._groups.pop(subject.group_id, None)
            else:
                self._groups[subject.group_id] = group_from_value(subject.group_id, value)

    def loaded(self, now_ms: int) -> Outcome:
        """All records are replayed: sessions start now, and a group above the size limit rebalances."""
        turn = self._turn(now_ms)
        for group in self._groups.values():
            for member in group.members.values():
                turn.refresh_session(group, member)
            if len(group.members) > self.settings.group_size_max:
                rebalancing.prepare_rebalance(turn, group)
        self._schedule_expiry(now_ms)
        return turn.outcome

    def unload(self, now_ms: int) -> Outcome:
        """Give up all groups: who waits is told to look for another coordinator. This one must not be used again."""
        turn = self._turn(now_ms)
        gone = ErrorCode.NOT_COORDINATOR
        for group in self._groups.values():
            for member_id in group.members:
                turn.answer_join(group, member_id, JoinResult(error=gone, member_id=member_id))
                turn.answer_sync(group, member_id, SyncResult(error=gone))
        return turn.outcome

    def _turn(self, now_ms: int) -> Turn:
        return Turn(now_ms, self.settings, self._deadlines)

    def _create(self, group_id: str, now_ms: int) -> ClassicGroup:
        group = ClassicGroup(group_id=group_id, state_since_ms=now_ms)
        self._groups[group_id] = group
        return group

    def _forget(self, group: ClassicGroup) -> None:
        del self._groups[group.group_id]

    def _join_error(self, request: JoinRequest, group: ClassicGroup | None) -> ErrorCode:
        if not request.group_id:
            return ErrorCode.INVALID_GROUP_ID
        least_ms, most_ms = self.settings.session_timeout_ms_min, self.settings.session_timeout_ms_max
        if not least_ms <= request.session_timeout_ms <= most_ms:
            return ErrorCode.INVALID_SESSION_TIMEOUT
        if group is None and request.member_id:
            return ErrorCode.UNKNOWN_MEMBER_ID
        return ErrorCode.NONE

    def _expire(self, turn: Turn, group: ClassicGroup, timer: Timer) -> None:
        if timer.kind is TimerKind.INITIAL_DELAY:
            rebalancing.expire_initial_delay(turn, group)
        elif timer.kind is TimerKind.JOIN:
            rebalancing.complete_join(turn, group)
        elif timer.kind is TimerKind.SYNC:
            rebalancing.expire_sync(turn, group)
        else:
            rebalancing.expire_session(turn, group, timer.member_id)

    def _expire_offsets(self, turn: Turn) -> None:
        for group in list(self._groups.values()):
            if group.state is GroupState.DEAD:
                continue
            keys = commits.expired(turn, group, self._offsets)
            idle = group.state is GroupState.EMPTY and not group.pending_joins
            if idle and len(keys) == len(self._offsets.deletable(group.group_id)):
                self._delete(turn, group)
            elif keys:
                turn.outcome.writes.append(self._delete_offsets(group.group_id, keys))
        self._schedule_expiry(turn.now_ms)

    def _schedule_expiry(self, now_ms: int) -> None:
        due_ms = now_ms + self.settings.offsets_retention_check_interval_ms
        self._deadlines.set(Timer(TimerKind.OFFSET_EXPIRY), due_ms)

    def _delete(self, turn: Turn, group: ClassicGroup) -> None:
        for member_id in list(group.pending_joins):
            turn.remove(group, member_id)
        write = self._delete_offsets(group.group_id, self._offsets.deletable(group.group_id))
        records = (*write.records, group_tombstone(group.group_id))
        assert isinstance(write.change, OffsetChange)
        turn.to_state(group, GroupState.DEAD)
        turn.outcome.writes.append(Write(group.group_id, records, GroupDeleted(group, write.change)))

    def _delete_offsets(self, group_id: str, keys: Iterable[OffsetKey]) -> Write:
        change = self._offsets.change((key, None) for key in keys)
        return Write(group_id, tuple(offset_tombstone(key) for key, _ in change.changes), change)
