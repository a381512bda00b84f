"""The partitions that a change of a topic adds or deletes, and the choice of their brokers."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Protocol, Self

import attrs

from pipeline_broker.base.steps import THINGS_PER_STEP, Steps
from pipeline_broker.records.batch import BatchBody, NewRecord
from pipeline_broker.state.metadata_records import Topic
from pipeline_broker.state.outcome import StateRecord
from pipeline_broker.state.topic_rules import UNSET

__all__ = ["OneBroker", "PlacedPartitions", "Placement"]


@attrs.define(eq=False)
class PlacedPartitions:
    """Partitions that a change of a topic adds or deletes.

    Attributes:
        records: about these partitions; none without a cluster.
        body: the records, encoded; None before `encode`.
    """

    topic_id: bytes
    numbers: range
    records: list[StateRecord] = attrs.Factory(list)
    body: BatchBody | None = None

    @classmethod
    def of(cls, before: Topic | None, after: Topic | None) -> Self:
        """Return the partitions of a change, without records; see `Placement.place`."""
        topic = before if after is None else after
        assert topic is not None, "a change has a topic"
        first = 0 if before is None or after is None else before.partitions
        return cls(topic.topic_id, range(first, topic.partitions))

    def is_of(self, before: Topic | None, after: Topic | None) -> bool:
        expected = PlacedPartitions.of(before, after)
        return (self.topic_id, self.numbers) == (expected.topic_id, expected.numbers)

    def led_by(self, broker_id: int) -> Sequence[int]:
        del broker_id
        return self.numbers

    def encode(self, now_ms: int) -> Steps[None]:
        body = BatchBody()
        for first in range(0, len(self.records), THINGS_PER_STEP):
            part = self.records[first : first + THINGS_PER_STEP]
            body.extend(NewRecord(record.value, record.key, now_ms) for record in part)
            yield
        self.body = body if body.count else None


class Placement(Protocol):
    @property
    def broker_ids(self) -> Collection[int]: ...

    @property
    def replicas_max(self) -> int:
        """The number of brokers that can have a replica of one partition."""

    def factor_of(self, topic: str, wanted: int) -> int:
        """Return the replication factor of a new topic; `wanted` may be UNSET."""

    def place(
        self, before: Topic | None, after: Topic | None, assignments: Sequence[Sequence[int]], wanted: int = UNSET
    ) -> Steps[PlacedPartitions]:
        """Choose the brokers of the partitions that a change of a topic adds, in steps.

        Args:
            before: the topic as of the last decision; None for a new one.
            after: None for a deleted topic.
            assignments: replicas of each added partition, the leader first; empty to choose them.
            wanted: replication factor of a new topic; UNSET for its default.
        """

    def decided(self, placed: PlacedPartitions) -> None:
        """Count partitions whose records are about to be written."""

    def durable(self, placed: PlacedPartitions) -> None:
        """Apply partitions whose records are durable."""


@attrs.frozen
class OneBroker:
    """The placement of a broker without a cluster, which has all partitions."""

    broker_id: int

    @property
    def broker_ids(self) -> Collection[int]:
        return (self.broker_id,)

    @property
    def replicas_max(self) -> int:
        return 1

    def factor_of(self, topic: str, wanted: int) -> int:
        del topic
        return 1 if wanted == UNSET else wanted

    def place(
        self, before: Topic | None, after: Topic | None, assignments: Sequence[Sequence[int]], wanted: int = UNSET
    ) -> Steps[PlacedPartitions]:
        del assignments, wanted
        yield from ()
        return PlacedPartitions.of(before, after)

    def decided(self, placed: PlacedPartitions) -> None: ...

    def durable(self, placed: PlacedPartitions) -> None: ...
