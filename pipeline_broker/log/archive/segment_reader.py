"""Verified reads of archived segments: by offset, by timestamp and in sequence."""

import contextlib
import threading
from collections import OrderedDict
from collections.abc import Iterator
from typing import NamedTuple

from pipeline_broker.base.buffer import Buffer
from pipeline_broker.log.archive.damage import DamageRecord, SegmentKey, segment_key
from pipeline_broker.log.archive.index_cache import INDEX_CACHE_BYTES_MAX, IndexCache
from pipeline_broker.log.archive.segment_file import (
    Fetch,
    NotInMemory,
    SegmentInfo,
    fetched,
    log_name,
    not_whole,
    read_batches,
    transaction_index_name,
    verified_batches,
)
from pipeline_broker.log.archive.segment_index import SegmentIndex
from pipeline_broker.log.archive.store import SegmentStore
from pipeline_broker.log.archive.verified_batches import BATCH_BYTES_MIN, VerifiedBatch, VerifiedBatches
from pipeline_broker.log.errors import DamagedSegment, SegmentGone
from pipeline_broker.log.read_result import (
    BATCHES_PER_READ,
    BYTES_PER_READ,
    SPAN_BYTES_MAX,
    ColdRead,
    LentBatches,
    ReadResult,
    TimestampedOffset,
)
from pipeline_broker.records.batch import BatchHeader
from pipeline_broker.records.checksum import crc32c
from pipeline_broker.records.record import iterate_records

READ_AHEAD_BYTES = 2 * BYTES_PER_READ  # for sequential reads: the current one and the next
LENT_BYTES_MIN = 64 << 10  # a copy of fewer bytes is cheaper than one more system call
SEQUENCES_MAX = 1024  # remembered end positions of reads
SEARCH_WINDOW_BYTES = 16 << 10  # a search by timestamp usually ends within this distance of its start
SEARCH_BYTES_MAX = 1 << 20  # limit of a search on the event loop; a thread continues longer ones


class _Wanted(NamedTuple):
    """The arguments of a read. `place` is the position of the first batch, if known."""

    folder: str
    segment: SegmentInfo
    offset: int
    bytes_max: int
    at_least_one: bool
    place: int | None

    @property
    def name(self) -> str:
        return log_name(self.folder, self.segment.base_offset, self.segment.cleanings)

    @property
    def key(self) -> SegmentKey:
        return segment_key(self.folder, self.segment)

    def start(self, index: SegmentIndex) -> int:
        return index.floor(self.offset) if self.place is None else self.place

    def stop(self, index: SegmentIndex, end: int) -> int:
        if self.place is None:
            ceiling = index.ceiling(self.offset)
            stop = ceiling + self.bytes_max
        else:
            ceiling = self.place
            stop = index.reach(ceiling, self.bytes_max)
        if self.at_least_one:
            stop = max(stop, index.boundary(ceiling, 0))
        return min(stop, end)


class _Run:
    __slots__ = ("_wanted", "count", "end", "found", "is_full", "next_offset", "parts", "size_bytes", "verified")

    def __init__(self, wanted: _Wanted) -> None:
        self._wanted = wanted
        self.parts: list[Buffer] = []
        self.verified: list[VerifiedBatch] = []
        self.size_bytes = 0
        self.count = 0
        self.found = False  # whether the first wanted batch was seen
        self.is_full = False
        self.next_offset: int | None = None
        self.end: int  # file position of the batch with the next offset

    def take(self, view: memoryview, position: int, batches: Iterator[tuple[BatchHeader, int, int]]) -> int:
        """Keep the wanted batches of `view`, which lies at `position`.

        Returns the end of the last batch that was kept or skipped.
        """
        offset, bytes_max = self._wanted.offset, self._wanted.bytes_max
        first = done = 0
        try:
            for header, start, end in batches:
                last_offset = header.last_offset
                if last_offset >= offset:
                    size = self.size_bytes + end - start
                    if not self.found:
                        self.found, first = True, start
                        is_wanted = size <= bytes_max or self._wanted.at_least_one
                    else:
                        is_wanted = size <= bytes_max and self.count < BATCHES_PER_READ
                    if not is_wanted:
                        self.is_full = True
                        break
                    self.size_bytes = size
                    if end - start >= BATCH_BYTES_MIN:
                        self.verified.append(
                            VerifiedBatch(header.base_offset, position + start, position + end, last_offset + 1)
                        )
                else:
                    first = end
                self.next_offset = last_offset + 1
                self.count += 1
                done = end
        # A damaged batch ends the iteration. The intact ones before it are returned.
        finally:
            if done > first:
                self.parts.append(view[first:done])
            self.end = position + done
        return done


