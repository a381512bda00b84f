"""What one call does to groups, collected: answers, records, deadlines.

Rules of this file: the only place that answers a parked request or sets a deadline of a member. A token is taken out
of its group in the same step in which its answer is collected, so no token can be answered twice.
"""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

import attrs

from pipeline_broker.state.deadlines import Deadlines
from pipeline_broker.state.groups.classic.classic_group import ClassicGroup, GroupState, Member
from pipeline_broker.state.groups.classic.messages import JoinResult, SyncResult
from pipeline_broker.state.groups.classic.records import group_metadata_record
from pipeline_broker.state.groups.settings import GroupSettings
from pipeline_broker.state.outcome import Completion, Outcome, Write
from pipeline_broker.wire.error import ErrorCode

__all__ = ["Timer", "TimerKind", "Turn"]


class TimerKind(IntEnum):
    """What a deadline is about."""

    SESSION = 0  # a member, or an id that was given out
    INITIAL_DELAY = 1  # of the first rebalance of a group
    JOIN = 2  # phase of a group
    SYNC = 3  # phase of a group


class Timer(NamedTuple):
    """The key of a deadline."""

    kind: TimerKind
    group_id: str = ""
    member_id: str = ""


@attrs.define
class Turn:
    """One call: the time it has, and what it leaves to do."""

    now_ms: int
    settings: GroupSettings
    deadlines: Deadlines[Timer]
    outcome: Outcome = attrs.Factory(Outcome)

    def set_timer(self, kind: TimerKind, group: ClassicGroup, delay_ms: int) -> None:
        """Start or restart a timer of a whole group."""
        self.deadlines.set(Timer(kind, group.group_id), self.now_ms + delay_ms)

    def cancel_timer(self, kind: TimerKind, group: ClassicGroup) -> None:
        """Stop a timer of a whole group."""
        self.deadlines.cancel(Timer(kind, group.group_id))

    def refresh_session(self, group: ClassicGroup, member: Member) -> None:
        """Give a member its whole session timeout again."""
        self.start_session(group, member.member_id, member.session_timeout_ms)

    def start_session(self, group: ClassicGroup, member_id: str, delay_ms: int) -> None:
        """Expect to hear of a member within `delay_ms`."""
        self.deadlines.set(Timer(TimerKind.SESSION, group.group_id, member_id), self.now_ms + delay_ms)

    def end_session(self, group: ClassicGroup, member_id: str) -> None:
        """Expect nothing of a member any more."""
        self.deadlines.cancel(Timer(TimerKind.SESSION, group.group_id, member_id))

    def answer(self, token: object, result: object) -> None:
        """Answer a request that no group keeps."""
        self.outcome.completions.append(Completion(token, result))

    def park_join(self, group: ClassicGroup, member: Member, token: object) -> None:
        """Keep a join until the generation is complete; an earlier one of that member is told to try again."""
        self.answer_join(
            group,
            member.member_id,
            JoinResult(error=ErrorCode.REBALANCE_IN_PROGRESS, member_id=member.member_id),
        )
        group.parked_joins[member.member_id] = token

    def answer_join(self, group: ClassicGroup, member_id: str, result: JoinResult) -> None:
        """Answer the parked join of a member, if it has one."""
        token = group.parked_joins.pop(member_id, None)
        if token is not None:
            self.answer(token, result)

    def park_sync(self, group: ClassicGroup, member: Member, token: object) -> None:
        """Keep a sync until the assignment is durable; an earlier one of that member is told to try again."""
        self.answer_sync(group, member.member_id, SyncResult(error=ErrorCode.REBALANCE_IN_PROGRESS))
        group.parked_syncs[member.member_id] = token

    def answer_sync(self, group: ClassicGroup, member_id: str, result: SyncResult) -> bool:
        """Answer the parked sync of a member; False when it has none."""
        token = group.parked_syncs.pop(member_id, None)
        if token is not None:
            self.answer(token, result)
        return token is not None

    def remove(self, group: ClassicGroup, member_id: str) -> None:
        """Take a member out of its group; whatever it still waits for is answered."""
        unknown = ErrorCode.UNKNOWN_MEMBER_ID
        if member_id in group.parked_joins:  # a result for nobody costs a microsecond, and very many may leave at once
            self.answer_join(group, member_id, JoinResult(error=unknown))
        if member_id in group.parked_syncs:
            self.answer_sync(group, member_id, SyncResult(error=unknown))
        group.remove(member_id)
        self.end_session(group, member_id)

    def store(self, group: ClassicGroup, assignments: dict[str, bytes], change: object = None) -> None:
        """Append the group as it is, with these assignments; `change` happens when that is durable."""
        record = group_metadata_record(group, assignments)
        self.outcome.writes.append(Write(group.group_id, (record,), change))

    def to_state(self, group: ClassicGroup, state: GroupState) -> None:
        """Change the state of a group, now."""
        group.transition(state, self.now_ms)
