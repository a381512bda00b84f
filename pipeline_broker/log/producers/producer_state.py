"""What a partition remembers of idempotent and transactional producers.

Rules of this file: nothing here touches records or files; time is passed in. The order of the checks is Kafka's: a
duplicate first, then the epoch, then the sequence, then whether a transaction is open.
- A duplicate has the epoch and exactly the first and last sequence of one of the producer's last five batches.
- An epoch below the current one is fenced; a higher one must start at sequence 0 and forgets the batches before.
- Within an epoch a batch must follow the last one; sequences wrap from 2**31 - 1 to 0.
- A producer nothing is known of may start anywhere, unless it is one of transactions version 2, which starts at 0. But
  when a batch of such a producer was refused, those that were sent behind it must not slip in front of it: until the
  refused sequence (or 0, a fresh start) comes, they are out of order. Nothing in a refused batch is trusted further
  than that: another epoch or producer is not affected, and only the last thousand such gaps are remembered.
- What a coordinator writes for a producer has no sequence (-1): only its epoch is looked at.
- The first transactional batch opens the producer's transaction, its marker ends it. In between, a batch that is not
  transactional is refused. A marker of transactions version 2 carries a higher epoch than the data, or the same one
  when nothing is open: then it is a marker that came before, again. Older ones carry the epoch of the data, or a higher
  one. A marker sets the epoch, and that of its coordinator, which may not fall.
- A producer is forgotten when it has been silent for long and has no open transaction. Kafka counts from the timestamp
  of its last batch; here it is the time of its append, because events of last year are produced too (after a restart,
  the time of the restart).
- Clients make up ids: of more than PRODUCERS_MAX those that have been silent longest are forgotten in the same way, a
  tenth at a time. Kafka has no such bound.
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
PRODUCERS_MAX = 10_000
"""Producers of one partition without an open transaction that are remembered; each takes up to 2 KB."""
SEQUENCE_MASK: Final = (1 << 31) - 1
BUMPS_EPOCH_FROM: Final = 2
"""The version of transactions from which each has an epoch of its own, which its marker ends (KIP-890)."""


class OpenTransaction(NamedTuple):
    """A transaction that has data in the partition and no marker yet."""

    first_offset: int
    producer_epoch: int


class ProducerDescription(NamedTuple):
    """What others are told of a producer; -1 for what there is not."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp: int
    coordinator_epoch: int
    first_offset: int
    """Of its open transaction."""


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
        self.batches: list[ProducedBatch] = []  # no deque: an empty one takes 760 bytes
        self.coordinator_epoch = self.marker_offset = self.marker_timestamp = NOTHING

    def begin(self, epoch: int) -> None:
        """A new epoch: what was sent in the one before is not looked at any more."""
        self.epoch = epoch
        self.expected_sequence = 0
        self.batches.clear()

    @property
    def last_timestamp(self) -> int:
        """Of its last batch, markers included."""
        if self.batches and self.batches[-1].last_offset > self.marker_offset:
            return self.batches[-1].timestamp
        return self.marker_timestamp


