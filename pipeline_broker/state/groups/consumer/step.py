"""The context of one call on one consumer group: its inputs, and the updates and timers that it decides."""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

import attrs

from pipeline_broker.config.broker_config import BrokerConfig
from pipeline_broker.config.group_settings import ConsumerGroupSettings
from pipeline_broker.state.deadlines import Deadlines
from pipeline_broker.state.groups.consumer.group import ConsumerGroup
from pipeline_broker.state.groups.consumer.member import CurrentAssignment, Member, MemberState
from pipeline_broker.state.groups.consumer.topic_view import TopicView
from pipeline_broker.state.groups.consumer.updates import Subject, Update, Value
from pipeline_broker.state.groups.memory import GroupMemory
from pipeline_broker.state.outcome import StateRecord

__all__ = ["Step", "Timer", "TimerKind"]


class TimerKind(IntEnum):
    SESSION = 0  # time until the next heartbeat
    REBALANCE = 1  # time to revoke partitions
    JOIN = 2  # classic protocol: time to rejoin
    SYNC = 3  # classic protocol: time between the join and its SyncGroup request


class Timer(NamedTuple):
    kind: TimerKind
    group_id: str
    member_id: str


@attrs.define
class Step:
    """One call on one consumer group.

    Check a request completely before you emit the first update: an emitted update counts at once for later decisions,
    and cannot be undone. Other clients see it once its record is durable. Only this class sets timers.

    Attributes:
        settings: settings of this group.
        memory: the memory of all groups.
        topics_version: increases whenever a topic is created, deleted or gets more partitions.
        records: records to write before those of the updates.
        replaces: the classic group that this group replaces.
    """

    group: ConsumerGroup
    now_ms: int
    config: BrokerConfig
    settings: ConsumerGroupSettings
    topics: TopicView
    topics_version: int
    deadlines: Deadlines[Timer]
    memory: GroupMemory
    updates: list[Update] = attrs.Factory(list)
    records: list[StateRecord] = attrs.Factory(list)
    replaces: object = None

    def emit(self, subject: Subject, name: str, value: Value | None) -> None:
        """Apply a change to the group, and add it to the updates to write."""
        update = Update(subject, name, value)
        self.group.apply(update)
        self.updates.append(update)

    def emit_current(self, member_id: str, current: CurrentAssignment) -> None:
        """Change the assignment of a member.

        Starts its rebalance timeout if it must revoke partitions, and stops it otherwise. Classic members have none.
        """
        self.emit(Subject.CURRENT, member_id, current)
        member = self.group.members[member_id]
        if member.metadata.classic is not None:
            return  # JOIN and SYNC bound a rebalance of a classic member
        if current.state is MemberState.UNREVOKED_PARTITIONS:
            self.start(TimerKind.REBALANCE, member_id, member.metadata.rebalance_timeout_ms)
        else:
            self.stop(TimerKind.REBALANCE, member_id)

    def start_session(self, member: Member) -> None:
        classic = member.metadata.classic
        timeout_ms = self.settings.session_timeout_ms if classic is None else classic.session_timeout_ms
        self.start(TimerKind.SESSION, member.member_id, timeout_ms)

    def start(self, kind: TimerKind, member_id: str, delay_ms: int) -> None:
        self.deadlines.set(Timer(kind, self.group.group_id, member_id), self.now_ms + delay_ms)

    def start_if_absent(self, kind: TimerKind, member_id: str, delay_ms: int) -> None:
        if Timer(kind, self.group.group_id, member_id) not in self.deadlines:
            self.start(kind, member_id, delay_ms)

    def stop(self, kind: TimerKind, member_id: str) -> None:
        self.deadlines.cancel(Timer(kind, self.group.group_id, member_id))

    def stop_all(self, member_id: str) -> None:
        for kind in TimerKind:
            self.stop(kind, member_id)
