"""The indexes of one segment in memory: what is asked of them.

Rules of this file: no I/O; an index never changes once it is made, so any thread may ask it. Columns of integers, 8
bytes a batch in the offset index and 12 in the time index; every question is a bisection. It may cover more of a
segment than who asks knows of: the segment grew since.
"""

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator

import attrs

from pipeline_broker.log.archive.index_files import (
    INDEX_INTERVAL_BYTES,
    NO_TIMESTAMP,
    OFFSET_ENTRY,
    TIME_ENTRY,
    IndexBuilder,
    IndexState,
    check_state,
    parse_offset_index,
    parse_time_index,
)
from pipeline_broker.log.journal.entry import Buffer

OBJECT_BYTES = 600  # of an index without entries: itself, four columns, its state, its place in a cache


@attrs.frozen
class SegmentIndex:
    """Both indexes of the first `size_bytes` of a segment."""

    base_offset: int
    last_offset: int
    size_bytes: int
    state: IndexState
    offsets: "array[int]"
    positions: "array[int]"
    timestamps: "array[int]"
    time_offsets: "array[int]"

    @classmethod
    def of_builder(cls, builder: IndexBuilder) -> "SegmentIndex":
        """What a builder made of the batches of a segment, from the first on."""
        entries = builder.take()
        assert entries.offset_position == entries.time_position == 0, "nothing was taken before"
        empty = cls.empty(builder.base_offset)
        return empty.grown(
            builder.last_offset,
            builder.size_bytes,
            builder.max_timestamp,
            builder.state,
            entries.offset_entries,
            entries.time_entries,
        )

    @classmethod
    def empty(cls, base_offset: int) -> "SegmentIndex":
        """Of no batch yet."""
        return cls(base_offset, base_offset - 1, 0, IndexState(), array("i"), array("i"), array("q"), array("i"))

    def grown(
        self,
        last_offset: int,
        size_bytes: int,
        max_timestamp: int,
        state: IndexState,
        offset_entries: Buffer,
        time_entries: Buffer,
    ) -> "SegmentIndex":
        """With what was added to both files since; raises DamagedIndexError when it is not what was written."""
        check_state(state, offset_entries, time_entries, self.state)
        offset_max = last_offset - self.base_offset
        offset_after = (self.offsets[-1], self.positions[-1]) if self.offsets else (-1, -1)
        time_after = (self.timestamps[-1], self.time_offsets[-1]) if self.timestamps else (NO_TIMESTAMP, -1)
        offsets, positions = parse_offset_index(offset_entries, offset_max, size_bytes - 1, offset_after)
        timestamps, time_offsets = parse_time_index(time_entries, offset_max, max_timestamp, time_after)
        return SegmentIndex(
            self.base_offset,
            last_offset,
            size_bytes,
            state,
            self.offsets + offsets,
            self.positions + positions,
            self.timestamps + timestamps,
            self.time_offsets + time_offsets,
        )

    @property
    def memory_bytes(self) -> int:
        """What it takes to keep it."""
        return OBJECT_BYTES + OFFSET_ENTRY.size * len(self.offsets) + TIME_ENTRY.size * len(self.timestamps)

    def encoded(self) -> tuple[bytes, bytes]:
        """The contents of both files."""
        entries = b"".join(map(OFFSET_ENTRY.pack, self.offsets, self.positions))
        return entries, b"".join(map(TIME_ENTRY.pack, self.timestamps, self.time_offsets))

    def floor(self, offset: int) -> int:
        """Where a batch begins that is the first one with this offset or a later one, or lies before that."""
        number = bisect_right(self.offsets, offset - self.base_offset) - 1
        return self.positions[number] if number >= 0 else 0

    def ceiling(self, offset: int) -> int:
        """Where the first batch with this offset or a later one begins, or a place behind its beginning."""
        number = bisect_left(self.offsets, offset - self.base_offset)
        return self.positions[number] if number < len(self.positions) else self.size_bytes

    def names(self, position: int) -> Iterator[tuple[int, int]]:
        """Position and last offset of each batch that the index names, from that place in the file on."""
        for number in range(bisect_left(self.positions, position), len(self.positions)):
            yield self.positions[number], self.base_offset + self.offsets[number]

    def boundary(self, position: int, bytes_max: int) -> int:
        """The end of a run of whole batches: of at most so many bytes, or else up to the next place that is known."""
        if self.size_bytes <= position + bytes_max:
            return self.size_bytes
        number = bisect_right(self.positions, position + bytes_max)
        if number and self.positions[number - 1] > position:
            return self.positions[number - 1]
        return self.positions[number] if number < len(self.positions) else self.size_bytes

    def reach(self, position: int, bytes_max: int) -> int:
        """A place behind which no batch ends that fits into so many bytes from `position` on, where a batch begins.

        The last batch before a place that the index knows begins no further than an interval behind the one before it.
        """
        stop = position + bytes_max
        place = self.boundary(position, bytes_max)
        return min(stop, (place if place <= stop else position) + INDEX_INTERVAL_BYTES)

    def search_start(self, timestamp: int) -> int:
        """Where a batch begins such that no batch before it reaches the time; the first that does is not far."""
        if timestamp <= NO_TIMESTAMP:
            return 0
        number = bisect_left(self.timestamps, timestamp)
        # Entries of both indexes come together, so what first reached the time lies behind the offset entry before.
        reached = self.time_offsets[number] if number < len(self.timestamps) else self.last_offset - self.base_offset
        number = bisect_left(self.offsets, reached) - 1
        return self.positions[number] if number >= 0 else 0