class ProducerStates:
    """The producers of one partition.

    Attributes:
        open: the first offset of each open transaction by its producer's id, the oldest transaction first.
        ended: the transactions that have ended; None before the first.
    """

    __slots__ = ("_gaps", "_producers", "ended", "open")

    def __init__(self) -> None:
        self._producers: dict[int, _Producer] = {}
        self._gaps: dict[int, tuple[int, int]] = {}  # producer id -> (epoch, sequence) of the first refused batch
        self.open: dict[int, int] = {}
        self.ended: EndedTransactions | None = None

    def __len__(self) -> int:
        return len(self._producers)

    def snapshot(self) -> bytes:
        """What `restored` needs beside the open transactions. Refused batches are not in it: they were not appended."""
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
        """The producers of a snapshot, and the first offsets of transactions by producer ids."""
        states = cls()
        for it in decode_producers(snapshot):
            producer = states._producers[it.producer_id] = _Producer(it.epoch)
            producer.expected_sequence, producer.last_append_ms = it.expected_sequence, it.last_append_ms
            producer.batches.extend(it.batches[-BATCHES_REMEMBERED:])
            producer.coordinator_epoch = it.coordinator_epoch
            producer.marker_offset, producer.marker_timestamp = it.marker_offset, it.marker_timestamp
        states.open.update(sorted(open_transactions, key=lambda each: each[1]))
        return states

    def last_offsets(self) -> dict[int, tuple[int, int | None]]:
        """By producer id: its epoch, and the last offset of its last batch."""
        return {
            producer_id: (it.epoch, it.batches[-1].last_offset if it.batches else None)
            for producer_id, it in self._producers.items()
        }

    def described(self) -> Iterator[ProducerDescription]:
        """All of them, as others are told."""
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
        """The producer's transaction, if one is open; its epoch is that of the producer's last batch."""
        first_offset = self.open.get(producer_id)
        if first_offset is None:
            return None
        producer = self._producers.get(producer_id)
        return OpenTransaction(first_offset, NOTHING if producer is None else producer.epoch)

    def check(self, producer_id: int, epoch: int, first_sequence: int, last_sequence: int) -> ProducedBatch | None:
        """The original when this is a duplicate, None when it may be appended; raises when it may not."""
        producer = self._producers.get(producer_id)
        if producer is None:
            if epoch < NOTHING:  # as in Apache Kafka, where a producer that is not known has epoch -1
                raise InvalidProducerEpoch(f"producer {producer_id} has no epoch yet, and none is {epoch}")
            if self._gaps:
                self._check_gap(producer_id, epoch, first_sequence)
            return None
        if epoch == producer.epoch:
            if first_sequence == producer.expected_sequence:
                return None
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
                f"producer {producer_id} sent sequence {first_sequence} behind the refused {gap[1]}"
            )

    def check_start(self, producer_id: int, epoch: int, first_sequence: int) -> None:
        """Refuse a producer of transactions version 2 that does not begin with 0 where no batch of it is known.

        Raises:
            OutOfOrderSequence: it does not.
        """
        producer = self._producers.get(producer_id)
        if producer is not None and (producer.batches or epoch < producer.epoch):
            return  # `check` knows what is wrong
        if first_sequence != 0:
            raise OutOfOrderSequence(f"producer {producer_id} begins with sequence {first_sequence}, not 0")

    def check_without_sequence(self, producer_id: int, epoch: int) -> None:
        """The same as `check` for what a coordinator writes for a producer.

        Raises:
            InvalidProducerEpoch: the producer is fenced.
        """
        producer = self._producers.get(producer_id)
        if producer is not None and epoch < producer.epoch:
            raise InvalidProducerEpoch(f"producer {producer_id} has epoch {producer.epoch}, not {epoch}")

    def check_outside(self, producer_id: int) -> None:
        """Refuse a batch that is not transactional while its producer has a transaction open.

        Raises:
            InvalidTxnState: it has.
        """
        if producer_id in self.open:
            raise InvalidTxnState(f"producer {producer_id} has a transaction open since {self.open[producer_id]}")

    def check_marker(self, producer_id: int, epoch: int, coordinator_epoch: int, version: int) -> None:
        """Refuse a marker that is late; for `version` see PartitionLog.append_marker.

        Raises:
            InvalidProducerEpoch: the producer has begun something newer since.
            TransactionCoordinatorFenced: there is a newer coordinator.
        """
        producer = self._producers.get(producer_id)
        if producer is None:
            return
        lowest = producer.epoch + (version >= BUMPS_EPOCH_FROM and producer_id in self.open)
        if epoch < lowest:
            raise InvalidProducerEpoch(
                f"producer {producer_id} has epoch {producer.epoch}: a marker of {epoch} is late"
            )
        if coordinator_epoch < producer.coordinator_epoch:
            raise TransactionCoordinatorFenced(
                f"producer {producer_id} has a marker of coordinator epoch {producer.coordinator_epoch}, "
                f"not {coordinator_epoch}"
            )

    def _add(self, producer_id: int, epoch: int) -> _Producer:
        producers = self._producers
        if len(producers) >= PRODUCERS_MAX + len(self.open):
            idle = ((it.last_append_ms, key) for key, it in producers.items() if key not in self.open)
            for _, key in heapq.nsmallest(PRODUCERS_MAX // 10, idle):
                del producers[key]
        self._gaps.pop(producer_id, None)
        producers[producer_id] = producer = _Producer(epoch)
        return producer

    def record(self, producer_id: int, epoch: int, batch: ProducedBatch, now_ms: int) -> None:
        """The batch was appended (or is found on replay)."""
        producer = self._producers.get(producer_id)
        if producer is None:
            producer = self._add(producer_id, epoch)
        elif producer.epoch != epoch:
            producer.begin(epoch)
        batches = producer.batches
        if len(batches) == BATCHES_REMEMBERED:
            del batches[0]
        batches.append(batch)
        producer.expected_sequence = (batch[1] + 1) & SEQUENCE_MASK
        producer.last_append_ms = now_ms

    def record_marker(
        self, producer_id: int, epoch: int, marker: EndMarker, offset: int, timestamp: int, now_ms: int
    ) -> None:
        """The marker was appended (or is found on replay)."""
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
            stable = next(iter(self.open.values()), offset + 1)
            self.ended.add_aborted(AbortedTransaction(producer_id, first_offset, offset, stable))

    @property
    def first_unstable_offset(self) -> int | None:
        """Of the oldest transaction that is open, or whose marker is not durable; None when there is none."""
        first_open = next(iter(self.open.values()), None)
        first_ended = None if self.ended is None else self.ended.first_undurable_offset
        if first_open is None or first_ended is None:
            return first_ended if first_open is None else first_open
        return min(first_open, first_ended)

    def refused(self, producer_id: int, epoch: int, first_sequence: int) -> None:
        """A batch was refused for what is in it, not for its sequence."""
        if producer_id in self._producers:
            return  # what follows it is out of order already
        gap = self._gaps.get(producer_id)
        if gap is not None and gap[0] == epoch:
            return  # the first refused one counts
        self._gaps[producer_id] = (epoch, first_sequence)
        if len(self._gaps) > GAPS_REMEMBERED:
            del self._gaps[next(iter(self._gaps))]

    def expire(self, now_ms: int, expiration_ms: int) -> int:
        """Forget the producers that have been silent for so long and have nothing open; returns how many."""
        silent = [
            key
            for key, it in self._producers.items()
            if now_ms - it.last_append_ms >= expiration_ms and key not in self.open
        ]
        for key in silent:
            del self._producers[key]
        return len(silent)
