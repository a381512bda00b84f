"""The leaders of the partitions of new and extended topics."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence

import attrs

from pipeline_broker.base.steps import THINGS_PER_STEP, Steps
from pipeline_broker.state.leadership.cluster_image import ClusterImage
from pipeline_broker.state.leadership.placement import first_leaders
from pipeline_broker.state.leadership.records import PartitionKey, PartitionRecord, partition_record
from pipeline_broker.state.metadata_records import Topic
from pipeline_broker.state.placed_partitions import PlacedPartitions

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
    """

    def __init__(self, image: ClusterImage) -> None:
        self._image = image
        self._decided: Counter[int] = Counter()  # by leader: partitions whose records are not durable yet

    @property
    def broker_ids(self) -> Collection[int]:
        return self._image.joined

    def place(
        self, before: Topic | None, after: Topic | None, assignments: Sequence[Sequence[int]] = ()
    ) -> Steps[LedPartitions]:
        placed = LedPartitions.of(before, after)
        leaders = None if after is None else self._leaders(placed, assignments)
        for count, number in enumerate(placed.numbers, 1):
            record = None
            if leaders is not None:
                leader = next(leaders)
                record = placed.leaders[number] = self._image.shared(PartitionRecord(leader, FIRST_EPOCH, (leader,)))
                placed.loads[leader] += 1
            placed.records.append(partition_record(PartitionKey(placed.topic_id, number), record))
            if not count % THINGS_PER_STEP:
                yield
        return placed

    def _leaders(self, placed: LedPartitions, assignments: Sequence[Sequence[int]]) -> Iterator[int]:
        if assignments:
            return (replicas[0] for replicas in assignments)
        loads = {node: count + self._decided[node] for node, count in self._image.led().items()}
        # Different topics start with different members, so that many small topics are spread too.
        return first_leaders(loads, int.from_bytes(placed.topic_id[-4:], "big"))

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