def _collect(wanted: _Wanted, index: SegmentIndex, end: int, fetch: Fetch) -> _Run:
    """Read up to the limits of `wanted`, or up to the first unreadable batch; raise if that is the first wanted one."""
    segment, folder, name = wanted.segment, wanted.folder, wanted.name
    run = _Run(wanted)
    position, stop = wanted.start(index), wanted.stop(index, end)
    expected = (None if position else segment.base_offset) if wanted.place is None else wanted.offset
    try:
        while position < stop:
            boundary = min(index.boundary(position, SPAN_BYTES_MAX), end)
            size = min(boundary, stop) - position
            view = fetched(fetch, name, size, position)
            done = run.take(view, position, verified_batches(view, position, segment, folder, expected, index))
            if run.is_full:
                break
            if position + size == boundary or len(view) < size:
                _check_whole(view, done, size, name, position, run.next_offset)
            position += size
            expected = run.next_offset
            if run.found:
                stop = min(stop, index.reach(position, wanted.bytes_max - run.size_bytes))
    except (DamagedSegment, NotInMemory):
        if not run.parts:
            raise
    return run


def _check_whole(view: memoryview, done: int, size_bytes: int, name: str, position: int, expected: int | None) -> None:
    if done < size_bytes:
        raise not_whole(name, position + done, expected, is_short=len(view) < size_bytes)


class _Sequences:
    """End positions of recent reads. A read that starts where another ended needs no index lookup."""

    def __init__(self) -> None:
        self._ends: OrderedDict[tuple[SegmentKey, int], int] = OrderedDict()
        self._lock = threading.Lock()

    def ended(self, key: SegmentKey, next_offset: int, place: int) -> None:
        with self._lock:
            self._ends[key, next_offset] = place
            if len(self._ends) > SEQUENCES_MAX:
                self._ends.popitem(last=False)

    def take(self, key: SegmentKey, offset: int) -> int | None:
        """Return and forget the position of the batch with this offset. A second reader has to use the index."""
        with self._lock:
            return self._ends.pop((key, offset), None)


