"""The context of one call on one consumer group, which may have classic members."""

from __future__ import annotations

from pipeline_broker.config.group_settings import ConsumerGroupSettings
from pipeline_broker.state.groups.consumer.group import ConsumerGroup
from pipeline_broker.state.groups.consumer.member import Member
from pipeline_broker.state.groups.consumer.updates import Subject
from pipeline_broker.state.groups.modern.member import CurrentAssignment
from pipeline_broker.state.groups.modern.step import ModernStep, TimerKind

__all__ = ["Step"]


class Step(ModernStep[ConsumerGroup, ConsumerGroupSettings]):
    def emit_current(self, member_id: str, current: CurrentAssignment) -> None:
        if self.group.members[member_id].metadata.classic is None:
            super().emit_current(member_id, current)
        else:  # JOIN and SYNC bound a rebalance of a classic member
            self.emit(Subject.CURRENT, member_id, current)

    def start_session(self, member: Member) -> None:
        classic = member.metadata.classic
        if classic is None:
            super().start_session(member)
        else:
            self.start(TimerKind.SESSION, member.member_id, classic.session_timeout_ms)
