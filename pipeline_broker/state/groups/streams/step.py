"""The context of one call on one streams group."""

from __future__ import annotations

from pipeline_broker.config.group_settings import StreamsGroupSettings
from pipeline_broker.state.groups.modern.step import ModernStep
from pipeline_broker.state.groups.streams.group import StreamsGroup

__all__ = ["Step"]


class Step(ModernStep[StreamsGroup, StreamsGroupSettings]):
    def partitions_of(self, topic: str) -> int | None:
        found = self.topics.get(topic)
        return None if found is None else found.partitions
