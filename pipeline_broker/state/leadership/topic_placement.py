"""The leaders of the partitions of new and extended topics."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from pipeline_broker.state.leadership.cluster_image import ClusterImage
from pipeline_broker.state.leadership.placement import first_leaders
from pipeline_broker.state.leadership.records import PartitionKey, PartitionRecord, partition_record
from pipeline_broker.state.metadata_records import Topic
from pipeline_broker.state.outcome import StateRecord

__all__ = ["TopicPlacement"]

FIRST_EPOCH = 0


class TopicPlacement:
    """The records about the partitions of new, extended and deleted topics.

    Args:
        image: members and leaders as of the durable records.
    """

    def __init__(self, image: ClusterImage) -> None:
        self._image = image
        self._decided: dict[PartitionKey, int] = {}  # leaders of partitions whose records are not durable yet

    @property
    def broker_ids(self) -> Collection[int]:
        return self._image.joined

    def records(
        self, before: Topic | None, after: Topic | None, assignments: Sequence[Sequence[int]] = ()
    ) -> list[StateRecord]:
        """Return the records that a change of a topic adds to the topic's own.

        Args:
            before: the topic as of the last decision; None for a new one.
            after: None for a deleted topic.
            assignments: replicas of each new partition, the leader first; empty to choose them.
        """
        if after is None:
            known = () if before is None else self._image.partitions(before.topic_id)
            return [partition_record(PartitionKey(before.topic_id, number), None) for number in known] if before else []
        numbers = range(0 if before is None else before.partitions, after.partitions)
        if not numbers:
            return []
        # Different topics start with different members, so that many small topics are spread too.
        start = int.from_bytes(after.topic_id[-4:], "big")
        leaders = [each[0] for each in assignments] or first_leaders(len(numbers), self._loads(), start)
        keys = [PartitionKey(after.topic_id, number) for number in numbers]
        decided = dict(zip(keys, leaders, strict=True))
        self._decided |= decided
        return [partition_record(key, PartitionRecord(it, FIRST_EPOCH, (it,))) for key, it in decided.items()]

    def _loads(self) -> dict[int, int]:
        self._decided = {key: leader for key, leader in self._decided.items() if self._image.partition(key) is None}
        loads = self._image.led()
        for leader in self._decided.values():
            if leader in loads:
                loads[leader] += 1
        return loads
