"""Records on their way to partitions, in batches.

Rules of this file: no I/O and no clock. A partition has at most one batch on its way, so its records keep their order
whatever is sent again, and what comes meanwhile waits and goes together: nobody lingers, and whoever is fast gets large
batches. A batch keeps its sequence numbers (KIP-98) when it is sent again, also in halves.
"""

from __future__ import annotations

from collections import deque

import attrs

from pipeline_broker.records.batch import NewRecord

__all__ = ["BATCH_BYTES_MAX", "Batch", "Outbox", "size_of"]

BATCH_BYTES_MAX = 512 << 10
"""Of keys, values and headers before compression, unless one record has more; half of what brokers take by default."""
_RECORD_OVERHEAD = 24
"""What a record takes at most beside its key, value and headers."""
_SEQUENCE_MASK = 0x7FFFFFFF


@attrs.define
class Batch:
    """Records of one partition that go together.

    Attributes:
        records: in their order.
        numbers: of each, its place in the input.
        size_bytes: as the outbox counts.
        sequence: of the first record; -1: of no idempotent producer.
        encoded: as it was sent, kept for the next time.
    """

    partition: int
    records: list[NewRecord] = attrs.field(factory=list)
    numbers: list[int] = attrs.field(factory=list)
    size_bytes: int = 0
    sequence: int = -1
    encoded: bytes | None = None


def size_of(record: NewRecord) -> int:
    """About what a record takes in a batch, never less."""
    size = _RECORD_OVERHEAD + len(record.value or b"") + len(record.key or b"")
    for name, value in record.headers:
        size += len(name) * 4 + len(value or b"") + _RECORD_OVERHEAD  # a character has at most four bytes
    return size


@attrs.define
class _Queue:
    """What waits for one partition: batches that go again, then those that never went."""

    again: deque[Batch] = attrs.field(factory=deque)
    waiting: deque[Batch] = attrs.field(factory=deque)
    is_on_its_way: bool = False
    next_sequence: int = 0


class Outbox:
    """All partitions of a topic.

    Args:
        is_idempotent: batches get sequence numbers.

    Attributes:
        size_bytes: of all that is not acknowledged.
        count: of these records.
    """

    def __init__(self, *, is_idempotent: bool) -> None:
        self._is_idempotent = is_idempotent
        self._queues: dict[int, _Queue] = {}
        self.size_bytes = 0
        self.count = 0

    def add(self, partition: int, record: NewRecord, number: int, size: int) -> None:
        """Append a record of this `size_of` to the last batch of its partition, or begin a batch."""
        queue = self._queues.get(partition)
        if queue is None:
            queue = self._queues[partition] = _Queue()
        waiting = queue.waiting
        if not waiting or waiting[-1].size_bytes + size > BATCH_BYTES_MAX:
            waiting.append(Batch(partition))
        batch = waiting[-1]
        batch.records.append(record)
        batch.numbers.append(number)
        batch.size_bytes += size
        self.size_bytes += size
        self.count += 1

    def ready(self) -> list[int]:
        """Partitions that have a batch to be sent now."""
        return [
            partition
            for partition, queue in self._queues.items()
            if not queue.is_on_its_way and (queue.again or queue.waiting)
        ]

    def take(self, partition: int) -> Batch:
        """The next batch of a partition that is ready; it is on its way from now on."""
        queue = self._queues[partition]
        assert not queue.is_on_its_way
        queue.is_on_its_way = True
        if queue.again:
            return queue.again.popleft()
        batch = queue.waiting.popleft()
        if self._is_idempotent:
            batch.sequence = queue.next_sequence
            queue.next_sequence = (queue.next_sequence + len(batch.records)) & _SEQUENCE_MASK
        return batch

    def delivered(self, batch: Batch) -> None:
        """A batch was acknowledged."""
        self._queues[batch.partition].is_on_its_way = False
        self.size_bytes -= batch.size_bytes
        self.count -= len(batch.records)

    def again(self, batch: Batch) -> None:
        """A batch must be sent once more."""
        queue = self._queues[batch.partition]
        queue.is_on_its_way = False
        queue.again.appendleft(batch)

    def halved(self, batch: Batch) -> bool:
        """A batch that is too large must be sent in two; False where it has one record only."""
        if len(batch.records) == 1:
            return False
        middle = len(batch.records) // 2
        halves: list[Batch] = []
        for part in (slice(None, middle), slice(middle, None)):
            records = batch.records[part]
            sequence = batch.sequence if not halves or batch.sequence < 0 else batch.sequence + middle
            halves.append(
                Batch(
                    batch.partition,
                    records,
                    batch.numbers[part],
                    sum(map(size_of, records)),
                    sequence & _SEQUENCE_MASK if sequence >= 0 else sequence,
                )
            )
        self.again(halves[1])
        self._queues[batch.partition].again.appendleft(halves[0])
        return True
