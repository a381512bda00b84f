"""The context of one call on one group: its inputs, and the updates and timers that it decides."""

from __future__ import annotations

from enum import IntEnum
from typing import Any, Generic, NamedTuple, TypeVar

import attrs

from pipeline_broker.config.broker_config import BrokerConfig
from pipeline_broker.config.group_settings import GroupSettings
from pipeline_broker.state.deadlines import Deadlines
from pipeline_broker.state.groups.memory import GroupMemory
from pipeline_broker.state.groups.modern.group import ModernGroup
from pipeline_broker.state.groups.modern.member import CurrentAssignment, MemberState
from pipeline_broker.state.groups.modern.updates import Update
from pipeline_broker.state.groups.topic_view import TopicView
from pipeline_broker.state.outcome import StateRecord

__all__ = ["ModernStep", "Timer", "TimerKind"]

AnyGroup = TypeVar("AnyGroup", bound=ModernGroup)
AnySettings = TypeVar("AnySettings", bound=GroupSettings)


class TimerKind(IntEnum):
    SESSION = 0  # time until the next heartbeat
    REBALANCE = 1  # time to revoke partitions
    JOIN = 2  # classic protocol: time to rejoin
    SYNC = 3  # classic protocol: time between the join and its SyncGroup request
    INITIAL = 4  # of a new streams group: time for more members to join before the first assignment


class Timer(NamedTuple):
    kind: TimerKind
    group_id: str
    member_id: str


@attrs.define
class ModernStep(Generic[AnyGroup, AnySettings]):
    """One call on one group.

    Check a request completely before you emit the first update: an emitted update counts at once for later decisions,
    and cannot be undone. Other clients see it once its record is durable. Only this class sets timers.

    Attributes:
        settings: settings of this group.
        memory: the memory of all groups.
        topics_version: increases whenever a topic is created, deleted or gets more partitions.
        records: records to write before those of the updates.
        replaces: the classic group that this group replaces.
    """

    group: AnyGroup
    now_ms: int
    config: BrokerConfig
    settings: AnySettings
    topics: TopicView
    topics_version: int
    deadlines: Deadlines[Timer]
    memory: GroupMemory
    updates: list[Update] = attrs.Factory(list)
    records: list[StateRecord] = attrs.Factory(list)
    replaces: object = None

    def emit(self, subject: IntEnum, name: str, value: Any) -> None:
        """Apply a change to the group, and add it to the updates to write."""
        update = Update(subject, name, value)
        self.group.apply(update)
        self.updates.append(update)

    def emit_current(self, member_id: str, current: CurrentAssignment) -> None:
        """Change the assignment of a member.

        Starts its rebalance timeout if it must revoke partitions, and stops it otherwise.
        """
        self.emit(self.group.SUBJECTS.current, member_id, current)
        if current.state is MemberState.UNREVOKED_PARTITIONS:
            self.start(TimerKind.REBALANCE, member_id, self.group.members[member_id].metadata.rebalance_timeout_ms)
        else:
            self.stop(TimerKind.REBALANCE, member_id)

    def start_session(self, member: Any) -> None:
        self.start(TimerKind.SESSION, member.member_id, self.settings.session_timeout_ms)

    def start(self, kind: TimerKind, member_id: str, delay_ms: int) -> None:
        self.deadlines.set(Timer(kind, self.group.group_id, member_id), self.now_ms + delay_ms)

    def is_running(self, kind: TimerKind, member_id: str) -> bool:
        return Timer(kind, self.group.group_id, member_id) in self.deadlines

    def start_if_absent(self, kind: TimerKind, member_id: str, delay_ms: int) -> None:
        if not self.is_running(kind, member_id):
            self.start(kind, member_id, delay_ms)

    def stop(self, kind: TimerKind, member_id: str) -> None:
        self.deadlines.cancel(Timer(kind, self.group.group_id, member_id))

    def stop_all(self, member_id: str) -> None:
        for kind in TimerKind:
            self.stop(kind, member_id)
