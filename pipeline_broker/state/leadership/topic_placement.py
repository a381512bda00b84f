"""The leaders of the partitions of new and extended topics."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence

import attrs

from pipeline_broker.base.steps import THINGS_PER_STEP, Steps
from pipeline_broker.state.leadership.cluster_image import ClusterImage
from pipeline_broker.state.leadership.placement import candidates_of, first_leaders
from pipeline_broker.state.leadership.records import PartitionKey, PartitionRecord, partition_record
from pipeline_broker.state.leadership.replication import Replication
from pipeline_broker.state.metadata_records import Topic
from pipeline_broker.state.placed_partitions import PlacedPartitions
from pipeline_broker.state.topic_rules import UNSET

__all__ = ["LedPartitions", "TopicPlacement"]

FIRST_EPOCH = 0


@attrs.define(eq=False)
class LedPartitions(PlacedPartitions):
    """Partitions that a change of a topic adds or deletes, with the leaders of the added ones."""

    leaders: dict[int, PartitionRecord] = attrs.Factory(dict)
    loads: Counter[int] = attrs.Factory(Counter)

    def led_by(self, broker_id: int) -> list[int]:
        return [number for number, record in self.leaders.items() if record.leader == broker_id]


class TopicPlacement:
    """The records about the partitions of new, extended and deleted topics.

    Args:
        image: members and leaders as of the durable records.
        replication: factors of topics; None if each partition has one replica.
    """

    def __init__(self, image: ClusterImage, replication: Replication | None = None) -> None:
        self._image = image
        self._replication = replication
        self._decided: Counter[int] = Counter()  # by leader: partitions whose records are not durable yet

    @property
    def broker_ids(self) -> Collection[int]:
        return self._image.joined

    @property
    def replicas_max(self) -> int:
        # As in Kafka, brokers that are down count.
        return 1 if self._replication is None else len(self._image.nodes)

    def factor_of(self, topic: str, wanted: int) -> int:
        if self._replication is None:
            return 1 if wanted == UNSET else wanted
        return self._replication.factor_of(topic, wanted, len(self._image.nodes))

    def place(
        self,
        before: Topic | None,
        after: Topic | None,
        assignments: Sequence[Sequence[int]] = (),
        wanted: int = UNSET,
    ) -> Steps[LedPartitions]:
        placed = LedPartitions.of(before, after)
        replicas = None if after is None else self._replicas(placed, before, after, assignments, wanted)
        joined = frozenset(self._image.joined)
        for count, number in enumerate(placed.numbers, 1):
            record = None
            if replicas is not None:
                candidates = next(replicas)
                leader = next((node for node in candidates if node in joined), candidates[0])
                record = PartitionRecord(leader, FIRST_EPOCH, candidates)
                record = placed.leaders[number] = self._image.shared(record)
                placed.loads[leader] += 1
            placed.records.append(partition_record(PartitionKey(placed.topic_id, number), record))
            if not count % THINGS_PER_STEP:
                yield
        return placed

    def _replicas(
        self,
        placed: LedPartitions,
        before: Topic | None,
        after: Topic,
        assignments: Sequence[Sequence[int]],
        wanted: int,
    ) -> Iterator[tuple[int, ...]]:
        if assignments:
            return map(tuple, assignments)
        loads = {node: count + self._decided[node] for node, count in self._image.led().items()}
        # Different topics start with different members, so that many small topics are spread too.
        leaders = first_leaders(loads, int.from_bytes(placed.topic_id[-4:], "big"))
        first = None if before is None else self._image.partition(PartitionKey(before.topic_id, 0))
        # As in Kafka, added partitions have as many replicas as the first one.
        factor = self.factor_of(after.name, wanted) if first is None else len(first.candidates)
        return (candidates_of(leader, self._image.nodes, factor) for leader in leaders)

    def decided(self, placed: PlacedPartitions) -> None:
        assert isinstance(placed, LedPartitions), "from `place`"
        self._decided += placed.loads

    def durable(self, placed: PlacedPartitions) -> None:
        assert isinstance(placed, LedPartitions), "from `place`"
        self._decided -= placed.loads
        if placed.leaders:
            self._image.place(placed.topic_id, placed.leaders, placed.loads)
        elif placed.numbers:
            self._image.forget(placed.topic_id)
