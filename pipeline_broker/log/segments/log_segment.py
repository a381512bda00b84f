"""What decisions about a partition's segments know of each.

Rules of this file: plain facts, no files; offsets, sizes and times as Kafka's LogSegment has them. `sealed` is
what nobody appends to any more; the segments of a log are listed from oldest to newest, without overlap, and only the
last may be unsealed (the active one).
"""

import attrs

NO_TIMESTAMP = -1
RELATIVE_OFFSET_MAX = 2**31 - 1
"""What an index entry, and a batch's last offset delta, can tell of an offset: its distance from a base, as int32."""


@attrs.frozen(slots=True, kw_only=True)
class LogSegment:
    """One segment; an empty one has its last offset one below its base."""

    base_offset: int
    last_offset: int
    size_bytes: int
    first_timestamp: int = NO_TIMESTAMP
    """The max timestamp of the first batch, by which segments roll and logs become overdue for compaction."""
    max_timestamp: int = NO_TIMESTAMP
    modified_ms: int = NO_TIMESTAMP
    """When it was last written to; stands in where records have no timestamps."""
    is_sealed: bool = True

    @property
    def is_empty(self) -> bool:
        """Holds no batch: before the first append, or when compaction left nothing."""
        return self.size_bytes == 0

    @property
    def largest_timestamp(self) -> int:
        """By which the segment ages; -1 where nothing is known, which is never old."""
        return self.max_timestamp if self.max_timestamp >= 0 else self.modified_ms


def segments_from(segments: tuple[LogSegment, ...], offset: int) -> tuple[LogSegment, ...]:
    """The segment that covers the offset (the first one where none starts at or below it), and all after it."""
    start = 0
    for number, segment in enumerate(segments):
        if segment.base_offset > offset:
            break
        start = number
    return segments[start:]


def segments_below(segments: tuple[LogSegment, ...], offset: int) -> tuple[LogSegment, ...]:
    """The segments that start below the offset."""
    return tuple(segment for segment in segments if segment.base_offset < offset)
