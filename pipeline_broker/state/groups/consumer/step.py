"""One call on one consumer group: what it may look at, and what it has decided so far.

Rules of this file: whoever decides checks everything first and then emits; an update counts at once for what is decided
next, and is shown to others when its record is durable. Timers are set here and nowhere else.
"""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

import attrs

from pipeline_broker.state.deadlines import Deadlines
from pipeline_broker.state.groups.consumer.group import ConsumerGroup
from pipeline_broker.state.groups.consumer.member import CurrentAssignment, Member, MemberState
from pipeline_broker.state.groups.consumer.topic_view import TopicView
from pipeline_broker.state.groups.consumer.updates import Subject, Update, Value
from pipeline_broker.state.groups.memory import GroupMemory
from pipeline_broker.state.groups.settings import GroupSettings
from pipeline_broker.state.outcome import StateRecord

__all__ = ["Step", "Timer", "TimerKind"]


class TimerKind(IntEnum):
    """What a deadline of a member is about."""

    SESSION = 0  # it must be heard of
    REBALANCE = 1  # it must give back what it was asked for
    JOIN = 2  # of the classic protocol: it was told to join again
    SYNC = 3  # of the classic protocol: it joined and must ask for its assignment


class Timer(NamedTuple):
    """The key of a deadline."""

    kind: TimerKind
    group_id: str
    member_id: str


@attrs.define
class Step:
    """See the rules of the file.

    Attributes:
        settings: of this group.
        memory: of all groups.
        topics_version: changes with every topic that comes, grows or goes.
        records: what must be written in front of the updates.
        replaces: the classic group that became this one.
    """

    group: ConsumerGroup
    now_ms: int
    settings: GroupSettings
    topics: TopicView
    topics_version: int
    deadlines: Deadlines[Timer]
    memory: GroupMemory
    updates: list[Update] = attrs.Factory(list)
    records: list[StateRecord] = attrs.Factory(list)
    replaces: object = None

    def emit(self, subject: Subject, name: str, value: Value | None) -> None:
        """Decide a change."""
        update = Update(subject, name, value)
        self.group.apply(update)
        self.updates.append(update)

    def emit_current(self, member_id: str, current: CurrentAssignment) -> None:
        """Decide where a member is; it has its rebalance timeout to give back what it was asked for."""
        self.emit(Subject.CURRENT, member_id, current)
        member = self.group.members[member_id]
        if member.metadata.classic is not None:
            return  # has timers of its own for that
        if current.state is MemberState.UNREVOKED_PARTITIONS:
            self.start(TimerKind.REBALANCE, member_id, member.metadata.rebalance_timeout_ms)
        else:
            self.stop(TimerKind.REBALANCE, member_id)

    def start_session(self, member: Member) -> None:
        """Expect to hear of a member within its session timeout."""
        classic = member.metadata.classic
        timeout_ms = self.settings.consumer_session_timeout_ms if classic is None else classic.session_timeout_ms
        self.start(TimerKind.SESSION, member.member_id, timeout_ms)

    def start(self, kind: TimerKind, member_id: str, delay_ms: int) -> None:
        """Start or restart a timer of a member."""
        self.deadlines.set(Timer(kind, self.group.group_id, member_id), self.now_ms + delay_ms)

    def start_if_absent(self, kind: TimerKind, member_id: str, delay_ms: int) -> None:
        """Start a timer of a member, unless it runs."""
        if Timer(kind, self.group.group_id, member_id) not in self.deadlines:
            self.start(kind, member_id, delay_ms)

    def stop(self, kind: TimerKind, member_id: str) -> None:
        self.deadlines.cancel(Timer(kind, self.group.group_id, member_id))

    def stop_all(self, member_id: str) -> None:
        """Stop all timers of a member."""
        for kind in TimerKind:
            self.stop(kind, member_id)
