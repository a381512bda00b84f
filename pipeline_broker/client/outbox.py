"""Batches of records on their way to the partitions of a topic, like Kafka's RecordAccumulator. No I/O, no clock.

Counterpart in Kafka: `RecordAccumulator` of the producer; in our client; the broker batches commits in
`stages/committer.py`.
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
"""Most unacknowledged batches of a partition, and requests to a leader (`max.in.flight.requests.per.connection`).

Brokers recognize duplicates among the last five batches of an idempotent producer."""

BATCH_BYTES_MAX = 512 << 10
"""Largest batch before compression, unless it has a single record: half of the brokers' default max.message.bytes."""
_RECORD_OVERHEAD = 24  # most bytes of a record beside its key, value and headers
_SEQUENCE_MASK = 0x7FFFFFFF  # after 2**31 - 1 sequence numbers continue with 0


@attrs.define(eq=False)
class Batch:
    """Records of one partition that are sent together.

    Attributes:
        body: the encoded records.
        numbers: the ascending positions of the records in the input.
        size_bytes: the sum of `size_of` of the records.
        sequence: the sequence number of the first record (KIP-98); -1 without idempotence.
        encoded: the batch as sent, kept for retries, so that they are identical.
        has_older_in_flight: whether an older batch was unacknowledged when this one was last sent.
    """

    partition: int
    body: BatchBody = attrs.field(factory=BatchBody)
    numbers: list[int] = attrs.field(factory=list)
    size_bytes: int = 0
    sequence: int = -1
    encoded: bytes | None = None
    has_older_in_flight: bool = False

    @property
    def first_number(self) -> int:
        return self.numbers[0]

    def extend(self, records: Sequence[NewRecord], numbers: Sequence[int], size_bytes: int) -> None:
        """Append records. `size_bytes` is the sum of their `size_of`."""
        self.body.extend(records)
        self.numbers += numbers
        self.size_bytes += size_bytes

    def halves(self) -> tuple[Batch, Batch]:
        """Return two batches with the records and sequence numbers of this one, which must have two records or more."""
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
    size = _RECORD_OVERHEAD + len(record.value or b"") + len(record.key or b"")
    for name, value in record.headers:
        size += len(name) * 4 + len(value or b"") + _RECORD_OVERHEAD  # a character has at most four bytes
    return size


@attrs.define
class _Queue:
    """The batches of one partition.

    Attributes:
        retries: batches to send again, the oldest first.
        waiting: batches that were never sent.
        in_flight: unacknowledged batches, the oldest first.
        leader: the broker with the batches in flight.
    """

    retries: list[Batch] = attrs.field(factory=list)
    waiting: deque[Batch] = attrs.field(factory=deque)
    in_flight: list[Batch] = attrs.field(factory=list)
    leader: int = -1
    next_sequence: int = 0

    def is_ready(self, in_flight_max: int) -> bool:
        if self.retries:
            # After an error batches are retried one at a time, the oldest first (TransactionManager of Kafka's
            # producer): a younger batch must not overtake an older one.
            return not self.in_flight or self.retries[0].first_number < self.in_flight[0].first_number
        return bool(self.waiting) and len(self.in_flight) < in_flight_max


class Outbox:
    """The unacknowledged batches of all partitions of a topic.

    A batch keeps its sequence numbers when it is sent again, also in halves, so brokers recognize duplicates. Without
    sequence numbers one batch of a partition is in flight at a time, which keeps the order.

    Args:
        is_idempotent: give batches sequence numbers.
        in_flight_max: most batches of a partition in flight.

    Attributes:
        size_bytes: the size of all unacknowledged records.
        count: the number of unacknowledged records.
    """

    def __init__(self, *, is_idempotent: bool, in_flight_max: int = IN_FLIGHT_MAX) -> None:
        self._is_idempotent = is_idempotent
        self._in_flight_max = min(in_flight_max, IN_FLIGHT_MAX) if is_idempotent else 1
        self._queues: dict[int, _Queue] = {}
        self.size_bytes = 0
        self.count = 0

    def extend(self, partition: int, records: Sequence[NewRecord], numbers: Sequence[int]) -> None:
        """Append records to the last waiting batch of a partition, and to new batches when it is full.

        Args:
            records: the records; they are encoded now, while they are in the processor's cache.
            numbers: their positions in the input.
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
        return [partition for partition, queue in self._queues.items() if queue.is_ready(self._in_flight_max)]

    def is_ready(self, partition: int, leader: int) -> bool:
        """Return whether a batch of a partition may be sent to a leader now.

        False while an earlier batch of the partition is in flight to another broker.
        """
        queue = self._queues[partition]
        return queue.is_ready(self._in_flight_max) and (not queue.in_flight or queue.leader == leader)

    def take(self, partition: int, leader: int) -> Batch:
        """Return the next batch of a partition that is ready, and mark it as in flight to a leader."""
        assert self.is_ready(partition, leader)
        queue = self._queues[partition]
        queue.leader = leader
        if queue.retries:
            batch = queue.retries.pop(0)
        else:
            batch = queue.waiting.popleft()
            if self._is_idempotent:
                batch.sequence = queue.next_sequence
                queue.next_sequence = (queue.next_sequence + batch.body.count) & _SEQUENCE_MASK
        insort(queue.in_flight, batch, key=_BY_AGE)
        batch.has_older_in_flight = queue.in_flight[0] is not batch
        return batch

    def complete(self, batch: Batch) -> None:
        self._queues[batch.partition].in_flight.remove(batch)
        self.size_bytes -= batch.size_bytes
        self.count -= batch.body.count

    def requeue(self, batch: Batch) -> None:
        queue = self._queues[batch.partition]
        queue.in_flight.remove(batch)
        insort(queue.retries, batch, key=_BY_AGE)

    def split(self, batch: Batch) -> bool:
        """Replace a batch in flight that is too large by two halves to send.

        Return False, and change nothing, if the batch has a single record.
        """
        if batch.body.count == 1:
            return False
        queue = self._queues[batch.partition]
        queue.in_flight.remove(batch)
        for half in batch.halves():
            self.size_bytes += half.size_bytes
            insort(queue.retries, half, key=_BY_AGE)
        self.size_bytes -= batch.size_bytes
        return True


def _fitting(sizes: Sequence[int], start: int, limit_bytes: int) -> tuple[int, int]:
    """Return the end of the records starting at `start` that fit, at least one, and the sum of their sizes."""
    if (size := sum(sizes[start:])) <= limit_bytes:
        return len(sizes), size
    end, size = start + 1, sizes[start]
    while end < len(sizes) and size + sizes[end] <= limit_bytes:
        size += sizes[end]
        end += 1
    return end, size


def _records_of(body: BatchBody) -> list[NewRecord]:
    found = iterate_records(build_batch(body), name_errors="surrogateescape")
    return [NewRecord(record.value, record.key, record.timestamp, record.headers) for record in found]
