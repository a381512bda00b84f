"""A bounded forward reader of records for the message browser.

Each step has two halves. The event loop, where the log lives, finds data in memory. A thread does the rest in small
steps: disk reads, decompression and filters. A page is bounded in records and bytes; the next page continues at its
`positions`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import attrs

from pipeline_broker.base.buffer import Buffer
from pipeline_broker.base.steps import Steps
from pipeline_broker.dashboard.record_filter import RecordFilter
from pipeline_broker.dashboard.record_view import Show, record_view
from pipeline_broker.log.archive.pace import Pace
from pipeline_broker.log.partition.partition_log import PartitionLog
from pipeline_broker.records.batch import BatchHeader, iterate_batches
from pipeline_broker.records.errors import BatchTooLarge, RecordError
from pipeline_broker.records.record import Record, record_bytes, records_in

__all__ = [
    "PAGE_BYTES_MAX",
    "READ_BYTES_MAX",
    "RECORDS_EXAMINED_MAX",
    "RECORDS_PER_PAGE_MAX",
    "SHOWN_BYTES_MAX",
    "Chunk",
    "Page",
    "PageReader",
    "Reader",
    "chunk_of",
]

OFFSET_MAX = 2**63 - 1
# Between two steps, other viewers can use the thread.
RECORDS_PER_STEP = 64
RECORDS_PER_PAGE_MAX = 100
RECORDS_EXAMINED_MAX = 5_000
# Bytes of a step, unless a single batch is larger.
READ_BYTES_MAX = 256 * 1024
# Bytes of batches that a page reads. The last step can exceed it.
PAGE_BYTES_MAX = 4 << 20
"""Bytes that a page of records reads."""
# Bytes of decompressed records that a page reads: a batch of 1 KB can hold 16 MiB.
PAGE_UNPACKED_BYTES_MAX = 32 << 20
"""Decompressed bytes of a page of records."""
# A batch that is larger after decompression is skipped and counted in `passed_over`.
BATCH_BYTES_MAX = 16 << 20
# A batch with more records is skipped too: 1 MB can hold 10 million, and each page would walk over all of them.
BATCH_RECORDS_MAX = 50_000
"""Records of a batch on a page. Larger batches are skipped and counted."""
# Records that a page walks over, including those before its start: 2 microseconds each.
PAGE_RECORDS_WALKED_MAX = 100_000
"""Records that a page reads."""
# JSON bytes of the records of a page.
SHOWN_BYTES_MAX = 512 * 1024


@attrs.define
class Page:
    """The records of a page and its progress.

    Attributes:
        positions: the next offset by partition.
        records: from `record_view`, in order of offset within each partition.
        examined: the number of records that were compared with the filter.
        passed_over: the number of batches that could not be read, and of values that are too large for the filter.
        is_at_end: whether all partitions were read to their ends.
        size_bytes: the JSON size of the records.
    """

    positions: dict[int, int]
    records: list[dict[str, Any]] = attrs.field(factory=list)
    examined: int = 0
    passed_over: int = 0
    is_at_end: bool = False
    size_bytes: int = 0

    def as_json(self) -> dict[str, Any]:
        return {
            "records": self.records,
            "positions": {str(partition): offset for partition, offset in self.positions.items()},
            "examined": self.examined,
            "passed_over": self.passed_over,
            "at_end": self.is_at_end,
        }


@attrs.define
class Chunk:
    """The result of a step.

    Attributes:
        records: the matching records.
        next_offset: the offset of the next step.
        examined, passed_over: as in `Page`.
        read_bytes: the size of the read batches.
        unpacked_bytes: the size of compressed batches after decompression; BATCH_BYTES_MAX for one that failed.
        walked: the number of decoded records, including those before the offset of the step.
    """

    records: list[dict[str, Any]]
    next_offset: int
    examined: int
    passed_over: int
    read_bytes: int
    unpacked_bytes: int = 0
    walked: int = 0


class Reader:
    """The common part of the forward and the backward reader: bounds and steps.

    Args:
        logs: by partition.
        positions: positions of the page at its start.
        wanted: the filter of records.
        limit: the number of records, at most RECORDS_PER_PAGE_MAX.
        show: converts a record to JSON.
    """

    def __init__(
        self,
        logs: Mapping[int, PartitionLog],
        positions: dict[int, int],
        wanted: RecordFilter,
        limit: int,
        show: Show,
    ) -> None:
        self._logs, self._view = logs, show
        self._wanted = wanted
        self._limit = max(1, min(limit, RECORDS_PER_PAGE_MAX))
        self._turn = 0
        self._read_bytes = self._unpacked_bytes = self._walked = 0
        self.page = Page(positions)

    def _step(
        self, partition: int, offset: int, bounds: tuple[int, int, int], end: int = OFFSET_MAX
    ) -> Steps[Chunk] | None:
        result = self._logs[partition].read(offset, READ_BYTES_MAX, at_least_one=True)
        if not result.parts and result.cold is None:
            return None

        unpacked_max = PAGE_UNPACKED_BYTES_MAX - self._unpacked_bytes

        def work() -> Steps[Chunk]:
            parts = result.parts if result.cold is None else result.cold()
            yield
            return (
                yield from chunk_of(
                    partition, parts, offset, self._wanted, bounds, end, show=self._view, unpacked_max=unpacked_max
                )
            )

        return work()

    def _note(self, chunk: Chunk) -> None:
        self._read_bytes += chunk.read_bytes
        self._unpacked_bytes += chunk.unpacked_bytes
        self._walked += chunk.walked

    @property
    def _is_enough(self) -> bool:
        page = self.page
        return (
            len(page.records) >= self._limit
            or page.examined >= RECORDS_EXAMINED_MAX
            or self._read_bytes >= PAGE_BYTES_MAX
            or self._unpacked_bytes >= PAGE_UNPACKED_BYTES_MAX
            or self._walked >= PAGE_RECORDS_WALKED_MAX
            or page.size_bytes >= SHOWN_BYTES_MAX
        )


class PageReader(Reader):
    """A forward reader of one page.

    Call `next_work` on the event loop, run its steps in a thread, and `take` the result.

    Args:
        logs, wanted, limit, show: see Reader.
        positions: the start offset by partition; the log start replaces an earlier one.
    """

    def __init__(
        self,
        logs: Mapping[int, PartitionLog],
        positions: Mapping[int, int],
        wanted: RecordFilter,
        limit: int,
        show: Show = record_view,
    ) -> None:
        super().__init__(logs, {number: max(0, positions.get(number, 0)) for number in logs}, wanted, limit, show)
        self._ended: set[int] = set()

    def next_work(self) -> tuple[int, Steps[Chunk]] | None:
        """Return the next partition and its work, or None once the page is complete.

        Raises:
            LogError: the next offset of a partition cannot be read.
        """
        if self._is_enough:
            return None
        partitions = list(self._logs)
        while len(self._ended) < len(partitions):
            partition = partitions[self._turn % len(partitions)]
            self._turn += 1
            if partition in self._ended:
                continue
            work = self._work_of(partition)
            if work is not None:
                return partition, work
            self._ended.add(partition)
        self.page.is_at_end = True
        return None

    def _work_of(self, partition: int) -> Steps[Chunk] | None:
        log = self._logs[partition]
        offset = max(self.page.positions[partition], log.log_start_offset)
        self.page.positions[partition] = offset
        if offset >= log.high_watermark:
            return None
        page = self.page
        left = self._limit - len(page.records), RECORDS_EXAMINED_MAX - page.examined, SHOWN_BYTES_MAX - page.size_bytes
        return self._step(partition, offset, left)

    def take(self, partition: int, chunk: Chunk) -> None:
        page = self.page
        if chunk.next_offset <= page.positions[partition]:
            self._ended.add(partition)  # the records were deleted before they were read
            return
        page.positions[partition] = chunk.next_offset
        page.records += chunk.records
        page.examined += chunk.examined
        page.passed_over += chunk.passed_over
        page.size_bytes += sum(len(json.dumps(record)) for record in chunk.records)
        self._note(chunk)


def chunk_of(
    partition: int,
    parts: Sequence[Buffer],
    offset: int,
    wanted: RecordFilter,
    bounds: tuple[int, int, int],
    end: int = OFFSET_MAX,
    *,
    show: Show = record_view,
    unpacked_max: int = PAGE_UNPACKED_BYTES_MAX,
) -> Steps[Chunk]:
    """Decode and filter the records of a step, in a thread.

    Args:
        parts: consecutive bytes of batches.
        offset: records before it are skipped.
        bounds: the largest number of matching records, of examined records, and of JSON bytes.
        end: records starting at this offset are omitted.
        show: converts a record to JSON.
        unpacked_max: the largest number of decompressed bytes, unless a single batch has more.
    """
    count_max, examined_max, shown_max = bounds
    found = Chunk([], offset, 0, 0, sum(map(len, parts)))
    pace, shown_bytes = Pace(), 0
    for header, batch in _batches(parts):
        if found.unpacked_bytes >= unpacked_max:
            return found
        try:
            for record in _records(header, batch, found):
                found.walked += 1
                pace()
                if found.walked % RECORDS_PER_STEP == 0:
                    yield
                if record.offset < found.next_offset:
                    continue
                if record.offset >= end:
                    break
                if len(found.records) >= count_max or found.examined >= examined_max or shown_bytes >= shown_max:
                    return found
                found.examined += 1
                found.passed_over += wanted.is_too_large(record)
                found.next_offset = record.offset + 1
                if wanted.matches(record):
                    shown = show(partition, record)
                    shown_bytes += len(json.dumps(shown))
                    found.records.append(shown)
        except RecordError:
            found.passed_over += 1
        yield
        # Compaction can remove the last records of a batch, so continue after its last offset.
        found.next_offset = min(end, max(found.next_offset, header.last_offset + 1))
    return found


def _batches(parts: Sequence[Buffer]) -> Sequence[tuple[BatchHeader, memoryview]]:
    # A large batch can span several parts.
    whole = parts[0] if len(parts) == 1 else b"".join(parts)
    return list(iterate_batches(whole))


def _records(header: BatchHeader, batch: memoryview, found: Chunk) -> Iterator[Record]:
    # Clients did not write the records of a control batch.
    if header.is_control:
        return iter(())
    if header.record_count > BATCH_RECORDS_MAX:
        raise BatchTooLarge(f"it has {header.record_count} records")
    # Charge the limit first: a batch that fails to decompress has cost that much.
    found.unpacked_bytes += BATCH_BYTES_MAX if header.compression else 0
    data = record_bytes(batch, header, BATCH_BYTES_MAX)
    found.unpacked_bytes += len(data) - BATCH_BYTES_MAX if header.compression else 0
    return records_in(data, header)
