"""The in-memory offset and time index of one archived segment.

Counterpart in Kafka: `LogSegment`, `OffsetIndex`, `TimeIndex`.
"""

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator

import attrs

from pipeline_broker.base.buffer import Buffer
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

OBJECT_BYTES = 600  # size of an index without entries: object, four columns, state, cache entry


@attrs.frozen
class SegmentIndex:
    """Both indexes of the first `size_bytes` of a segment. Immutable, so any thread may use it.

    The offset index takes 8 bytes an entry and the time index 12. Every lookup is a bisection. The index may cover more
    of a segment than the caller's manifest does, because the segment may have grown since.
    """

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
        entries = builder.take()
        assert entries.offset_position == entries.time_position == 0, "the builder must not have been drained before"
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
        """Return this index with the entries that were appended to both files since.

        Raises:
            DamagedIndexError: the entries do not match `state`, or are out of order.
        """
        # The checksum continues that of the known entries, so only the new ones are read.
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
        return OBJECT_BYTES + OFFSET_ENTRY.size * len(self.offsets) + TIME_ENTRY.size * len(self.timestamps)

    def encoded(self) -> tuple[bytes, bytes]:
        entries = b"".join(map(OFFSET_ENTRY.pack, self.offsets, self.positions))
        return entries, b"".join(map(TIME_ENTRY.pack, self.timestamps, self.time_offsets))

    def floor(self, offset: int) -> int:
        """Return the start of a batch that is at or before the first batch with this or a higher offset."""
        number = bisect_right(self.offsets, offset - self.base_offset) - 1
        return self.positions[number] if number >= 0 else 0

    def ceiling(self, offset: int) -> int:
        """Return a position at or after the start of the first batch with this or a higher offset."""
        number = bisect_left(self.offsets, offset - self.base_offset)
        return self.positions[number] if number < len(self.positions) else self.size_bytes

    def names(self, position: int) -> Iterator[tuple[int, int]]:
        """Yield position and last offset of each indexed batch at or after a position."""
        for number in range(bisect_left(self.positions, position), len(self.positions)):
            yield self.positions[number], self.base_offset + self.offsets[number]

    def boundary(self, position: int, bytes_max: int) -> int:
        """Return the last indexed batch boundary at most `bytes_max` after `position`; without one, the next.

        The end of the indexed part is such a boundary, too.
        """
        if self.size_bytes <= position + bytes_max:
            return self.size_bytes
        number = bisect_right(self.positions, position + bytes_max)
        if number and self.positions[number - 1] > position:
            return self.positions[number - 1]
        return self.positions[number] if number < len(self.positions) else self.size_bytes

    def reach(self, position: int, bytes_max: int) -> int:
        """Return a position after which no batch ends that fits into `bytes_max` bytes from `position`.

        A batch begins at `position`. The last batch before an indexed position begins at most one index interval after
        the entry before it.
        """
        stop = position + bytes_max
        place = self.boundary(position, bytes_max)
        return min(stop, (place if place <= stop else position) + INDEX_INTERVAL_BYTES)

    def search_start(self, timestamp: int) -> int:
        """Return the start of a batch such that no batch before it reaches the timestamp.

        The first batch that reaches it is close to that position.
        """
        if timestamp <= NO_TIMESTAMP:
            return 0
        number = bisect_left(self.timestamps, timestamp)
        # Time entries are added together with offset entries, so the match lies after the previous offset entry.
        reached = self.time_offsets[number] if number < len(self.timestamps) else self.last_offset - self.base_offset
        number = bisect_left(self.offsets, reached) - 1
        return self.positions[number] if number >= 0 else 0