class SegmentReader:
    """A reader of the segments of one store, for any thread. Only `batches` and the work of a ColdRead wait for a disk.

    No batch is returned unverified, and none after damage. Only reads that may wait declare damage. A read on the event
    loop that finds something wrong hands over to one, so cached bytes are judged once.
    """

    def __init__(self, store: SegmentStore, index_bytes_max: int = INDEX_CACHE_BYTES_MAX) -> None:
        self._store = store
        self._damage = DamageRecord()
        self._indexes = IndexCache(store, self._damage, index_bytes_max)
        self._verified = VerifiedBatches()
        self._sequences = _Sequences()

    def read(self, folder: str, segment: SegmentInfo, offset: int, bytes_max: int, *, at_least_one: bool) -> ReadResult:
        """Read whole batches, starting with the first one that ends at or above `offset`.

        Fewer batches than requested do not mean the end of the segment.

        Args:
            segment: metadata. Nothing above its last offset is returned.
            offset: offset of the first wanted record.
            bytes_max: limit on the size of all batches.
            at_least_one: return the first batch even if it is larger than `bytes_max`.

        Returns:
            the batches, or a ColdRead. The ColdRead raises DamagedSegment if the first batch is unreadable, and
            SegmentGone if the segment was deleted or replaced. Empty above the last offset of the segment.
        """
        if offset > segment.last_offset:
            return ReadResult()
        place = self._sequences.take(segment_key(folder, segment), offset)
        wanted = _Wanted(folder, segment, offset, min(bytes_max, BYTES_PER_READ), at_least_one, place)
        size_bytes = min(wanted.bytes_max, segment.size_bytes)
        index = self._indexes.find(folder, segment)
        if index is not None:
            parts = self._read_now(wanted, index)
            if parts is not None:
                return ReadResult(parts)
            size_bytes = wanted.stop(index, segment.size_bytes) - wanted.start(index)
        return ReadResult(cold=ColdRead(lambda: self._read_cold(wanted), size_bytes))

    def lend(self, folder: str, segment: SegmentInfo, offset: int, bytes_max: int) -> LentBatches | None:
        """Lend the batches from the one at `offset`, if all were verified before and none was damaged since.

        Returns None if the batches must be read, or are few.
        """
        key = segment_key(folder, segment)
        run = self._verified.find(key, offset, min(bytes_max, BYTES_PER_READ), segment.last_offset)
        if run is None or run.size_bytes < LENT_BYTES_MIN:
            return None
        # A damaged segment is served up to its damage; that is left to reads, which verify.
        if self._damage.find(key) is not None or self._damage.is_gone(key):
            return None
        lent = self._store.lend(log_name(folder, segment.base_offset, segment.cleanings), run.size_bytes, run.start)
        if lent is None:
            return None
        self._sequences.ended(key, run.end_offset, run.start + run.size_bytes)
        return LentBatches(lent, run.end_offset)

    def _read_now(self, wanted: _Wanted, index: SegmentIndex) -> list[Buffer] | None:
        """Return the batches; None if bytes are not in memory, or look damaged."""
        try:
            return self._read_batches(wanted, index, self._store.read_cached)
        except (DamagedSegment, NotInMemory):
            return None

    def _read_cold(self, wanted: _Wanted) -> list[Buffer]:
        folder, segment = wanted.folder, wanted.segment
        with self._judged(folder, segment):
            index = self._indexes.load(folder, segment)
            start = wanted.start(index)
            # A read from the start, or one that continues another, is probably sequential.
            if start == 0 or wanted.place is not None:
                self._store.read_ahead(wanted.name, min(READ_AHEAD_BYTES, segment.size_bytes - start), start)
            try:
                return self._read_batches(wanted, index, self._store.read)
            except DamagedSegment as damage:
                offset = max(damage.offset, wanted.offset)
                raise DamagedSegment(damage.name, damage.position, offset, damage.reason) from None

    def _read_batches(self, wanted: _Wanted, index: SegmentIndex, fetch: Fetch) -> list[Buffer]:
        end, damage = self._readable(wanted.folder, wanted.segment, index)
        run = _collect(wanted, index, end, fetch)
        if not run.found and wanted.stop(index, end) == end:  # searched up to the readable end
            raise damage
        if run.verified:
            self._verified.add(wanted.key, run.verified)
        if run.parts and run.next_offset is not None:
            self._sequences.ended(wanted.key, run.next_offset, run.end)
        return run.parts

    def _readable(self, folder: str, segment: SegmentInfo, index: SegmentIndex) -> tuple[int, DamagedSegment]:
        """Return the end of the readable part of the segment, and the error for reads beyond it."""
        damage = self._damage.find(segment_key(folder, segment))
        if damage is None:
            end = min(segment.size_bytes, index.size_bytes)
            name = log_name(folder, segment.base_offset, segment.cleanings)
            return end, DamagedSegment(name, end, segment.last_offset, "the last batches are missing")
        return min(damage.position, segment.size_bytes), damage

    def offset_for_timestamp(
        self, folder: str, segment: SegmentInfo, timestamp: int
    ) -> TimestampedOffset | ColdRead[TimestampedOffset | None] | None:
        """Find the first record at or after the timestamp; None without one.

        The ColdRead raises like that of `read`.
        """
        if timestamp > segment.max_timestamp:
            return None
        index = self._indexes.find(folder, segment)
        if index is not None:
            with contextlib.suppress(DamagedSegment, NotInMemory):
                return self._search(folder, segment, timestamp, index, self._store.read_cached, SEARCH_BYTES_MAX)

        def search() -> TimestampedOffset | None:
            with self._judged(folder, segment):
                index = self._indexes.load(folder, segment)
                return self._search(folder, segment, timestamp, index, self._store.read, segment.size_bytes)

        return ColdRead(search, SEARCH_WINDOW_BYTES)

    def _search(
        self, folder: str, segment: SegmentInfo, timestamp: int, index: SegmentIndex, fetch: Fetch, bytes_max: int
    ) -> TimestampedOffset | None:
        end, damage = self._readable(folder, segment, index)
        name = log_name(folder, segment.base_offset, segment.cleanings)
        position = index.search_start(timestamp)
        expected = None if position else segment.base_offset
        bytes_end = position + bytes_max
        while position < end:
            if position >= bytes_end:
                raise NotInMemory
            boundary = min(index.boundary(position, SEARCH_WINDOW_BYTES), end)
            view = fetched(fetch, name, boundary - position, position)
            done = 0
            for header, start, done in verified_batches(view, position, segment, folder, expected, index):
                expected = header.last_offset + 1
                if header.max_timestamp >= timestamp:
                    found = _first_record_since(header, view[start:done], timestamp)
                    if found is not None:  # otherwise compaction removed the record with the batch's max timestamp
                        return found
            _check_whole(view, done, boundary - position, name, position, expected)
            position = boundary
        if end < segment.size_bytes:
            raise damage
        return None

    def batches(self, folder: str, segment: SegmentInfo, position: int = 0) -> Iterator[tuple[BatchHeader, memoryview]]:
        """Yield all batches from the one at `position`. Blocks.

        Raises:
            DamagedSegment: instead of the first damaged batch.
            SegmentGone: the segment was deleted or replaced.
        """
        with self._judged(folder, segment):
            index = self._indexes.load(folder, segment)
            damage = self._damage.find(segment_key(folder, segment))
            for header, batch in read_batches(self._store, folder, segment, position, index):
                if damage is not None and position >= damage.position:
                    raise damage
                yield header, batch
                position += len(batch)

    def transaction_index(self, folder: str, segment: SegmentInfo) -> bytes | None:
        """Return the content of the file of aborted transactions; None if it is missing or damaged. Blocks."""
        name = transaction_index_name(folder, segment.base_offset, segment.cleanings)
        try:
            content = bytes(self._store.read(name, segment.aborted_bytes, 0))
        except FileNotFoundError:
            return None
        return content if (len(content), crc32c(content)) == (segment.aborted_bytes, segment.aborted_crc) else None

    @contextlib.contextmanager
    def _judged(self, folder: str, segment: SegmentInfo) -> Iterator[None]:
        """Record damage found in the body.

        Raises:
            SegmentGone: the segment was deleted or replaced in the meantime.
            DamagedSegment: the segment is damaged, or its file is missing.
        """
        try:
            yield
        except FileNotFoundError:
            name = log_name(folder, segment.base_offset, segment.cleanings)
            damage = DamagedSegment(name, 0, segment.base_offset, "the file is missing")
        except DamagedSegment as found:
            damage = found
        else:
            return
        key = segment_key(folder, segment)
        # The deletion came first, so the missing file is not damage.
        if self._damage.is_gone(key):
            raise SegmentGone(f"{damage.name} was deleted or replaced")
        self._damage.mark(key, damage)
        raise damage

    def forget(self, folder: str, segment: SegmentInfo) -> None:
        """Drop the segment's index, and let later errors of its reads raise SegmentGone.

        Call it before the files are deleted or replaced, when no further read can start.
        """
        key = segment_key(folder, segment)
        self._damage.retire(key)
        self._verified.forget(key)
        self._indexes.forget(key)

    def write_repairs(self) -> int:
        """Write rebuilt index files; return the number of written files. Only for the writing thread.

        Raises:
            OSError: the disk or the store failed.
        """
        return self._indexes.write_repairs()


def _first_record_since(header: BatchHeader, batch: memoryview, timestamp: int) -> TimestampedOffset | None:
    for record in iterate_records(batch, header):
        if record.timestamp >= timestamp:
            return TimestampedOffset(record.timestamp, record.offset, header.partition_leader_epoch)
    return None
