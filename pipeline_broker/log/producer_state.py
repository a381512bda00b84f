"""What a partition remembers of idempotent producers.

Rules of this file: nothing here touches records or files; time is passed in. The order of the checks is Kafka's: a
duplicate first, then the epoch, then the sequence.
- A duplicate has the epoch and exactly the first and last sequence of one of the producer's last five batches.
- An epoch below the current one is fenced; a higher one must start at sequence 0 and forgets the batches before.
- Within an epoch a batch must follow the last one; sequences wrap from 2**31 - 1 to 0.
- A producer nothing is known of may start anywhere, but when a batch of such a producer was refused, those that were
  sent behind it must not slip in front of it: until the refused sequence (or 0, a fresh start) comes, they are out of
  order. Nothing in a refused batch is trusted further than that: another epoch or producer is not affected, and only
  the last thousand such gaps are remembered.
- A producer is forgotten when it has been silent for long. Kafka counts from the timestamp of its last batch; here it
  is the time of its append, because events of last year are produced too (after a restart, the time of the restart).
"""

import struct
from collections import deque
from typing import NamedTuple

from pipeline_broker.log.errors import InvalidProducerEpoch, OutOfOrderSequence

BATCHES_REMEMBERED = 5
GAPS_REMEMBERED = 1000
SEQUENCE_MASK = (1 << 31) - 1

_PRODUCER = struct.Struct("<qhiqB")  # id, epoch, expected sequence, last append, batches
_BATCH = struct.Struct("<iiqqq")


class ProducedBatch(NamedTuple):
    """One of the last batches of a producer."""

    first_sequence: int
    last_sequence: int
    base_offset: int
    last_offset: int
    timestamp: int


class _Producer:
    __slots__ = ("batches", "epoch", "expected_sequence", "last_append_ms")

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch
        self.expected_sequence = 0
        self.last_append_ms = 0
        self.batches: deque[ProducedBatch] = deque(maxlen=BATCHES_REMEMBERED)


class ProducerStates:
    """The producers of one partition."""

    __slots__ = ("_gaps", "_producers")

    def __init__(self) -> None:
        self._producers: dict[int, _Producer] = {}
        self._gaps: dict[int, tuple[int, int]] = {}  # producer id -> (epoch, sequence) of the first refused batch

    def __len__(self) -> int:
        return len(self._producers)

    def snapshot(self) -> bytes:
        """All that `restored` needs. Refused batches are not in it: they were not appended."""
        pieces: list[bytes] = []
        for producer_id, it in self._producers.items():
            pieces.append(
                _PRODUCER.pack(producer_id, it.epoch, it.expected_sequence, it.last_append_ms, len(it.batches))
            )
            pieces += [_BATCH.pack(*batch) for batch in it.batches]
        return b"".join(pieces)

    @classmethod
    def restored(cls, snapshot: bytes) -> "ProducerStates":
        """The producers of a snapshot."""
        states, position = cls(), 0
        while position < len(snapshot):
            producer_id, epoch, expected, last_append_ms, count = _PRODUCER.unpack_from(snapshot, position)
            position += _PRODUCER.size
            producer = states._producers[producer_id] = _Producer(epoch)
            producer.expected_sequence, producer.last_append_ms = expected, last_append_ms
            end = position + count * _BATCH.size
            producer.batches.extend(map(ProducedBatch._make, _BATCH.iter_unpack(snapshot[position:end])))
            position = end
        return states

    def last_offsets(self) -> dict[int, tuple[int, int | None]]:
        """By producer id: its epoch, and the last offset of its last batch."""
        return {
            producer_id: (it.epoch, it.batches[-1].last_offset if it.batches else None)
            for producer_id, it in self._producers.items()
        }

    def check(self, producer_id: int, epoch: int, first_sequence: int, last_sequence: int) -> ProducedBatch | None:
        """The original when this is a duplicate, None when it may be appended; raises when it may not."""
        producer = self._producers.get(producer_id)
        if producer is None:
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

    def record(self, producer_id: int, epoch: int, batch: ProducedBatch, now_ms: int) -> None:
        """The batch was appended (or is found on replay)."""
        producer = self._producers.get(producer_id)
        if producer is None or producer.epoch != epoch:
            producer = self._producers[producer_id] = _Producer(epoch)
            self._gaps.pop(producer_id, None)
        producer.batches.append(batch)
        producer.expected_sequence = (batch[1] + 1) & SEQUENCE_MASK
        producer.last_append_ms = now_ms

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
        """Forget the producers that have been silent for so long; returns how many."""
        silent = [key for key, it in self._producers.items() if now_ms - it.last_append_ms >= expiration_ms]
        for key in silent:
            del self._producers[key]
        return len(silent)
