"""Which records a fetch acquires of those that were read.

Rules of this file: Kafka's (SharePartition.acquire). What nobody has had yet is acquired in spans, and the limit of
records is soft in batch-optimised mode: it is rounded up to the end of the log's batch that it lies in, because that
is what the member gets anyhow. With an exact limit all becomes one span up to that end, of which the rest stays
available. What has come back is handed out span by span: the limit is rounded up to the end of a span, and spans are
told apart. What was delivered often is handed out in ever smaller parts of its span, and alone before its last
delivery, so that one bad record does not take its neighbours with it. Aborted records that lie in what was acquired
are archived at once and not piece.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import groupby
from operator import attrgetter

import attrs

from pipeline_broker.state.share_partitions.messages import (
    Acquired,
    AcquireLimits,
    AcquireMode,
    DeliveryRules,
    FetchedBatch,
)
from pipeline_broker.state.share_partitions.record_state import RecordState
from pipeline_broker.state.share_partitions.runs import Run, Runs, Span

__all__ = ["acquire_runs"]

ISOLATED_FROM = 3
"""With fewer deliveries than this in all, no record is delivered alone."""
_LAST = attrgetter("last")
_SPAN = attrgetter("span")


def acquire_runs(
    runs: Runs,
    start_offset: int,
    rules: DeliveryRules,
    member_id: str,
    read_from: int,
    batches: Sequence[FetchedBatch],
    limits: AcquireLimits,
    now_ms: int,
) -> list[Acquired]:
    """Acquire; see SharePartition.acquire."""
    end = runs.last if runs else start_offset - 1
    records_max, last = limits.records_max, batches[-1].last
    room = rules.record_locks_max - (end - start_offset + 1)
    if room > 0:
        records_max = min(records_max, room)
    elif read_from <= end:  # the window is full; what came back in the middle of it can still be acquired
        records_max, last = min(records_max, end - read_from + 1), min(last, end)
    else:
        return []
    first = max(batches[0].first, start_offset, read_from)
    if first > last:
        return []
    if last > end:
        runs.append(Run(end + 1, last, RecordState.AVAILABLE, 0))
    acquiring = _Acquiring(runs, rules, member_id, batches, limits, now_ms + rules.lock_duration_ms, records_max)
    acquiring.take(first, last)
    runs.drop_unspanned(end)
    acquiring.archive_invisible()
    runs.join(first, last)
    return acquiring.acquired


@attrs.define
class _Acquiring:
    """One acquisition on its way through the runs.

    Attributes:
        piece: what was acquired so far; neighbours of one span, delivered as often, are one run.
    """

    _runs: Runs
    _rules: DeliveryRules
    _member_id: str
    _batches: Sequence[FetchedBatch]
    _limits: AcquireLimits
    _lock_until_ms: int
    _left: int
    acquired: list[Acquired] = attrs.Factory(list)
    _is_throttled: bool = False

    def take(self, first: int, last: int) -> None:
        """What can be acquired of these offsets."""
        available = [run for run in self._runs.cut(first, last) if run.state is RecordState.AVAILABLE]
        for span, runs in groupby(available, _SPAN):
            if self._left <= 0 or self._is_throttled:
                return
            if span is None:
                self._take_new(next(runs))  # the only one: between two that nobody has had lies what somebody has
            else:
                self._take_returned(span, list(runs))

    # What nobody has had

    def _take_new(self, run: Run) -> None:
        """Up to the end of the log's batch that the limit lies in."""
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
        """Parts that end where batches of the log end and, but for the last, hold as many as are told as one."""
        for batch in self._batches:
            if first <= batch.last < last and batch.last - first + 1 >= self._limits.batch_size:
                yield Span(first, batch.last)
                first = batch.last + 1
        yield Span(first, last)

    # What has come back

    def _take_returned(self, span: Span, runs: Sequence[Run]) -> None:
        """What is available of a span, or only its beginning if there is reason."""
        self._is_throttled = max(run.delivery_count for run in runs) >= self._rules.throttled_from
        if self._is_throttled and self.acquired:
            return
        most = self._left if self._limits.mode is AcquireMode.RECORD_LIMIT else span.size
        taken = 0
        for run in runs:
            is_last_delivery = self._is_last_delivery(run)
            if is_last_delivery and taken:
                return
            if run.delivery_count >= self._rules.throttled_from:
                most = min(most, max(1, span.size >> (run.delivery_count - self._rules.throttled_from + 1)))
            size = min(run.size, 1 if is_last_delivery else most - taken)
            if size <= 0:
                return
            self._acquire(run, size)
            taken += size
            if is_last_delivery:
                return

    def _is_last_delivery(self, run: Run) -> bool:
        """Whether this is the last delivery of its records."""
        most = self._rules.delivery_count_max
        return most >= ISOLATED_FROM and run.delivery_count == most - 1

    # Both

    def _acquire(self, run: Run, size: int) -> None:
        """So many records from the first of a run on."""
        if size < run.size:
            (run,) = self._runs.cut(run.first, run.first + size - 1)
        self._runs.move(run, RecordState.ACQUIRED)
        run.delivery_count += 1
        run.member_id = self._member_id
        run.lock_until_ms = self._lock_until_ms
        self._left -= size
        self.acquired.append(Acquired(run.first, run.last, run.delivery_count))

    def archive_invisible(self) -> None:
        """Archive what was acquired of aborted transactions."""
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
    """What is piece in front of a batch and behind it."""
    if piece.first < batch.first:
        yield piece._replace(last=min(piece.last, batch.first - 1))
    if piece.last > batch.last:
        yield piece._replace(first=max(piece.first, batch.last + 1))
