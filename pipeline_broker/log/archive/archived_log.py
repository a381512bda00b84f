"""The archived part of a partition log, for readers."""

from __future__ import annotations

from bisect import bisect_left
from itertools import accumulate

from pipeline_broker.log.archive.manifest import PartitionManifest
from pipeline_broker.log.archive.segment_file import SegmentInfo
from pipeline_broker.log.archive.segment_reader import SEARCH_WINDOW_BYTES, SegmentReader
from pipeline_broker.log.archive.transaction_index import aborted_in
from pipeline_broker.log.producers.aborted_transactions import AbortedTransaction
from pipeline_broker.log.read_result import ColdRead, LentBatches, ReadResult, TimestampedOffset
from pipeline_broker.records.record import iterate_records

__all__ = ["ArchivedLog"]


class ArchivedLog:
    """The archived part of one partition, as of one manifest.

    Belongs to the event loop, which replaces it when an edit is durable. Nothing here waits for a disk: reads that must
    wait are returned as ColdRead. A read in progress keeps the manifest that it started with.
    """

    __slots__ = ("_last_offsets", "_reader", "_timestamps", "end_offset", "manifest", "size_bytes")

    def __init__(self, reader: SegmentReader, manifest: PartitionManifest) -> None:
        self._reader = reader
        self.manifest = manifest
        self.end_offset = manifest.end_offset
        self.size_bytes = manifest.size_bytes
        self._last_offsets = [segment.last_offset for segment in manifest.segments]
        self._timestamps = list(accumulate((segment.max_timestamp for segment in manifest.segments), max))

    @property
    def max_timestamp(self) -> int:
        return self._timestamps[-1] if self._timestamps else -1

    def _place(self, offset: int) -> int:
        """Return the index of the segment that holds the offset, or of the next one."""
        return bisect_left(self._last_offsets, offset)

    def bytes_from(self, offset: int) -> int:
        """Estimate the bytes of batches from an offset; 0 if nothing at or above it is archived.

        Within a segment, all records count as equally large.
        """
        segments = self.manifest.segments
        place = self._place(offset)
        if place == len(segments):
            return 0
        first = segments[place]
        offsets = first.last_offset + 1 - first.base_offset
        share = first.size_bytes * (first.last_offset + 1 - max(offset, first.base_offset)) // offsets
        return max(1, share) + sum(segment.size_bytes for segment in segments[place + 1 :])

    def read(self, offset: int, bytes_max: int, *, at_least_one: bool) -> ReadResult | None:
        """Read whole batches from an offset; return None if nothing at or above it is archived."""
        place = self._place(offset)
        if place == len(self.manifest.segments):
            return None
        segment = self.manifest.segments[place]
        return self._reader.read(self.manifest.folder, segment, offset, bytes_max, at_least_one=at_least_one)

    def lend(self, offset: int, bytes_max: int) -> LentBatches | None:
        """Lend verified batches from an offset; None if they must be read."""
        place = self._place(offset)
        if place == len(self.manifest.segments):
            return None
        return self._reader.lend(self.manifest.folder, self.manifest.segments[place], offset, bytes_max)

    def offset_for_timestamp(
        self, timestamp: int, start_offset: int
    ) -> TimestampedOffset | ColdRead[TimestampedOffset | None] | None:
        """Find the first record at or after the timestamp and at or above `start_offset`; None without one."""
        place = bisect_left(self._timestamps, timestamp)
        if place == len(self._timestamps):
            return None
        segment = self.manifest.segments[place]
        # The time index may point below the start offset, so this segment is scanned.
        if segment.base_offset < start_offset:
            return ColdRead(lambda: self._search_from(start_offset, timestamp), segment.size_bytes)
        search = self._reader.offset_for_timestamp(self.manifest.folder, segment, timestamp)
        if isinstance(search, TimestampedOffset):
            return search

        def work() -> TimestampedOffset | None:
            found = None if search is None else search()
            # The segment's largest timestamp may be of a record that compaction removed. Then continue after it.
            return self._search_from(segment.last_offset + 1, timestamp) if found is None else found

        return ColdRead(work, SEARCH_WINDOW_BYTES)

    def aborted_transactions(self, offset: int, end_offset: int) -> ColdRead[list[AbortedTransaction]] | None:
        """Find the aborted transactions that a read_committed consumer of these offsets must know.

        They have a record below `end_offset` and their marker at or above `offset`. Returns None if no segment from
        `offset` has aborted transactions.
        """
        segments = [each for each in self.manifest.segments[self._place(offset) :] if each.aborted_bytes]
        if not segments:
            return None
        return ColdRead(lambda: self._aborted(segments, offset, end_offset), sum(it.aborted_bytes for it in segments))

    def _aborted(self, segments: list[SegmentInfo], offset: int, end_offset: int) -> list[AbortedTransaction]:
        found: list[AbortedTransaction] = []
        for segment in segments:
            for aborted in aborted_in(self._reader, self.manifest, segment):
                if aborted.first_offset < end_offset and aborted.last_offset >= offset:
                    found.append(aborted)
                # Every later transaction begins at or above its last stable offset (as in Kafka's TransactionIndex).
                if aborted.last_stable_offset >= end_offset:
                    return found
        return found

    def _search_from(self, start_offset: int, timestamp: int) -> TimestampedOffset | None:
        for segment in self.manifest.segments[self._place(start_offset) :]:
            if segment.base_offset < start_offset:
                found = self._scan(segment, start_offset, timestamp)
            else:
                search = self._reader.offset_for_timestamp(self.manifest.folder, segment, timestamp)
                found = search() if isinstance(search, ColdRead) else search
            if found is not None:
                return found
        return None

    def _scan(self, segment: SegmentInfo, start_offset: int, timestamp: int) -> TimestampedOffset | None:
        if segment.max_timestamp < timestamp:
            return None
        for header, batch in self._reader.batches(self.manifest.folder, segment):
            if header.max_timestamp < timestamp or header.last_offset < start_offset:
                continue
            for record in iterate_records(batch, header):
                if record.timestamp >= timestamp and record.offset >= start_offset:
                    return TimestampedOffset(record.timestamp, record.offset, header.partition_leader_epoch)
        return None
