"""The effects of one call on classic groups: responses, records and deadlines."""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

import attrs

from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.config.broker_config import BrokerConfig
from pipeline_broker.state.deadlines import Deadlines
from pipeline_broker.state.groups.classic.classic_group import ClassicGroup, GroupState, Member
from pipeline_broker.state.groups.classic.messages import JoinResult, SyncResult
from pipeline_broker.state.groups.classic.records import group_metadata_record
from pipeline_broker.state.outcome import Completion, Outcome, Write

__all__ = ["Timer", "TimerKind", "Turn"]


class TimerKind(IntEnum):
    SESSION = 0  # of a member or a pending id
    INITIAL_DELAY = 1  # of the first rebalance of a group
    JOIN = 2  # phase of a group
    SYNC = 3  # phase of a group


class Timer(NamedTuple):
    kind: TimerKind
    group_id: str = ""
    member_id: str = ""


@attrs.define
class Turn:
    """The context of one call, which collects its outcome.

    Only this class answers parked requests and sets deadlines of members. It removes a token from its group in the same
    step in which it collects the response, so no request is answered twice.
    """

    now_ms: int
    config: BrokerConfig
    deadlines: Deadlines[Timer]
    outcome: Outcome = attrs.Factory(Outcome)

    def set_timer(self, kind: TimerKind, group: ClassicGroup, delay_ms: int) -> None:
        self.deadlines.set(Timer(kind, group.group_id), self.now_ms + delay_ms)

    def cancel_timer(self, kind: TimerKind, group: ClassicGroup) -> None:
        self.deadlines.cancel(Timer(kind, group.group_id))

    def refresh_session(self, group: ClassicGroup, member: Member) -> None:
        self.start_session(group, member.member_id, member.session_timeout_ms)

    def start_session(self, group: ClassicGroup, member_id: str, delay_ms: int) -> None:
        self.deadlines.set(Timer(TimerKind.SESSION, group.group_id, member_id), self.now_ms + delay_ms)

    def end_session(self, group: ClassicGroup, member_id: str) -> None:
        self.deadlines.cancel(Timer(TimerKind.SESSION, group.group_id, member_id))

    def answer(self, token: object, result: object) -> None:
        self.outcome.completions.append(Completion(token, result))

    def park_join(self, group: ClassicGroup, member: Member, token: object) -> None:
        """Park a join until the generation is complete.

        An earlier join of the same member fails with REBALANCE_IN_PROGRESS.
        """
        self.answer_join(
            group,
            member.member_id,
            JoinResult(error=ErrorCode.REBALANCE_IN_PROGRESS, member_id=member.member_id),
        )
        group.parked_joins[member.member_id] = token

    def answer_join(self, group: ClassicGroup, member_id: str, result: JoinResult) -> None:
        token = group.parked_joins.pop(member_id, None)
        if token is not None:
            self.answer(token, result)

    def park_sync(self, group: ClassicGroup, member: Member, token: object) -> None:
        """Park a sync until the assignment is durable.

        An earlier sync of the same member fails with REBALANCE_IN_PROGRESS.
        """
        self.answer_sync(group, member.member_id, SyncResult(error=ErrorCode.REBALANCE_IN_PROGRESS))
        group.parked_syncs[member.member_id] = token

    def answer_sync(self, group: ClassicGroup, member_id: str, result: SyncResult) -> bool:
        """Answer the parked sync of a member; return False if it has none."""
        token = group.parked_syncs.pop(member_id, None)
        if token is not None:
            self.answer(token, result)
        return token is not None

    def remove(self, group: ClassicGroup, member_id: str) -> None:
        """Remove a member from its group, and answer its parked requests with UNKNOWN_MEMBER_ID."""
        unknown = ErrorCode.UNKNOWN_MEMBER_ID
        # Build a result only if it is needed: it costs a microsecond, and thousands of members may leave at once.
        if member_id in group.parked_joins:
            self.answer_join(group, member_id, JoinResult(error=unknown))
        if member_id in group.parked_syncs:
            self.answer_sync(group, member_id, SyncResult(error=unknown))
        group.remove(member_id)
        self.end_session(group, member_id)

    def store(self, group: ClassicGroup, assignments: dict[str, bytes], change: object = None) -> None:
        """Append the record of a group with these assignments; `change` is applied once it is durable."""
        record = group_metadata_record(group, assignments)
        self.outcome.writes.append(Write(group.group_id, (record,), change))

    def to_state(self, group: ClassicGroup, state: GroupState) -> None:
        group.transition(state, self.now_ms)
