"""The part of a partition's log that the archive holds, as readers see it.

Rules of this file: it belongs to the event loop, which gives it a new manifest when an edit is durable; nothing here
waits for a disk. A read that is under way keeps what it began with.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from itertools import accumulate
from typing import TYPE_CHECKING

from pipeline_broker.log.reading import ReadResult

if TYPE_CHECKING:
    from pipeline_broker.log.archive.manifest import PartitionManifest
    from pipeline_broker.log.archive.segment_file import SegmentInfo
    from pipeline_broker.log.archive.segment_reader import SegmentReader
    from pipeline_broker.log.reading import ColdRead, TimestampedOffset

__all__ = ["ArchivedLog"]


class ArchivedLog:
    """See the rules of the file.

    Args:
        reader: of the archive's files.
        manifest: what the archive holds of this partition.
    """

    __slots__ = ("_bases", "_reader", "_timestamps", "end_offset", "manifest", "size_bytes")

    def __init__(self, reader: SegmentReader, manifest: PartitionManifest) -> None:
        self._reader = reader
        self.manifest = manifest
        self.end_offset = manifest.end_offset
        self.size_bytes = manifest.size_bytes
        self._bases = [segment.base_offset for segment in manifest.segments]
        self._timestamps = list(accumulate((segment.max_timestamp for segment in manifest.segments), max))

    @property
    def max_timestamp(self) -> int:
        """The largest of all; -1 when there is none."""
        return self._timestamps[-1] if self._timestamps else -1

    def _place(self, offset: int) -> int:
        """The segment that holds the offset, or else the next one; their number when there is none."""
        segments = self.manifest.segments
        place = max(0, bisect_right(self._bases, offset) - 1)
        while place < len(segments) and (segments[place].last_offset < offset or not segments[place].size_bytes):
            place += 1
        return place

    def bytes_from(self, offset: int) -> int:
        """About how many bytes of batches there are from an offset on: within a segment records are taken as equal."""
        segments = self.manifest.segments
        place = self._place(offset)
        if place == len(segments):
            return 0
        first = segments[place]
        offsets = first.last_offset + 1 - first.base_offset
        share = first.size_bytes * (first.last_offset + 1 - max(offset, first.base_offset)) // offsets
        return max(1, share) + sum(segment.size_bytes for segment in segments[place + 1 :])

    def read(self, offset: int, bytes_max: int, *, at_least_one: bool) -> ReadResult | None:
        """Whole batches from an offset on; None when the archive has nothing from there on."""
        place = self._place(offset)
        if place == len(self.manifest.segments):
            return None
        segment = self.manifest.segments[place]
        return self._reader.read(self.manifest.folder, segment, offset, bytes_max, at_least_one=at_least_one)

    def segment_since(self, timestamp: int) -> SegmentInfo | None:
        """The first segment with a record at or after the time."""
        place = bisect_left(self._timestamps, timestamp)
        return self.manifest.segments[place] if place < len(self._timestamps) else None

    def offset_for_timestamp(
        self, segment: SegmentInfo, timestamp: int
    ) -> TimestampedOffset | ColdRead[TimestampedOffset | None] | None:
        """The first record of a segment at or after the time."""
        return self._reader.offset_for_timestamp(self.manifest.folder, segment, timestamp)
