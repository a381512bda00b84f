"""A bounded backward reader of records for the message browser, newest first.

A log can only be read forwards. Therefore a partition is read in windows, the last one first, and each window is shown
in reverse. The log's index gives the size of a window in advance. Partitions take turns and a page is sorted by time:
over several pages each partition is in order, and all together are roughly in order.
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

# The offsets of a window. Each window of a partition has twice as many as the last one.
WINDOW_OFFSETS_MIN, WINDOW_OFFSETS_MAX = 32, 1024
# The bytes of a window's batches, unless it has a single one.
WINDOW_BYTES_MAX = 1 << 20
# The windows of a page: a compacted log can have few records in many offsets.
WINDOWS_MAX = 64


@attrs.define
class _Window:
    """The range of offsets that is being read.

    Attributes:
        start, end: the range; `end` is exclusive.
        next_offset: the offset of the next step.
        records: matching records in order of offset.
    """

    partition: int
    start: int
    end: int
    next_offset: int
    records: list[dict[str, Any]] = attrs.field(factory=list)
    examined: int = 0
    passed_over: int = 0


class NewestFirstReader(Reader):
    """A backward reader of one page; its methods are used like those of `PageReader`.

    `Page.positions` are the exclusive end offsets of the next page. `Page.is_at_end` means that all partitions were
    read back to their starts.

    Args:
        logs, wanted, limit, show: see Reader.
        ends: the exclusive end offset by partition; the high watermark for missing ones.
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
        # A filter that matches rarely needs larger windows.
        self._reach[partition] = min(2 * reach, WINDOW_OFFSETS_MAX)
        end = page.positions[partition]
        start = _start_of(self._logs[partition], end, reach)
        return _Window(partition, start, end, start)

    def _work_of(self, window: _Window) -> Steps[Chunk] | None:
        log = self._logs[window.partition]
        offset = max(window.next_offset, log.log_start_offset)
        if offset >= min(window.end, log.high_watermark):
            return None
        all_of_it = (WINDOW_OFFSETS_MAX, WINDOW_OFFSETS_MAX, SHOWN_BYTES_MAX)
        return self._step(window.partition, offset, all_of_it, window.end)

    def take(self, partition: int, chunk: Chunk) -> None:
        window = self._window
        assert window is not None, "`next_work` returned work"
        assert window.partition == partition, "one window is read at a time"
        self._note(chunk)
        if chunk.next_offset <= window.next_offset:
            self._show(window)  # the records were deleted before they were read
            return
        window.next_offset = chunk.next_offset
        window.examined += chunk.examined
        window.passed_over += chunk.passed_over
        window.records = [*window.records, *chunk.records][-self._limit :]

    def _show(self, window: _Window) -> None:
        """Add the newest records of a complete window to the page, and set the end of the next window."""
        page, position = self.page, window.end
        for record in reversed(window.records):
            if len(page.records) >= self._limit or page.size_bytes >= SHOWN_BYTES_MAX:
                break
            page.records.append(record)
            page.size_bytes += len(json.dumps(record))
            position = int(record["offset"])
        else:
            if len(window.records) < self._limit:  # otherwise `take` has dropped older records
                position = window.start
        page.positions[window.partition] = position
        page.examined += window.examined
        page.passed_over += window.passed_over
        self._window = None


def _start_of(log: PartitionLog, end: int, reach: int) -> int:
    """Return the start of a window that ends before `end`.

    It is as early as the bounds allow, and at least one offset before `end`.
    """
    bytes_max = log.bytes_available(end) + WINDOW_BYTES_MAX
    starts = range(max(log.log_start_offset, end - reach), end - 1)
    # Bytes grow with the distance to `end`: find the first start with few enough.
    return starts.start + bisect.bisect_left(starts, True, key=lambda start: log.bytes_available(start) <= bytes_max)
