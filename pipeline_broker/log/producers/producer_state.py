"""The state of idempotent and transactional producers of a partition, like Kafka's ProducerStateManager.

Checks, in Kafka's order:

* A batch with the epoch and exactly the first and last sequence of one of the producer's last five batches is a
  duplicate.
* An epoch below the current one is fenced. A higher one must start at sequence 0, and earlier batches are forgotten.
* Within an epoch a batch must follow the last one. Sequences wrap from 2**31 - 1 to 0.
* An unknown producer may start at any sequence, unless it uses transactions version 2 (KIP-890), which starts at 0.
* Batches of a coordinator have no sequence (-1). Only their epoch is checked.
* While a transaction is open, non-transactional batches of its producer are refused.
* A marker of transactions version 2 has a higher epoch than the data. With no open transaction it may have the same
  one, because it is then a repeated marker. Older markers have the epoch of the data, or a higher one. The epoch of
  their coordinator must not decrease.

Forgotten and refused producers:

* After a refused batch of an unknown producer, its later batches are out of order until the refused sequence, or 0,
  arrives. Otherwise batches in flight could overtake the refused one. The last thousand such gaps are remembered.
* A silent producer without an open transaction expires by the time of its last append; a replay counts as one. Kafka
  uses the timestamp of the last batch, but old events are produced too.
* At most PRODUCERS_MAX producers without an open transaction are remembered, because clients choose ids freely. Beyond
  that the tenth with the longest silence is forgotten. Kafka has no such limit.

Counterpart in Kafka: `ProducerStateManager`.
"""

import heapq
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from pipeline_broker.log.errors import (
    InvalidProducerEpoch,
    InvalidTxnState,
    OutOfOrderSequence,
    TransactionCoordinatorFenced,
)
from pipeline_broker.log.producers.aborted_transactions import AbortedTransaction
from pipeline_broker.log.producers.ended_transactions import EndedTransactions
from pipeline_broker.log.producers.producer_snapshot import (
    BATCHES_REMEMBERED,
    NOTHING,
    ProducedBatch,
    StoredProducer,
    decode_producers,
    encode_producers,
)
from pipeline_broker.records.control_batch import EndMarker

__all__ = [
    "BATCHES_REMEMBERED",
    "GAPS_REMEMBERED",
    "PRODUCERS_MAX",
    "SEQUENCE_MASK",
    "OpenTransaction",
    "ProducedBatch",
    "ProducerDescription",
    "ProducerStates",
]

GAPS_REMEMBERED: Final = 1000
"""Refused batches remembered for a partition."""
PRODUCERS_MAX = 10_000
"""Remembered producers of one partition without an open transaction. The longest idle ones are forgotten first. Each
takes up to 2 KB."""
SEQUENCE_MASK: Final = (1 << 31) - 1
BUMPS_EPOCH_FROM: Final = 2
"""The first version of transactions in which every marker bumps the producer epoch (KIP-890)."""


class OpenTransaction(NamedTuple):
    first_offset: int
    producer_epoch: int


class ProducerDescription(NamedTuple):
    """A producer as DescribeProducers returns it; missing values are -1.

    Attributes:
        first_offset: offset of its open transaction.
    """

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp: int
    coordinator_epoch: int
    first_offset: int


class _Producer:
    __slots__ = (
        "batches",
        "coordinator_epoch",
        "epoch",
        "expected_sequence",
        "last_append_ms",
        "marker_offset",
        "marker_timestamp",
    )

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch
        self.expected_sequence = 0
        self.last_append_ms: int
        self.batches: list[ProducedBatch] = []  # not a deque, which takes 760 bytes even if empty
        self.coordinator_epoch = self.marker_offset = self.marker_timestamp = NOTHING

    def begin(self, epoch: int) -> None:
        self.epoch = epoch
        self.expected_sequence = 0
        self.batches.clear()

    @property
    def last_timestamp(self) -> int:
        if self.batches and self.batches[-1].last_offset > self.marker_offset:
            return self.batches[-1].timestamp
        return self.marker_timestamp


