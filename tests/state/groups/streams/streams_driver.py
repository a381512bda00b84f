"""A driver of a GroupCoordinator with topics and members of the streams protocol."""

from __future__ import annotations

import attrs

from pipeline_broker.state.groups.streams.group import StreamsGroup
from pipeline_broker.state.groups.streams.messages import HeartbeatRequest, HeartbeatResult
from pipeline_broker.state.groups.streams.tasks import Tasks
from pipeline_broker.state.groups.streams.topology import Subtopology, TopicInfo, Topology
from tests.state.groups.topic_driver import TopicDriver

STORE = TopicInfo("store", 0, 0, (("cleanup.policy", "compact"),))
TOPOLOGY = Topology(0, (Subtopology("0", ("t",), state_changelog_topics=(STORE,)),))
JOIN = {"member_epoch": 0, "rebalance_timeout_ms": 60_000, "active": {}, "standby": {}, "warmup": {}}


@attrs.define
class StreamsDriver(TopicDriver):
    """A driver whose members have `topology` and no initial delay, unless they say otherwise."""

    topology: Topology = TOPOLOGY

    def create_topics(self, partitions: int = 4) -> None:
        self.create("t", partitions)
        self.create("store", partitions)

    def beat(self, member_id: str, **more: object) -> HeartbeatResult | None:
        """Send one heartbeat; return None while it is unanswered."""
        token = f"beat-{next(self.fresh)}"
        request = HeartbeatRequest(**{"group_id": "g", "member_id": member_id} | more)
        self.take(self.coordinator.streams.heartbeat(request, token, self.now_ms))
        return self.answers.get(token)

    def enter(self, member_id: str, **more: object) -> HeartbeatResult | None:
        """Send the first heartbeat of a member, in a process of its own."""
        return self.beat(member_id, **{**JOIN, "topology": self.topology, "process_id": f"p-{member_id}", **more})

    def group(self, group_id: str = "g") -> StreamsGroup:
        found = self.coordinator.registry.get(group_id)
        assert isinstance(found, StreamsGroup)
        return found


def owned(tasks: Tasks) -> dict[str, object]:
    """Return the fields of a heartbeat that reports these tasks."""
    return dict(zip(("active", "standby", "warmup"), tasks, strict=True))
