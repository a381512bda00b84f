"""Records on their way to partitions, in batches, as Kafka's RecordAccumulator keeps them.

This file does no I/O and reads no clock. A batch keeps its sequence numbers (KIP-98) when it is sent again, also in
halves. Brokers recognize the last five batches of an idempotent producer, so a partition has at most as many on their
way. After an error the batches go again one at a time, the oldest first (`TransactionManager` of Kafka's producer), so
records keep their order. Without sequence numbers one batch is on its way at a time.
"""

from __future__ import annotations

from bisect import insort
from collections import deque
from collections.abc import Sequence
from operator import attrgetter

import attrs

from pipeline_broker.records.batch import BatchBody, NewRecord, build_batch
from pipeline_broker.records.record import iterate_records

__all__ = ["BATCH_BYTES_MAX", "IN_FLIGHT_MAX", "Batch", "Outbox", "size_of"]

IN_FLIGHT_MAX = 5
"""Batches of a partition, and requests to a leader, that are not answered (`max.in.flight.requests.per.connection`)."""

BATCH_BYTES_MAX = 512 << 10
"""Of keys, values and headers before compression, unless one record has more; half of what brokers take by default."""
_RECORD_OVERHEAD = 24
"""What a record takes at most beside its key, value and headers."""
_SEQUENCE_MASK = 0x7FFFFFFF


@attrs.define(eq=False)
class Batch:
    """Records of one partition that go together.

    Attributes:
        body: the records, encoded.
        numbers: of each record, its place in the input; they rise.
        size_bytes: as the outbox counts.
        sequence: of the first record; -1: of no idempotent producer.
        encoded: as it was sent, kept for the next time.
        is_behind: an older batch had no answer when it was sent last.
    """

    partition: int
    body: BatchBody = attrs.field(factory=BatchBody)
    numbers: list[int] = attrs.field(factory=list)
    size_bytes: int = 0
    sequence: int = -1
    encoded: bytes | None = None
    is_behind: bool = False

    @property
    def first_number(self) -> int:
        return self.numbers[0]

    def extend(self, records: Sequence[NewRecord], numbers: Sequence[int], size_bytes: int) -> None:
        """Append records with this sum of their `size_of`."""
        self.body.extend(records)
        self.numbers += numbers
        self.size_bytes += size_bytes

    def halves(self) -> tuple[Batch, Batch]:
        """Return two batches with the records of this one, which has several."""
        middle = self.body.count // 2
        records = _records_of(self.body)
        halves = Batch(self.partition, sequence=self.sequence), Batch(self.partition, sequence=self.sequence)
        if self.sequence >= 0:
            halves[1].sequence = (self.sequence + middle) & _SEQUENCE_MASK
        for half, part in zip(halves, (slice(None, middle), slice(middle, None)), strict=True):
            half.extend(records[part], self.numbers[part], sum(map(size_of, records[part])))
        return halves


_BY_AGE = attrgetter("first_number")


def size_of(record: NewRecord) -> int:
    """About what a record takes in a batch, never less."""
    size = _RECORD_OVERHEAD + len(record.value or b"") + len(record.key or b"")
    for name, value in record.headers:
        size += len(name) * 4 + len(value or b"") + _RECORD_OVERHEAD  # a character has at most four bytes
    return size


@attrs.define
class _Queue:
    """The batches of one partition.

    Attributes:
        again: those that must be sent again, the oldest first.
        waiting: those that were never sent.
        in_flight: those without an answer, the oldest first.
        leader: the broker that these were sent to.
    """

    again: list[Batch] = attrs.field(factory=list)
    waiting: deque[Batch] = attrs.field(factory=deque)
    in_flight: list[Batch] = attrs.field(factory=list)
    leader: int = -1
    next_sequence: int = 0

    def is_ready(self, in_flight_max: int) -> bool:
        if self.again:
            return not self.in_flight or self.again[0].first_number < self.in_flight[0].first_number
        return bool(self.waiting) and len(self.in_flight) < in_flight_max


