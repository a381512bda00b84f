"""A driver of a GroupCoordinator with topics and members of the consumer protocol."""

from __future__ import annotations

import attrs

from pipeline_broker.state.groups.consumer.group import ConsumerGroup
from pipeline_broker.state.groups.consumer.messages import HeartbeatRequest, HeartbeatResult
from tests.state.groups.topic_driver import TopicDriver

JOIN = {"member_epoch": 0, "rebalance_timeout_ms": 60_000, "owned": {}, "topic_names": frozenset({"t"})}


@attrs.define
class ConsumerDriver(TopicDriver):
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