class ProducerStates:
    """The producers of one partition.

    Attributes:
        open: first offset of each open transaction by producer id, oldest transaction first.
        ended: recently ended transactions; None before the first.
    """

    __slots__ = ("_gaps", "_producers", "ended", "open")

    def __init__(self) -> None:
        self._producers: dict[int, _Producer] = {}
        self._gaps: dict[int, tuple[int, int]] = {}  # by producer id: epoch and sequence of the first refused batch
        self.open: dict[int, int] = {}
        self.ended: EndedTransactions | None = None

    def __len__(self) -> int:
        return len(self._producers)

    def snapshot(self) -> bytes:
        """Encode the producers for `restored`, without open transactions and refused batches."""
        return encode_producers(
            StoredProducer(
                producer_id,
                it.epoch,
                it.expected_sequence,
                it.last_append_ms,
                tuple(it.batches),
                it.coordinator_epoch,
                it.marker_offset,
                it.marker_timestamp,
            )
            for producer_id, it in self._producers.items()
        )

    @classmethod
    def restored(cls, snapshot: bytes, open_transactions: Iterable[tuple[int, int]] = ()) -> "ProducerStates":
        """Return the producers of a snapshot.

        Args:
            snapshot: from `snapshot`.
            open_transactions: pairs of producer id and first offset.

        Raises:
            struct.error: the snapshot is truncated.
        """
        states = cls()
        for it in decode_producers(snapshot):
            producer = states._producers[it.producer_id] = _Producer(it.epoch)
            producer.expected_sequence, producer.last_append_ms = it.expected_sequence, it.last_append_ms
            producer.batches.extend(it.batches[-BATCHES_REMEMBERED:])
            producer.coordinator_epoch = it.coordinator_epoch
            producer.marker_offset, producer.marker_timestamp = it.marker_offset, it.marker_timestamp
        # `first_unstable_offset` relies on this order.
        states.open.update(sorted(open_transactions, key=lambda each: each[1]))
        return states

    def last_offsets(self) -> dict[int, tuple[int, int | None]]:
        """Return epoch and last data offset by producer id. The offset is None if only a marker is known."""
        return {
            producer_id: (it.epoch, it.batches[-1].last_offset if it.batches else None)
            for producer_id, it in self._producers.items()
        }

    def described(self) -> Iterator[ProducerDescription]:
        for producer_id, it in self._producers.items():
            last_sequence = it.batches[-1].last_sequence if it.batches else NOTHING
            yield ProducerDescription(
                producer_id,
                it.epoch,
                last_sequence,
                it.last_timestamp,
                it.coordinator_epoch,
                self.open.get(producer_id, NOTHING),
            )

    def open_transaction(self, producer_id: int) -> OpenTransaction | None:
        """Return the producer's open transaction; None without one.

        The epoch is that of the producer's last batch; -1 for an unknown producer.
        """
        first_offset = self.open.get(producer_id)
        if first_offset is None:
            return None
        producer = self._producers.get(producer_id)
        return OpenTransaction(first_offset, NOTHING if producer is None else producer.epoch)

    def is_in_transaction(self, producer_id: int, epoch: int) -> bool:
        """Return whether a producer with this epoch has an open transaction, to which it may write more."""
        found = self.open_transaction(producer_id)
        return found is not None and found.producer_epoch == epoch

    def last_marker_offset(self, producer_id: int) -> int:
        producer = self._producers.get(producer_id)
        return NOTHING if producer is None else producer.marker_offset

    def check(self, producer_id: int, epoch: int, first_sequence: int, last_sequence: int) -> ProducedBatch | None:
        """Return the original batch of a duplicate; None if the batch may be appended.

        Raises:
            InvalidProducerEpoch: the epoch is below the producer's, or below -1 for an unknown producer.
            OutOfOrderSequence: the sequence does not follow the producer's last batch, or does not begin a new epoch at
                0. For an unknown producer: an earlier batch was refused and has not arrived again.
        """
        producer = self._producers.get(producer_id)
        if producer is None:
            if epoch < NOTHING:  # as in Apache Kafka, where an unknown producer has epoch -1
                raise InvalidProducerEpoch(
                    f"producer {producer_id} has no epoch yet, and sent the invalid epoch {epoch}"
                )
            if self._gaps:
                self._check_gap(producer_id, epoch, first_sequence)
            return None
        if epoch == producer.epoch:
            if first_sequence == producer.expected_sequence:
                return None
            # Before the sequence check, as in Kafka: a retried batch must be acknowledged with its original offsets.
            for batch in producer.batches:
                if batch[0] == first_sequence and batch[1] == last_sequence:
                    return batch
            raise OutOfOrderSequence(
                f"producer {producer_id} sent sequence {first_sequence}, expected {producer.expected_sequence}"
            )
        if epoch < producer.epoch:
            raise InvalidProducerEpoch(f"producer {producer_id} has epoch {producer.epoch}, not {epoch}")
        if first_sequence != 0:
            raise OutOfOrderSequence(f"producer {producer_id} starts epoch {epoch} with sequence {first_sequence}")
        return None

    def _check_gap(self, producer_id: int, epoch: int, first_sequence: int) -> None:
        gap = self._gaps.get(producer_id)
        if gap is not None and gap[0] == epoch and first_sequence not in (gap[1], 0):
            raise OutOfOrderSequence(
                f"producer {producer_id} sent sequence {first_sequence} after the refused sequence {gap[1]}"
            )

    def check_start(self, producer_id: int, epoch: int, first_sequence: int) -> None:
        """Check that a producer without remembered batches starts at sequence 0, as KIP-890 requires.

        Raises:
            OutOfOrderSequence: the producer starts at another sequence.
        """
        producer = self._producers.get(producer_id)
        if producer is not None and (producer.batches or epoch < producer.epoch):
            return  # `check` decides, and raises the right error
        if first_sequence != 0:
            raise OutOfOrderSequence(f"producer {producer_id} begins with sequence {first_sequence}, not 0")

    def check_without_sequence(self, producer_id: int, epoch: int) -> None:
        """Check the epoch of a batch that a coordinator writes for a producer.

        Raises:
            InvalidProducerEpoch: the epoch is below the producer's.
        """
        producer = self._producers.get(producer_id)
        if producer is not None and epoch < producer.epoch:
            raise InvalidProducerEpoch(f"producer {producer_id} has epoch {producer.epoch}, not {epoch}")

    def check_outside(self, producer_id: int) -> None:
        """Check that the producer of a non-transactional batch has no open transaction.

        Raises:
            InvalidTxnState: a transaction is open.
        """
        if producer_id in self.open:
            raise InvalidTxnState(f"producer {producer_id} has a transaction open since {self.open[producer_id]}")

    def check_marker(self, producer_id: int, epoch: int, coordinator_epoch: int, version: int) -> None:
        """Check the epochs of a marker.

        Args:
            coordinator_epoch: epoch of the transaction coordinator.
            version: version of transactions; see `PartitionLog.append_marker`.

        Raises:
            InvalidProducerEpoch: the epoch is below the producer's; from version 2, also if it is the same while a
                transaction is open.
            TransactionCoordinatorFenced: a coordinator with a higher epoch has written a marker.
        """
        producer = self._producers.get(producer_id)
        if producer is None:
            return
        # With version 2 an open transaction has the epoch before the bump, so a marker with that epoch is a late one.
        lowest = producer.epoch + (version >= BUMPS_EPOCH_FROM and producer_id in self.open)
        if epoch < lowest:
            raise InvalidProducerEpoch(
                f"producer {producer_id} has epoch {producer.epoch}: a marker of epoch {epoch} is late"
            )
        if coordinator_epoch < producer.coordinator_epoch:
            raise TransactionCoordinatorFenced(
                f"producer {producer_id} has a marker of coordinator epoch {producer.coordinator_epoch}, "
                f"not {coordinator_epoch}"
            )

    def _add(self, producer_id: int, epoch: int) -> _Producer:
        producers = self._producers
        # A producer with an open transaction is never forgotten: its marker would find nothing to end.
        if len(producers) >= PRODUCERS_MAX + len(self.open):
            idle = ((it.last_append_ms, key) for key, it in producers.items() if key not in self.open)
            # Many at once, so that the scan of all producers is rare.
            for _, key in heapq.nsmallest(PRODUCERS_MAX // 10, idle):
                del producers[key]
        self._gaps.pop(producer_id, None)
        producers[producer_id] = producer = _Producer(epoch)
        return producer

    def record(self, producer_id: int, epoch: int, batch: ProducedBatch, now_ms: int) -> None:
        producer = self._producers.get(producer_id)
        if producer is None:
            producer = self._add(producer_id, epoch)
        elif producer.epoch != epoch:
            producer.begin(epoch)
        batches = producer.batches
        if len(batches) == BATCHES_REMEMBERED:
            del batches[0]
        batches.append(batch)
        # Sequences are int32 and wrap to 0.
        producer.expected_sequence = (batch[1] + 1) & SEQUENCE_MASK
        producer.last_append_ms = now_ms

    def record_marker(
        self, producer_id: int, epoch: int, marker: EndMarker, offset: int, timestamp: int, now_ms: int
    ) -> None:
        """Record a marker that was appended or replayed. It ends the producer's open transaction."""
        producer = self._producers.get(producer_id)
        if producer is None:
            producer = self._add(producer_id, epoch)
        elif producer.epoch != epoch:
            producer.begin(epoch)
        producer.coordinator_epoch = marker.coordinator_epoch
        producer.marker_offset, producer.marker_timestamp = offset, timestamp
        producer.last_append_ms = now_ms
        first_offset = self.open.pop(producer_id, None)
        if first_offset is None:
            return
        if self.ended is None:
            self.ended = EndedTransactions()
        self.ended.add(first_offset, offset)
        if not marker.is_commit:
            # The oldest transaction that is still open bounds what readers could see when this one ended.
            stable = next(iter(self.open.values()), offset + 1)
            self.ended.add_aborted(AbortedTransaction(producer_id, first_offset, offset, stable))

    @property
    def first_unstable_offset(self) -> int | None:
        """First offset of the oldest transaction that is open or has an undurable marker; None without one."""
        first_open = next(iter(self.open.values()), None)
        first_ended = None if self.ended is None else self.ended.first_undurable_offset
        if first_open is None or first_ended is None:
            return first_ended if first_open is None else first_open
        return min(first_open, first_ended)

    def refused(self, producer_id: int, epoch: int, first_sequence: int) -> None:
        """Record that a batch was refused for its content.

        Later batches of an unknown producer must not overtake it. The oldest of more than GAPS_REMEMBERED records is
        dropped.
        """
        if producer_id in self._producers:
            return  # of a known producer, batches after the refused one are out of order anyway
        gap = self._gaps.get(producer_id)
        if gap is not None and gap[0] == epoch:
            return  # the first refused batch counts
        self._gaps[producer_id] = (epoch, first_sequence)
        if len(self._gaps) > GAPS_REMEMBERED:
            del self._gaps[next(iter(self._gaps))]

    def expire(self, now_ms: int, expiration_ms: int) -> int:
        """Forget silent producers without an open transaction; return their number.

        Args:
            now_ms: wall-clock time.
            expiration_ms: minimum time since the last append.
        """
        silent = [
            key
            for key, it in self._producers.items()
            if now_ms - it.last_append_ms >= expiration_ms and key not in self.open
        ]
        for key in silent:
            del self._producers[key]
        return len(silent)
