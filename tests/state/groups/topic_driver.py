"""A driver of a GroupCoordinator with topics."""

from __future__ import annotations

from itertools import count

import attrs

from pipeline_broker.state.topics import NewTopic
from tests.state.group_driver import Driver


@attrs.define
class TopicDriver(Driver):
    numbers: count = attrs.Factory(count)

    def create(self, name: str, partitions: int = 4) -> bytes:
        """Create a topic and return its id."""
        topic_id = next(self.numbers).to_bytes(16)
        self.topics.durable(
            self.topics.create(NewTopic(name=name, topic_id=topic_id, partitions=partitions)),
        )
        self.coordinator.topic_changed()
        return topic_id

    def grow(self, name: str, partitions: int) -> None:
        self.topics.durable(self.topics.add_partitions(name, partitions))
        self.coordinator.topic_changed()

    def drop(self, name: str) -> None:
        self.topics.durable(self.topics.delete(name))
        self.coordinator.topic_changed()
