"""Reads records for the message browser from the end of each partition backwards: the newest first.

Rules of this file: as those of `record_reader`, whose steps it takes. A log is read forwards only, so a partition is
read in windows, the last one first, and what a window holds is shown in reverse. A window is bounded in offsets and in
bytes, which the log's index tells beforehand. Of several partitions each has its turn, and a page is sorted by time:
page after page each partition goes back in order, all together roughly.
"""

from __future__ import annotations

import bisect
import json
from collections.abc import Mapping
from typing import Any

import attrs

from pipeline_broker.base.steps import Steps
from pipeline_broker.dashboard.record_filter import RecordFilter
from pipeline_broker.dashboard.record_reader import SHOWN_BYTES_MAX, Chunk, Reader
from pipeline_broker.dashboard.record_view import Show, record_view
from pipeline_broker.log.partition.partition_log import PartitionLog

__all__ = ["NewestFirstReader"]

WINDOW_OFFSETS_MIN, WINDOW_OFFSETS_MAX = 32, 1024
"""How far a window reaches back: each one of a partition twice as far as the one before."""
WINDOW_BYTES_MAX = 1 << 20
"""Of the batches of a window, unless it has one only."""
WINDOWS_MAX = 64
"""Of one page: a compacted log may have few records in many offsets."""


@attrs.define
class _Window:
    """The offsets of a partition that are read now.

    Attributes:
        next_offset: what was read ends there.
        records: those wanted, in order of their offsets.
    """

    partition: int
    start: int
    end: int
    next_offset: int
    records: list[dict[str, Any]] = attrs.field(factory=list)
    examined: int = 0
    passed_over: int = 0


class NewestFirstReader(Reader):
    """Reads one page; see `PageReader`, which has the same methods.

    `Page.positions` are where the next page ends in each partition, and `Page.is_at_end` says that all partitions were
    read back to their starts.

    Args:
        logs, wanted, limit, show: see Reader.
        ends: in front of which offset to read in each partition; of others from their ends.
    """

    def __init__(
        self,
        logs: Mapping[int, PartitionLog],
        ends: Mapping[int, int],
        wanted: RecordFilter,
        limit: int,
        show: Show = record_view,
    ) -> None:
        ends = {number: min(ends.get(number, log.high_watermark), log.high_watermark) for number, log in logs.items()}
        super().__init__(logs, ends, wanted, limit, show)
        self._reach = dict.fromkeys(logs, WINDOW_OFFSETS_MIN)
        self._windows = 0
        self._window: _Window | None = None

    def next_work(self) -> tuple[int, Steps[Chunk]] | None:
        """The partition that is read next, and the work; None when the page is complete."""
        while True:
            window = self._window
            if window is None:
                window = self._window = self._next_window()
                if window is None:
                    if len(self._logs) > 1:
                        self.page.records.sort(key=lambda record: -int(record["timestamp_ms"]))
                    return None
            work = self._work_of(window)
            if work is not None:
                return window.partition, work
            self._show(window)

    def _next_window(self) -> _Window | None:
        page = self.page
        partitions = [number for number, log in self._logs.items() if page.positions[number] > log.log_start_offset]
        page.is_at_end = not partitions
        if self._is_enough or self._windows >= WINDOWS_MAX or not partitions:
            return None
        partition = partitions[self._turn % len(partitions)]
        self._turn += 1
        self._windows += 1
        reach = self._reach[partition]
        self._reach[partition] = min(2 * reach, WINDOW_OFFSETS_MAX)
        end = page.positions[partition]
        start = _start_of(self._logs[partition], end, reach)
        return _Window(partition, start, end, start)

    def _work_of(self, window: _Window) -> Steps[Chunk] | None:
        """The next step in a window; None at its end. Raises LogError where the log cannot be read."""
        log = self._logs[window.partition]
        offset = max(window.next_offset, log.log_start_offset)
        if offset >= min(window.end, log.high_watermark):
            return None
        all_of_it = (WINDOW_OFFSETS_MAX, WINDOW_OFFSETS_MAX, SHOWN_BYTES_MAX)
        return self._step(window.partition, offset, all_of_it, window.end)

    def take(self, partition: int, chunk: Chunk) -> None:
        """Take in what the work has found."""
        window = self._window
        assert window is not None, "asked for"
        assert window.partition == partition, "one window is read at a time"
        self._note(chunk)
        if chunk.next_offset <= window.next_offset:
            self._show(window)  # nothing came: what was there is gone meanwhile
            return
        window.next_offset = chunk.next_offset
        window.examined += chunk.examined
        window.passed_over += chunk.passed_over
        window.records = [*window.records, *chunk.records][-self._limit :]

    def _show(self, window: _Window) -> None:
        """End a window: show the newest records of it that there is room for; the next page ends at the last."""
        page, position = self.page, window.end
        for record in reversed(window.records):
            if len(page.records) >= self._limit or page.size_bytes >= SHOWN_BYTES_MAX:
                break
            page.records.append(record)
            page.size_bytes += len(json.dumps(record))
            position = int(record["offset"])
        else:
            if len(window.records) < self._limit:  # else older ones were left out
                position = window.start
        page.positions[window.partition] = position
        page.examined += window.examined
        page.passed_over += window.passed_over
        self._window = None


def _start_of(log: PartitionLog, end: int, reach: int) -> int:
    """Where a window begins that ends in front of an offset: as far back as may be, and at least an offset."""
    bytes_max = log.bytes_available(end) + WINDOW_BYTES_MAX
    starts = range(max(log.log_start_offset, end - reach), end - 1)
    # the further back, the more bytes: the first start with few enough of them
    return starts.start + bisect.bisect_left(starts, True, key=lambda start: log.bytes_available(start) <= bytes_max)
