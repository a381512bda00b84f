"""The members of a cluster and the leaders of its partitions, as of the applied records.

Counterpart in Kafka: `ClusterImage`, `TopicsImage`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from pipeline_broker.state.leadership.nodes import NodeState
from pipeline_broker.state.leadership.records import (
    NO_NODE,
    NodeRecord,
    PartitionKey,
    PartitionRecord,
    read_node,
)

__all__ = ["ClusterImage"]

NO_PARTITIONS: Mapping[int, PartitionRecord] = {}


class ClusterImage:
    """Members and leaders. The caller applies the records in the order of the log of metadata.

    Attributes:
        nodes: the latest record of each member, by its id.
        leaving: a member that gives its partitions up and gets no new ones; only the controller knows.
    """

    def __init__(self) -> None:
        self.nodes: dict[int, NodeRecord] = {}
        self.leaving = NO_NODE
        self._topics: dict[bytes, dict[int, PartitionRecord]] = {}
        self._led: Counter[int] = Counter()
        self._known: dict[PartitionRecord, PartitionRecord] = {}

    def replay_node(self, key: bytes, value: bytes | None) -> None:
        """Apply a NODE record.

        Raises:
            CorruptStateRecordError: the record cannot be decoded.
        """
        node = read_node(key, value)
        self.nodes[node.node_id] = node

    def apply(self, key: PartitionKey, record: PartitionRecord | None) -> None:
        """Apply the record of a partition; None after its topic was deleted."""
        partitions = self._topics.setdefault(key.topic_id, {})
        before = partitions.pop(key.partition, None)
        if before is not None:
            self._led[before.leader] -= 1
        if record is not None:
            partitions[key.partition] = self.shared(record)
            self._led[record.leader] += 1
        if not partitions:
            del self._topics[key.topic_id]

    def place(self, topic_id: bytes, leaders: Mapping[int, PartitionRecord], loads: Mapping[int, int]) -> None:
        """Apply the records of new partitions, which are `shared`.

        Args:
            loads: number of the partitions that each member leads.
        """
        self._topics.setdefault(topic_id, {}).update(leaders)
        self._led.update(loads)

    def forget(self, topic_id: bytes) -> None:
        self._led.subtract(Counter(record.leader for record in self._topics.pop(topic_id, {}).values()))

    def shared(self, record: PartitionRecord) -> PartitionRecord:
        """Return the record that equal partitions share, because a cluster may have very many."""
        return self._known.setdefault(record, record)

    def partitions(self, topic_id: bytes) -> Mapping[int, PartitionRecord]:
        return self._topics.get(topic_id, NO_PARTITIONS)

    def partition(self, key: PartitionKey) -> PartitionRecord | None:
        return self.partitions(key.topic_id).get(key.partition)

    def led(self) -> dict[int, int]:
        """Return the number of partitions that each joined member leads."""
        return {node: self._led[node] for node in self.joined}

    def led_by(self, node_id: int) -> int:
        return self._led[node_id]

    @property
    def joined(self) -> list[int]:
        """The ids of the members that can lead partitions, in ascending order."""
        return sorted(
            node for node, record in self.nodes.items() if record.state is NodeState.JOINED and node != self.leaving
        )
