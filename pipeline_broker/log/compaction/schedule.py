"""The schedule of compaction: the next log to compact, the range to clean, and the groups of segments to merge.

* Records below the first dirty offset (the cleaner checkpoint) are clean, all others dirty. As in Kafka, the log with
  the largest dirty ratio is first.
* The active segment is never cleaned, nor are records above the last stable offset. With min.compaction.lag.ms,
  cleaning stops at the first dirty segment with a younger record. The range always ends at the base of a segment.
* A log is compacted if its dirty ratio exceeds min.cleanable.dirty.ratio, or if the first record of a dirty segment is
  older than max.compaction.lag.ms.

A plan is valid only as long as the log's segments do not change.
"""

from collections.abc import Iterable

import attrs

from pipeline_broker.log.segments.log_segment import RELATIVE_OFFSET_MAX, LogSegment, segments_below, segments_from
from pipeline_broker.log.segments.policies import CompactionRules


@attrs.frozen(slots=True, kw_only=True)
class CompactedLog:
    """A snapshot of a log whose cleanup.policy has `compact`.

    Attributes:
        last_stable_offset: first offset of the oldest open transaction, or else the high watermark.
        checkpoint: the first dirty offset after the last round.
    """

    topic: str
    partition: int
    rules: CompactionRules
    segments: tuple[LogSegment, ...]
    log_start_offset: int
    last_stable_offset: int
    log_end_offset: int
    checkpoint: int = 0


@attrs.frozen(slots=True, kw_only=True)
class CleaningPlan:
    """The range of a log that may be cleaned now.

    Attributes:
        overdue_ms: time since max.compaction.lag.ms was exceeded; 0 if it was not.
    """

    log: CompactedLog
    first_dirty_offset: int
    first_uncleanable_offset: int
    clean_bytes: int
    dirty_bytes: int
    overdue_ms: int

    @property
    def dirty_ratio(self) -> float:
        total = self.clean_bytes + self.dirty_bytes
        return self.dirty_bytes / total if total else 0.0

    @property
    def dirty_offsets(self) -> int:
        return max(0, self.first_uncleanable_offset - self.first_dirty_offset)

    @property
    def is_due(self) -> bool:
        if self.overdue_ms > 0 and self.dirty_bytes > 0:
            return True
        return self.dirty_ratio > self.log.rules.min_cleanable_dirty_ratio

    @property
    def dirty_segments(self) -> tuple[LogSegment, ...]:
        """The segments whose keys are mapped. The first may begin with clean records."""
        if self.first_dirty_offset >= self.first_uncleanable_offset:
            return ()
        below = segments_below(self.log.segments, self.first_uncleanable_offset)
        return segments_from(below, self.first_dirty_offset)

    def groups(self, end_offset: int) -> list[tuple[LogSegment, ...]]:
        """Return the segments to rewrite, grouped so that each group becomes one segment.

        Groups must be replaced oldest first. Otherwise a crash in between could leave an old value without the
        tombstone or the newer value that hid it.

        Args:
            end_offset: end of the mapped range; below `first_uncleanable_offset` if the map was full.
        """
        assert end_offset <= self.first_uncleanable_offset, "only the cleanable range may be rewritten"
        return group_segments(segments_below(self.log.segments, end_offset), self.log.rules.segment_bytes)


def cleaning_plan(log: CompactedLog, now_ms: int) -> CleaningPlan:
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
    """Return the plan for the log with the largest dirty ratio that should be compacted; None without one.

    With `is_forced`, every log with dirty segments qualifies.
    """
    plans = (cleaning_plan(log, now_ms) for log in logs if log.segments)
    wanted = (plan for plan in plans if plan.is_due or (is_forced and plan.dirty_segments))
    return max(wanted, key=lambda plan: plan.dirty_ratio, default=None)


def _first_dirty_offset(log: CompactedLog) -> int:
    """Return the start of the dirty part. A checkpoint outside the log is ignored."""
    return max(log.log_start_offset, log.checkpoint if log.checkpoint <= log.log_end_offset else 0)


def _uncleanable_from(log: CompactedLog, first_dirty: int, now_ms: int) -> int:
    bounds = [log.last_stable_offset, _sealed_end(log)]
    lag_ms = log.rules.min_compaction_lag_ms
    if lag_ms > 0:
        # As in Kafka, cleaning stops at the first segment with a record younger than min.compaction.lag.ms.
        candidates = segments_from(log.segments, first_dirty)
        bounds += [it.base_offset for it in candidates if it.largest_timestamp > now_ms - lag_ms]
    return min(bounds)


def _segment_bound(log: CompactedLog, offset: int) -> int:
    sealed_end = _sealed_end(log)
    return sealed_end if offset >= sealed_end else segments_from(log.segments, offset)[0].base_offset


def _sealed_end(log: CompactedLog) -> int:
    last = log.segments[-1]
    return last.last_offset + 1 if last.is_sealed else last.base_offset


def _overdue_ms(log: CompactedLog, first_dirty: int, now_ms: int) -> int:
    dirty = segments_from(log.segments, first_dirty)
    # As in Kafka, neither the active segment nor segments without timestamps count.
    first_timestamps = [it.first_timestamp for it in dirty if it.is_sealed and it.first_timestamp > 0]
    if not first_timestamps:
        return 0
    return max(0, now_ms - max(log.rules.max_compaction_lag_ms, 0) - min(first_timestamps))


def _size_bytes(segments: tuple[LogSegment, ...]) -> int:
    return sum(segment.size_bytes for segment in segments)


def group_segments(segments: tuple[LogSegment, ...], segment_bytes: int) -> list[tuple[LogSegment, ...]]:
    """Group neighbouring segments that fit into `segment_bytes` bytes together. A larger one stays alone."""
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
    return segment.is_empty or segment.last_offset - first.base_offset <= RELATIVE_OFFSET_MAX
