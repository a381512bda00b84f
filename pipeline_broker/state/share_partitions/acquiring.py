"""Which records a fetch acquires of those that were read.

Rules of this file: Kafka's. The limit of records is soft in batch-optimised mode: it is rounded up to the end of the
log's batch that it lies in, because that is what the member gets anyhow. What was delivered often is handed out in
ever smaller parts, and alone before its last delivery, so that one bad record does not take its neighbours with it.
Batches that the group may not see are archived on the way.
"""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from pipeline_broker.state.share_partitions.messages import Acquired, AcquireMode, DeliveryRules, FetchedBatch, Wanted
from pipeline_broker.state.share_partitions.record_state import RecordState
from pipeline_broker.state.share_partitions.runs import Run, Runs

__all__ = ["acquire_runs"]

ISOLATED_FROM = 3
"""With fewer deliveries than this in all, no record is delivered alone."""


def acquire_runs(
    runs: Runs,
    start_offset: int,
    rules: DeliveryRules,
    member_id: str,
    read_from: int,
    batches: Sequence[FetchedBatch],
    wanted: Wanted,
    now_ms: int,
) -> list[Acquired]:
    """Acquire; see SharePartition.acquire."""
    end = runs.last if runs else start_offset - 1
    records_max, last = wanted.records_max, batches[-1].last
    room = rules.record_locks_max - (end - start_offset + 1)
    if room > 0:
        records_max = min(records_max, room)
    elif read_from <= end:  # the window is full; what came back in the middle of it can still be acquired
        records_max, last = min(records_max, end - read_from + 1), min(last, end)
    else:
        return []
    acquiring = _Acquiring(runs, start_offset, rules, member_id, wanted, now_ms, records_max)
    for batch in batches:
        first = max(batch.first, start_offset, read_from)
        if first > last or acquiring.is_done:
            break
        if first <= batch.last:
            acquiring.batch(first, min(batch.last, last), is_visible=batch.is_visible)
    runs.drop_unused(end)
    return acquiring.told()


@attrs.define
class _Acquiring:
    """One acquisition on its way through the batches.

    Attributes:
        is_done: nothing more is acquired.
    """

    _runs: Runs
    _start_offset: int
    _rules: DeliveryRules
    _member_id: str
    _wanted: Wanted
    _now_ms: int
    _left: int
    is_done: bool = False
    _pieces: list[Acquired] = attrs.Factory(list)

    def batch(self, first: int, last: int, *, is_visible: bool) -> None:
        """What can be acquired of one batch."""
        gap = self._runs.last + 1 if self._runs else self._start_offset
        if gap < first:  # the log has no records there
            self._runs.append(Run(gap, first - 1, RecordState.ARCHIVED, 0))
            gap = first
        if gap <= last:
            self._runs.append(Run(gap, last, RecordState.AVAILABLE, 0))
        for run in self._runs.cut(first, last):
            if run.state is not RecordState.AVAILABLE:
                continue
            if not is_visible:
                self._runs.move(run, RecordState.ARCHIVED)
            elif not self.is_done:
                self._take(run)
        self._runs.join(first, last)

    def _take(self, run: Run) -> None:
        """Acquire a run or, if there is reason, only its beginning."""
        size = run.size
        if self._wanted.mode is AcquireMode.RECORD_LIMIT:
            size = min(size, self._left)
        throttled_max = self._throttled_max(run)
        if throttled_max is not None:
            self.is_done = True
            if self._pieces:
                return
            size = min(size, throttled_max)
        if size < run.size:
            (run,) = self._runs.cut(run.first, run.first + size - 1)
        self._runs.move(run, RecordState.ACQUIRED)
        run.delivery_count += 1
        run.member_id = self._member_id
        run.lock_until_ms = self._now_ms + self._rules.lock_duration_ms
        self._pieces.append(Acquired(run.first, run.last, run.delivery_count))
        self._left -= size
        self.is_done = self.is_done or self._left <= 0

    def _throttled_max(self, run: Run) -> int | None:
        """How many records of a run that was delivered often are handed out; None where that does not matter."""
        count, most = run.delivery_count, self._rules.delivery_count_max
        if most >= ISOLATED_FROM and count == most - 1:
            return 1
        above = count - self._rules.throttled_from
        return None if above < 0 else max(1, run.size >> (above + 1))

    def told(self) -> list[Acquired]:
        """What was acquired; neighbours are told as one, in batch-optimised mode until there are enough."""
        joined: list[Acquired] = []
        for piece in self._pieces:
            last = joined[-1] if joined else None
            if last is not None and self._may_join(last, piece):
                joined[-1] = last._replace(last=piece.last)
            else:
                joined.append(piece)
        return joined

    def _may_join(self, told: Acquired, piece: Acquired) -> bool:
        """Whether a piece is told together with the one in front of it."""
        if (told.last + 1, told.delivery_count) != (piece.first, piece.delivery_count):
            return False
        is_exact = self._wanted.mode is AcquireMode.RECORD_LIMIT
        return is_exact or told.last - told.first + 1 < self._wanted.batch_size
