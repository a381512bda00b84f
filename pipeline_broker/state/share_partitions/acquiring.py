"""Acquisition of fetched records by a member, with the rules of Kafka's SharePartition.acquire.

New records are acquired in spans:

* In batch-optimised mode the limit is rounded up to the end of the log's batch that it lies in. The member receives
  that batch anyway.
* With an exact limit, new records up to the same end become one span. Records of the span beyond the limit stay
  available.

Returned records (released, timed out) are delivered again span by span:

* The limit is rounded up to the end of a span, and the response lists each span separately.
* Records with many deliveries are handed out in smaller and smaller parts of their span, and one by one for their last
  delivery. So one bad record does not take its neighbours with it.

Aborted records among the acquired ones are archived at once, and the response omits them.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import groupby
from operator import attrgetter

import attrs

from pipeline_broker.config.group_settings import ShareGroupSettings
from pipeline_broker.state.share_partitions.messages import (
    Acquired,
    AcquireLimits,
    AcquireMode,
    FetchedBatch,
)
from pipeline_broker.state.share_partitions.record_state import RecordState
from pipeline_broker.state.share_partitions.runs import Run, Runs, Span

__all__ = ["acquire_runs"]

# With fewer allowed deliveries than this, records are never delivered one by one.
ISOLATED_FROM = 3
_LAST = attrgetter("last")
_SPAN = attrgetter("span")


def acquire_runs(
    runs: Runs,
    start_offset: int,
    settings: ShareGroupSettings,
    member_id: str,
    read_from: int,
    batches: Sequence[FetchedBatch],
    limits: AcquireLimits,
    now_ms: int,
) -> list[Acquired]:
    """Acquire records; arguments and result are those of SharePartition.acquire."""
    end = runs.last if runs else start_offset - 1
    records_max, last = limits.records_max, batches[-1].last
    room = settings.partition_max_record_locks - (end - start_offset + 1)
    if room > 0:
        records_max = min(records_max, room)
    elif read_from <= end:  # the window is full, but returned records inside it can be acquired
        records_max, last = min(records_max, end - read_from + 1), min(last, end)
    else:
        return []
    first = max(batches[0].first, start_offset, read_from)
    if first > last:
        return []
    if last > end:
        # As one available run; the acquisition below splits it.
        runs.append(Run(end + 1, last, RecordState.AVAILABLE, 0))
    acquiring = _Acquiring(
        runs, settings, member_id, batches, limits, now_ms + settings.record_lock_duration_ms, records_max
    )
    acquiring.take(first, last)
    runs.drop_unspanned(end)
    acquiring.archive_invisible()
    runs.join(first, last)
    return acquiring.acquired


@attrs.define
class _Acquiring:
    _runs: Runs
    _settings: ShareGroupSettings
    _member_id: str
    _batches: Sequence[FetchedBatch]
    _limits: AcquireLimits
    _lock_until_ms: int
    _left: int
    acquired: list[Acquired] = attrs.Factory(list)
    _is_throttled: bool = False

    def take(self, first: int, last: int) -> None:
        available = [run for run in self._runs.cut(first, last) if run.state is RecordState.AVAILABLE]
        for span, runs in groupby(available, _SPAN):
            if self._left <= 0 or self._is_throttled:
                return
            if span is None:
                self._take_new(next(runs))  # new runs are never adjacent, because `join` merges them
            else:
                self._take_returned(span, list(runs))

    # New records

    def _take_new(self, run: Run) -> None:
        """Acquire the beginning of a new run, up to the end of the log's batch that the limit lies in."""
        wanted_last = run.first + self._left - 1
        last = run.last
        if wanted_last < last:
            last = min(last, self._batches[bisect_left(self._batches, wanted_last, key=_LAST)].last)
        is_exact = self._limits.mode is AcquireMode.RECORD_LIMIT
        spans = [Span(run.first, last)] if is_exact else self._spans(run.first, last)
        for span in spans:
            (part,) = self._runs.cut(*span)
            part.span = span
            self._acquire(part, min(part.size, self._left) if is_exact else part.size)

    def _spans(self, first: int, last: int) -> Iterator[Span]:
        """Split offsets at ends of log batches; each span but the last has at least `batch_size` offsets."""
        for batch in self._batches:
            if first <= batch.last < last and batch.last - first + 1 >= self._limits.batch_size:
                yield Span(first, batch.last)
                first = batch.last + 1
        yield Span(first, last)

    # Returned records

    @property
    def _throttled_from(self) -> int:
        """The delivery count from which runs are delivered in smaller parts, in order to isolate a bad record."""
        return max(2, (self._settings.delivery_count_limit + 1) // 2)

    def _take_returned(self, span: Span, runs: Sequence[Run]) -> None:
        """Acquire the available records of a span, or only its beginning if they were delivered often."""
        self._is_throttled = max(run.delivery_count for run in runs) >= self._throttled_from
        # Records that were delivered often get an acquisition of their own.
        if self._is_throttled and self.acquired:
            return
        most = self._left if self._limits.mode is AcquireMode.RECORD_LIMIT else span.size
        taken = 0
        for run in runs:
            is_last_delivery = self._is_last_delivery(run)
            if is_last_delivery and taken:
                return
            if run.delivery_count >= self._throttled_from:
                # The first throttled delivery halves the span, and each further one halves the part again.
                most = min(most, max(1, span.size >> (run.delivery_count - self._throttled_from + 1)))
            size = min(run.size, 1 if is_last_delivery else most - taken)
            if size <= 0:
                return
            self._acquire(run, size)
            taken += size
            if is_last_delivery:
                return

    def _is_last_delivery(self, run: Run) -> bool:
        most = self._settings.delivery_count_limit
        return most >= ISOLATED_FROM and run.delivery_count == most - 1

    # Both kinds

    def _acquire(self, run: Run, size: int) -> None:
        if size < run.size:
            (run,) = self._runs.cut(run.first, run.first + size - 1)
        self._runs.move(run, RecordState.ACQUIRED)
        run.delivery_count += 1
        run.member_id = self._member_id
        run.lock_until_ms = self._lock_until_ms
        self._left -= size
        self.acquired.append(Acquired(run.first, run.last, run.delivery_count))

    def archive_invisible(self) -> None:
        """Archive acquired records of aborted transactions, and markers, and remove them from the result."""
        for batch in self._batches:
            if batch.is_visible:
                continue
            for first, last in (
                (max(piece.first, batch.first), min(piece.last, batch.last)) for piece in self.acquired
            ):
                for run in self._runs.cut(first, last) if first <= last else ():
                    self._runs.move(run, RecordState.ARCHIVED)
            self.acquired = [part for piece in self.acquired for part in _without(piece, batch)]


def _without(piece: Acquired, batch: FetchedBatch) -> Iterator[Acquired]:
    if piece.first < batch.first:
        yield piece._replace(last=min(piece.last, batch.first - 1))
    if piece.last > batch.last:
        yield piece._replace(first=max(piece.first, batch.last + 1))
