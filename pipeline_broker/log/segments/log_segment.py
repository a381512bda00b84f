"""Facts about one segment of a partition log, as retention, rolling and compaction need them."""

import attrs

NO_TIMESTAMP = -1
# Index entries and the last offset delta of a batch are int32 distances from a base offset.
RELATIVE_OFFSET_MAX = 2**31 - 1


@attrs.frozen(slots=True, kw_only=True)
class LogSegment:
    """One segment. An empty segment has `last_offset == base_offset - 1`.

    Attributes:
        first_timestamp: max timestamp of the first batch. Segments roll, and become overdue for compaction, by it.
        max_timestamp: largest timestamp of all batches.
        modified_ms: time of the last write; replaces `max_timestamp` if the records have no timestamps.
        is_sealed: True if nothing is appended to it any more.
    """

    base_offset: int
    last_offset: int
    size_bytes: int
    first_timestamp: int = NO_TIMESTAMP
    max_timestamp: int = NO_TIMESTAMP
    modified_ms: int = NO_TIMESTAMP
    is_sealed: bool = True

    @property
    def is_empty(self) -> bool:
        """True before the first append, and after compaction removed everything."""
        return self.size_bytes == 0

    @property
    def largest_timestamp(self) -> int:
        """The timestamp that `retention.ms` compares; -1 if unknown, which never expires."""
        return self.max_timestamp if self.max_timestamp >= 0 else self.modified_ms


def segments_from(segments: tuple[LogSegment, ...], offset: int) -> tuple[LogSegment, ...]:
    """Return the segment that covers the offset and all later ones; all segments if the first starts above it."""
    start = 0
    for number, segment in enumerate(segments):
        if segment.base_offset > offset:
            break
        start = number
    return segments[start:]


def segments_below(segments: tuple[LogSegment, ...], offset: int) -> tuple[LogSegment, ...]:
    return tuple(segment for segment in segments if segment.base_offset < offset)
