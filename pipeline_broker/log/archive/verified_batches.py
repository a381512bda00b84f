"""The positions of large batches that were verified since the file was written, which need no second check."""

import threading
from collections import OrderedDict
from collections.abc import Iterable
from typing import Final, NamedTuple

from pipeline_broker.log.archive.damage import SegmentKey

__all__ = ["VerifiedBatch", "VerifiedBatches", "VerifiedRun"]

BATCHES_MAX: Final = 20_000
"""Archived batches that are remembered as verified, about 300 bytes each; others are verified again."""
BATCH_BYTES_MIN: Final = 16 << 10
"""Average size from which batches are remembered. Finding smaller ones takes longer than reading them."""


class VerifiedBatch(NamedTuple):
    base_offset: int
    start: int
    end: int
    next_offset: int


class VerifiedRun(NamedTuple):
    """Neighbouring batches in a file, and the offset after them."""

    start: int
    size_bytes: int
    end_offset: int


class VerifiedBatches:
    """Verified batches of all segments, for any thread. The segment that was used least recently is forgotten first."""

    def __init__(self, batches_max: int = BATCHES_MAX) -> None:
        self._batches_max = batches_max
        self._segments: OrderedDict[SegmentKey, dict[int, VerifiedBatch]] = OrderedDict()
        self._count = 0
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return self._count

    def add(self, key: SegmentKey, batches: Iterable[VerifiedBatch]) -> None:
        with self._lock:
            known = self._segments.setdefault(key, {})
            self._segments.move_to_end(key)
            self._count -= len(known)
            for batch in batches:
                known.pop(batch.base_offset, None)  # moves it to the end
                known[batch.base_offset] = batch
            self._count += len(known)
            while self._count > self._batches_max:
                self._drop_oldest(key)

    def _drop_oldest(self, key: SegmentKey) -> None:
        oldest, batches = next(iter(self._segments.items()))
        if oldest != key:
            del self._segments[oldest]
            self._count -= len(batches)
        else:
            del batches[next(iter(batches))]
            self._count -= 1

    def find(self, key: SegmentKey, offset: int, bytes_max: int, last_offset: int) -> VerifiedRun | None:
        """Return the verified batches from the one that begins at `offset`, as far as they are neighbours.

        Args:
            bytes_max: limit on the size of all batches.
            last_offset: limit on their offsets.

        Returns:
            the run; None if no batch that is known begins at `offset`, or it is too large.
        """
        with self._lock:
            known = self._segments.get(key)
            if known is None:
                return None
            self._segments.move_to_end(key)
            first = known.get(offset)
            if first is None:
                return None
            start = end = first.start
            batch: VerifiedBatch | None = first
            while batch is not None and batch.start == end and batch.end - start <= bytes_max:
                if batch.next_offset > last_offset + 1:
                    break
                end, offset = batch.end, batch.next_offset
                batch = known.get(offset)
            return VerifiedRun(start, end - start, offset) if end > start else None

    def forget(self, key: SegmentKey) -> None:
        with self._lock:
            self._count -= len(self._segments.pop(key, ()))