class Outbox:
    """All partitions of a topic.

    Args:
        is_idempotent: batches get sequence numbers.
        in_flight_max: batches of a partition that are on their way.

    Attributes:
        size_bytes: of all that is not acknowledged.
        count: of these records.
    """

    def __init__(self, *, is_idempotent: bool, in_flight_max: int = IN_FLIGHT_MAX) -> None:
        self._is_idempotent = is_idempotent
        self._in_flight_max = min(in_flight_max, IN_FLIGHT_MAX) if is_idempotent else 1
        self._queues: dict[int, _Queue] = {}
        self.size_bytes = 0
        self.count = 0

    def extend(self, partition: int, records: Sequence[NewRecord], numbers: Sequence[int]) -> None:
        """Append records to the last batch of their partition, and to as many new ones as it takes.

        Args:
            partition: where they go.
            records: some; they are encoded now, while the processor has them in its cache.
            numbers: of each, its place in the input.
        """
        queue = self._queues.get(partition)
        if queue is None:
            queue = self._queues[partition] = _Queue()
        sizes = [size_of(record) for record in records]
        start = 0
        while start < len(records):
            if not queue.waiting or queue.waiting[-1].size_bytes + sizes[start] > BATCH_BYTES_MAX:
                queue.waiting.append(Batch(partition))
            batch = queue.waiting[-1]
            end, size = _fitting(sizes, start, BATCH_BYTES_MAX - batch.size_bytes)
            batch.extend(records[start:end], numbers[start:end], size)
            start = end
        self.size_bytes += sum(sizes)
        self.count += len(records)

    def ready(self) -> list[int]:
        """Return the partitions that have a batch to be sent now."""
        return [partition for partition, queue in self._queues.items() if queue.is_ready(self._in_flight_max)]

    def is_ready(self, partition: int, leader: int) -> bool:
        """Return whether a batch may be sent to this broker: never while an earlier one is on its way to another."""
        queue = self._queues[partition]
        return queue.is_ready(self._in_flight_max) and (not queue.in_flight or queue.leader == leader)

    def take(self, partition: int, leader: int) -> Batch:
        """Return the next batch of a partition that is ready; it is on its way to this broker from now on."""
        assert self.is_ready(partition, leader)
        queue = self._queues[partition]
        queue.leader = leader
        if queue.again:
            batch = queue.again.pop(0)
        else:
            batch = queue.waiting.popleft()
            if self._is_idempotent:
                batch.sequence = queue.next_sequence
                queue.next_sequence = (queue.next_sequence + batch.body.count) & _SEQUENCE_MASK
        insort(queue.in_flight, batch, key=_BY_AGE)
        batch.is_behind = queue.in_flight[0] is not batch
        return batch

    def delivered(self, batch: Batch) -> None:
        """Forget a batch that was acknowledged."""
        self._queues[batch.partition].in_flight.remove(batch)
        self.size_bytes -= batch.size_bytes
        self.count -= batch.body.count

    def again(self, batch: Batch) -> None:
        """Have a batch sent once more."""
        queue = self._queues[batch.partition]
        queue.in_flight.remove(batch)
        insort(queue.again, batch, key=_BY_AGE)

    def halved(self, batch: Batch) -> bool:
        """Have a batch that is too large sent in two; return False where it has one record only."""
        if batch.body.count == 1:
            return False
        queue = self._queues[batch.partition]
        queue.in_flight.remove(batch)
        for half in batch.halves():
            self.size_bytes += half.size_bytes
            insort(queue.again, half, key=_BY_AGE)
        self.size_bytes -= batch.size_bytes
        return True


def _fitting(sizes: Sequence[int], start: int, room_bytes: int) -> tuple[int, int]:
    """Return the end of the records from `start` on that fit, at least one, and the sum of their sizes."""
    if (size := sum(sizes[start:])) <= room_bytes:
        return len(sizes), size
    end, size = start + 1, sizes[start]
    while end < len(sizes) and size + sizes[end] <= room_bytes:
        size += sizes[end]
        end += 1
    return end, size


def _records_of(body: BatchBody) -> list[NewRecord]:
    found = iterate_records(build_batch(body), name_errors="surrogateescape")
    return [NewRecord(record.value, record.key, record.timestamp, record.headers) for record in found]
