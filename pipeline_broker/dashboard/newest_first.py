"""A bounded backward reader of records for the message browser, newest first.

A log can only be read forwards. Therefore a partition is read in windows, the last one first, and each window is shown
in reverse. The log's index gives the size of a window in advance. The windows of several partitions are merged: the
next record of a page is the newest of those that are next in their partitions.
"""

from __future__ import annotations

import bisect
import json
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

import attrs

from pipeline_broker.base.steps import Steps
from pipeline_broker.dashboard.record_filter import RecordFilter
from pipeline_broker.dashboard.record_reader import PAGE_BYTES_MAX, SHOWN_BYTES_MAX, Chunk, Reader
from pipeline_broker.dashboard.record_view import Show, record_view
from pipeline_broker.log.partition.partition_log import PartitionLog

__all__ = ["NewestFirstReader"]

# The offsets of a window. Each window of a partition has twice as many as the last one.
WINDOW_OFFSETS_MIN, WINDOW_OFFSETS_MAX = 32, 1024
# The offsets of the first windows of all partitions, which are in memory together, unless these have less than four.
FIRST_OFFSETS_MAX = 256
# The bytes of a window's batches, unless it has a single one.
WINDOW_BYTES_MAX = 1 << 20
# The windows of a page after the first ones: a compacted log can have few records in many offsets.
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
        first = max(4, min(WINDOW_OFFSETS_MIN, FIRST_OFFSETS_MAX // max(1, len(logs))))
        self._reach = dict.fromkeys(logs, first)
        self._windows_left = len(logs) + WINDOWS_MAX
        self._window: _Window | None = None
        # Of the complete windows: records that are not on the page yet, and the position after all of them.
        self._next: dict[int, deque[dict[str, Any]]] = {number: deque() for number in logs}
        self._after: dict[int, int] = {}

    def next_work(self) -> tuple[int, Steps[Chunk]] | None:
        while True:
            window = self._window
            if window is None:
                window = self._window = self._next_window()
                if window is None:
                    return None
            work = self._work_of(window)
            if work is not None:
                return window.partition, work
            self._complete(window)

    def _next_window(self) -> _Window | None:
        unread = self._merge()
        page = self.page
        page.is_at_end = not unread and not any(self._next.values())
        if self._is_enough or not self._windows_left or not unread:
            self._merge(unread)
            return None
        partition = unread[self._turn % len(unread)]
        self._turn += 1
        self._windows_left -= 1
        reach = self._reach[partition]
        # A filter that matches rarely needs larger windows.
        self._reach[partition] = min(2 * reach, WINDOW_OFFSETS_MAX)
        end = page.positions[partition]
        start = _start_of(self._logs[partition], end, reach, min(WINDOW_BYTES_MAX, PAGE_BYTES_MAX // len(self._logs)))
        return _Window(partition, start, end, start)

    def _merge(self, left_out: Sequence[int] = ()) -> list[int]:
        """Add records of complete windows to the page, until a partition must be read or the page is full.

        Args:
            left_out: partitions that are not read any more.

        Returns:
            the partitions that must be read.
        """
        page = self.page
        unread = [number for number in self._logs if self._must_read(number) and number not in left_out]
        while not unread and len(page.records) < self._limit and page.size_bytes < SHOWN_BYTES_MAX:
            heads = [(int(each[0]["timestamp_ms"]), number) for number, each in self._next.items() if each]
            if not heads:
                break
            _, number = max(heads)
            record = self._next[number].popleft()
            page.records.append(record)
            page.size_bytes += len(json.dumps(record))
            page.positions[number] = int(record["offset"])
            if not self._next[number]:
                page.positions[number] = self._after[number]
                if self._must_read(number) and number not in left_out:
                    unread.append(number)
        return unread

    def _must_read(self, partition: int) -> bool:
        return not self._next[partition] and self.page.positions[partition] > self._logs[partition].log_start_offset

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
            self._complete(window)  # the records were deleted before they were read
            return
        window.next_offset = chunk.next_offset
        window.examined += chunk.examined
        window.passed_over += chunk.passed_over
        window.records = [*window.records, *chunk.records][-self._limit :]

    def _complete(self, window: _Window) -> None:
        page, partition = self.page, window.partition
        self._next[partition].extend(reversed(window.records))
        # A full list lacks older records of the window, which `take` has dropped.
        is_full = len(window.records) == self._limit
        self._after[partition] = int(window.records[0]["offset"]) if is_full else window.start
        if not window.records:
            page.positions[partition] = window.start
        page.examined += window.examined
        page.passed_over += window.passed_over
        self._window = None


def _start_of(log: PartitionLog, end: int, reach: int, size_bytes: int) -> int:
    """Return the start of a window that ends before `end`.

    It is as early as the bounds allow, and at least one offset before `end`.
    """
    bytes_max = log.bytes_available(end) + size_bytes
    starts = range(max(log.log_start_offset, end - reach), end - 1)
    # Bytes grow with the distance to `end`: find the first start with few enough.
    return starts.start + bisect.bisect_left(starts, True, key=lambda start: log.bytes_available(start) <= bytes_max)
