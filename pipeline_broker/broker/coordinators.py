"""A registry of a broker's coordinators, by the topics of their records."""

from __future__ import annotations

from collections.abc import Iterator

from pipeline_broker.broker.coordinator import Coordinator
from pipeline_broker.log.journal.entry import IndexedLog
from pipeline_broker.state.metadata_records import Topic

__all__ = ["Coordinators"]


class Coordinators:
    def __init__(self, *coordinators: Coordinator) -> None:
        self._by_topic = {coordinator.topic.name: coordinator for coordinator in coordinators}

    def __iter__(self) -> Iterator[Coordinator]:
        return iter(self._by_topic.values())

    def __contains__(self, topic: str) -> bool:
        return topic in self._by_topic

    def get(self, topic: str) -> Coordinator | None:
        """Return the coordinator that keeps its records in a topic; None for any other topic."""
        return self._by_topic.get(topic)

    def loaded(self, now_ms: int) -> None:
        for coordinator in self:
            coordinator.loaded(now_ms)

    def unload(self, topic: str) -> None:
        """Drop the state of the coordinator whose topic was deleted, if there is one."""
        coordinator = self._by_topic.get(topic)
        if coordinator is not None:
            coordinator.unload()

    def topic_deleted(self, topic: Topic) -> None:
        for coordinator in self:
            coordinator.topic_deleted(topic)

    def marker_durable(self, log: IndexedLog, producer_id: int, *, is_commit: bool) -> None:
        coordinator = self._by_topic.get(log.topic)
        if coordinator is not None:
            coordinator.marker_durable(log, producer_id, is_commit=is_commit)

    def next_deadline_ms(self) -> int | None:
        deadlines = [coordinator.next_deadline_ms() for coordinator in self]
        return min((deadline for deadline in deadlines if deadline is not None), default=None)

    def advance(self, now_ms: int) -> None:
        for coordinator in self:
            coordinator.advance(now_ms)
