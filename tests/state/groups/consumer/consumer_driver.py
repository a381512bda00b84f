"""A driver of a GroupCoordinator with topics and members of the consumer protocol."""

from __future__ import annotations

from itertools import count

import attrs

from pipeline_broker.state.groups.consumer.group import ConsumerGroup
from pipeline_broker.state.groups.consumer.messages import HeartbeatRequest, HeartbeatResult
from pipeline_broker.state.topics import NewTopic
from tests.state.group_driver import Driver

JOIN = {"member_epoch": 0, "rebalance_timeout_ms": 60_000, "owned": {}, "topic_names": frozenset({"t"})}


@attrs.define
class ConsumerDriver(Driver):
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

    def beat(self, member_id: str, **more: object) -> HeartbeatResult | None:
        """Send one heartbeat; return None while it is unanswered."""
        token = f"beat-{next(self.fresh)}"
        request = HeartbeatRequest(**{"group_id": "g", "member_id": member_id, "fresh_id": f"fresh-{token}"} | more)
        self.take(self.coordinator.consumer.heartbeat(request, token, self.now_ms))
        return self.answers.get(token)

    def enter(self, member_id: str, **more: object) -> HeartbeatResult | None:
        """Send the first heartbeat of a member."""
        return self.beat(member_id, **{**JOIN, **more})

    def group(self, group_id: str = "g") -> ConsumerGroup:
        found = self.coordinator.registry.get(group_id)
        assert isinstance(found, ConsumerGroup)
        return found


def numbers(assignment) -> list[int]:
    """Return the assigned partitions of the only topic."""
    assert len(assignment) <= 1
    return sorted(partition for partitions in assignment.values() for partition in partitions)
