"""Which log is compacted next, up to where, and which segments become one.

Rules of this file: decisions only, time passed in; a plan is made from one look at a log's segments and is worth
nothing once they change. Clean is what lies below the first dirty offset (the cleaner's checkpoint), dirty what lies
above it. The order among logs is Kafka's: the largest dirty ratio first.
- The active segment is never cleaned, nor what lies above the last stable offset, nor, with min.compaction.lag.ms,
  the first dirty segment that holds a younger record and all behind it. The bound is always the base of a segment.
- A log is due when more than min.cleanable.dirty.ratio of it is dirty, or when the first record of a dirty segment is
  older than max.compaction.lag.ms.
- Clean and dirty segments are both rewritten, grouped so that the sum of a group fits segment.bytes and its offsets fit
  an int32 from its base. Groups must replace their segments from the oldest on: else a crash in between could leave an
  older value without the tombstone or the newer value that hid it.
"""

from collections.abc import Iterable

import attrs

from pipeline_broker.log.segments.log_segment import RELATIVE_OFFSET_MAX, LogSegment, segments_below, segments_from
from pipeline_broker.log.segments.policies import CompactionRules


@attrs.frozen(slots=True, kw_only=True)
class CompactedLog:
    """One log whose cleanup.policy has `compact` (with or without `delete`), as it is now."""

    topic: str
    partition: int
    rules: CompactionRules
    segments: tuple[LogSegment, ...]
    log_start_offset: int
    last_stable_offset: int
    """Of the oldest open transaction the first, else the high watermark."""
    log_end_offset: int
    checkpoint: int = 0
    """The first dirty offset as the last round left it."""


@attrs.frozen(slots=True, kw_only=True)
class CleaningPlan:
    """What of a log may be cleaned now."""

    log: CompactedLog
    first_dirty_offset: int
    first_uncleanable_offset: int
    clean_bytes: int
    dirty_bytes: int
    overdue_ms: int
    """How long ago max.compaction.lag.ms was reached; 0 when it was not."""

    @property
    def dirty_ratio(self) -> float:
        """The dirty part of what may be cleaned, by bytes."""
        total = self.clean_bytes + self.dirty_bytes
        return self.dirty_bytes / total if total else 0.0

    @property
    def dirty_offsets(self) -> int:
        """How many the dirty part spans; it has no more keys than that."""
        return max(0, self.first_uncleanable_offset - self.first_dirty_offset)

    @property
    def is_due(self) -> bool:
        """Whether it is worth the work now."""
        if self.overdue_ms > 0 and self.dirty_bytes > 0:
            return True
        return self.dirty_ratio > self.log.rules.min_cleanable_dirty_ratio

    @property
    def dirty_segments(self) -> tuple[LogSegment, ...]:
        """Those whose keys are mapped, in order; the first may begin with clean records."""
        if self.first_dirty_offset >= self.first_uncleanable_offset:
            return ()
        below = segments_below(self.log.segments, self.first_uncleanable_offset)
        return segments_from(below, self.first_dirty_offset)

    def groups(self, end_offset: int) -> list[tuple[LogSegment, ...]]:
        """The segments that a round whose offset map ends before `end_offset` rewrites; each group becomes one."""
        assert end_offset <= self.first_uncleanable_offset, "nothing that may not be cleaned is rewritten"
        return group_segments(segments_below(self.log.segments, end_offset), self.log.rules.segment_bytes)


def cleaning_plan(log: CompactedLog, now_ms: int) -> CleaningPlan:
    """What of this log may be cleaned."""
    first_dirty = _first_dirty_offset(log)
    bound = _segment_bound(log, max(first_dirty, _uncleanable_from(log, first_dirty, now_ms)))
    dirty = segments_from(segments_below(log.segments, bound), first_dirty) if first_dirty < bound else ()
    return CleaningPlan(
        log=log,
        first_dirty_offset=first_dirty,
        first_uncleanable_offset=bound,
        clean_bytes=_size_bytes(segments_below(log.segments, first_dirty)),
        dirty_bytes=_size_bytes(dirty),
        overdue_ms=_overdue_ms(log, first_dirty, now_ms),
    )


def next_plan(logs: Iterable[CompactedLog], now_ms: int, *, is_forced: bool = False) -> CleaningPlan | None:
    """The plan for the dirtiest log that is due, or with anything dirty when it is forced; None when no log is."""
    plans = (cleaning_plan(log, now_ms) for log in logs if log.segments)
    wanted = (plan for plan in plans if plan.is_due or (is_forced and plan.dirty_segments))
    return max(wanted, key=lambda plan: plan.dirty_ratio, default=None)


def _first_dirty_offset(log: CompactedLog) -> int:
    """Where the dirty part starts; a checkpoint outside the log is of no use."""
    return max(log.log_start_offset, log.checkpoint if log.checkpoint <= log.log_end_offset else 0)


def _uncleanable_from(log: CompactedLog, first_dirty: int, now_ms: int) -> int:
    bounds = [log.last_stable_offset, _sealed_end(log)]
    lag_ms = log.rules.min_compaction_lag_ms
    if lag_ms > 0:
        candidates = segments_from(log.segments, first_dirty)
        bounds += [it.base_offset for it in candidates if it.largest_timestamp > now_ms - lag_ms]
    return min(bounds)


def _segment_bound(log: CompactedLog, offset: int) -> int:
    """The offset, or the base of the segment it is within, which is left alone."""
    sealed_end = _sealed_end(log)
    return sealed_end if offset >= sealed_end else segments_from(log.segments, offset)[0].base_offset


def _sealed_end(log: CompactedLog) -> int:
    """Where the part begins that is not sealed; it may be in no segment yet."""
    last = log.segments[-1]
    return last.last_offset + 1 if last.is_sealed else last.base_offset


def _overdue_ms(log: CompactedLog, first_dirty: int, now_ms: int) -> int:
    dirty = segments_from(log.segments, first_dirty)
    first_timestamps = [it.first_timestamp for it in dirty if it.is_sealed and it.first_timestamp > 0]
    if not first_timestamps:
        return 0
    return max(0, now_ms - max(log.rules.max_compaction_lag_ms, 0) - min(first_timestamps))


def _size_bytes(segments: tuple[LogSegment, ...]) -> int:
    return sum(segment.size_bytes for segment in segments)


def group_segments(segments: tuple[LogSegment, ...], segment_bytes: int) -> list[tuple[LogSegment, ...]]:
    """Neighbours that together make at most one full segment; one that is larger stays alone."""
    groups: list[list[LogSegment]] = []
    size_bytes = 0
    for segment in segments:
        if groups and size_bytes + segment.size_bytes <= segment_bytes and _reaches(groups[-1][0], segment):
            groups[-1].append(segment)
            size_bytes += segment.size_bytes
        else:
            groups.append([segment])
            size_bytes = segment.size_bytes
    return [tuple(group) for group in groups]


def _reaches(first: LogSegment, segment: LogSegment) -> bool:
    """Whether all offsets of `segment` can be told as distances from the base of `first`."""
    return segment.is_empty or segment.last_offset - first.base_offset <= RELATIVE_OFFSET_MAX
