"""The view of one broker on a cluster of several: members and leaders as of the metadata that it has applied."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TYPE_CHECKING

from pipeline_broker.broker.leadership import NO_BROKER, BrokerAddress, Leader, Leadership
from pipeline_broker.log.leader_epochs import FIRST_EPOCH
from pipeline_broker.state.leadership.nodes import NodeState
from pipeline_broker.state.leadership.records import PartitionKey, PartitionRecord

if TYPE_CHECKING:
    from pipeline_broker.broker.cluster_members import ClusterMembers
    from pipeline_broker.state.metadata_records import Topic
    from pipeline_broker.state.topics import TopicCatalogue

__all__ = ["ClusterLeadership"]


class ClusterLeadership(Leadership):
    """Members and leaders of a cluster.

    Args:
        members: members and leaders as of the applied metadata.
        advertised, epoch_of: see `Leadership`.
        topics: existing topics.
    """

    leads_all = False

    def __init__(
        self,
        members: ClusterMembers,
        advertised: Callable[[str], tuple[str, int] | None],
        epoch_of: Callable[[str, int], int],
        topics: TopicCatalogue,
    ) -> None:
        super().__init__(members.broker_id, advertised, epoch_of)
        self._members = members
        self._topics = topics

    def brokers(self, listener: str) -> list[BrokerAddress]:
        found = []
        for node_id, node in sorted(self._members.image.nodes.items()):
            address = self._advertised(listener) if node_id == self.broker_id else node.listeners.get(listener)
            if self.is_there(node_id) and address is not None:
                found.append(BrokerAddress(node_id, *address))
        return found

    @property
    def members(self) -> Collection[int]:
        return self._members.image.nodes.keys()

    def controller_id(self) -> int:
        controller = self._members.controller_id
        return controller if self.is_there(controller) else NO_BROKER

    def leader_of(self, topic: str, partition: int) -> Leader:
        record = self._record(topic, partition)
        return Leader(record.leader if self.is_there(record.leader) else NO_BROKER, record.epoch)

    def is_there(self, node_id: int) -> bool:
        node = self._members.image.nodes.get(node_id)
        is_joined = node is not None and node.state is NodeState.JOINED
        # The controller cannot fence itself. Each broker sees on its own connection that the controller is down.
        return is_joined and not (node_id == self._members.controller_id and self._members.is_controller_down)

    def offline_partitions(self) -> int:
        led = {node_id: self._members.image.led_by(node_id) for node_id in self.members}
        # The controller also leads the partitions from the time before the cluster, which have no record.
        led[self._members.controller_id] = 0
        led[self._members.controller_id] = self._topics.partitions - sum(led.values())
        return sum(count for node_id, count in led.items() if not self.is_there(node_id))

    def alike(self, topic: Topic, partitions: range) -> list[int]:
        known = self._members.image.partitions(topic.topic_id)
        firsts: dict[int, int] = {}
        # Equal records are one object, see `ClusterImage.shared`.
        return [firsts.setdefault(id(known.get(number)), number) for number in partitions]

    def replicas_of(self, topic: str, partition: int) -> list[int]:
        return list(self._record(topic, partition).candidates)

    def recorded_leader(self, topic: str, partition: int) -> int:
        return self._record(topic, partition).leader

    def in_sync(self, topic: str, partition: int) -> list[int]:
        record = self._record(topic, partition)
        return [node for node in record.candidates if node == record.leader or self.is_there(node)]

    def led(self, topic: Topic) -> Collection[int]:
        return self._members.led(topic)

    def _record(self, topic: str, partition: int) -> PartitionRecord:
        known = self._topics.get(topic)
        record = None if known is None else self._members.image.partition(PartitionKey(known.topic_id, partition))
        if record is None:  # from the time before the cluster, or of an unknown topic
            controller = self._members.controller_id
            return PartitionRecord(controller, FIRST_EPOCH.latest, (controller,))
        return record
