"""Retention and rolling of segments: Kafka's rules for deleting old segments and starting new ones.

Retention deletes whole segments, oldest first, in the order of Kafka's `deleteOldSegments`: below the log start offset,
then by size, then by time. Each pass stops at the first segment that it keeps, and sees only what earlier passes left.
"""

from collections.abc import Callable
from enum import Enum
from hashlib import blake2b
from typing import NamedTuple

import attrs

from pipeline_broker.log.segments.log_segment import RELATIVE_OFFSET_MAX, LogSegment

UNLIMITED = -1
RETENTION_MS_DEFAULT = 7 * 24 * 3600 * 1000
SEGMENT_BYTES_DEFAULT = 1 << 30
SEGMENT_MS_DEFAULT = 7 * 24 * 3600 * 1000
LAG_MS_UNLIMITED = 2**63 - 1


class DeletionReason(Enum):
    LOG_START = "below the log start offset"
    SIZE = "retention.bytes"
    TIME = "retention.ms"


@attrs.frozen(slots=True, kw_only=True)
class RetentionRules:
    """Retention settings of a topic; -1 means unlimited.

    Attributes:
        delete: whether cleanup.policy has `delete`. A compacted log without it loses only segments below its log start.
    """

    delete: bool = True
    retention_ms: int = RETENTION_MS_DEFAULT
    retention_bytes: int = UNLIMITED


class Deletion(NamedTuple):
    segment: LogSegment
    reason: DeletionReason


class RetentionPlan(NamedTuple):
    """The actions of one retention pass, in this order: roll, raise the log start offset, delete.

    Attributes:
        log_start_offset: the log start after the deletions; never lower than before.
        rolls_active: whether the active segment is deleted too. A new one must then begin at the log end offset first,
            because a log always has a segment.
    """

    deletions: tuple[Deletion, ...]
    log_start_offset: int
    rolls_active: bool


def retention_plan(
    segments: tuple[LogSegment, ...],
    rules: RetentionRules,
    now_ms: int,
    *,
    log_start_offset: int,
    high_watermark: int,
    log_end_offset: int,
) -> RetentionPlan:
    """Return the segments to delete now, and the new log start offset.

    Args:
        segments: oldest first; the last one may be active.
        now_ms: wall-clock time.
        log_start_offset: current start of the log.
        high_watermark: segments that reach above it are kept.
        log_end_offset: the offset of the next record.
    """
    left = _Left(segments, log_start_offset, high_watermark, log_end_offset)
    start_before = log_start_offset
    # A pass raises `left.log_start_offset` as it goes, but this one must compare with the start before it.
    left.delete_while(lambda _, following: following <= start_before, DeletionReason.LOG_START, needs_following=True)
    if rules.delete:
        if rules.retention_bytes >= 0:
            _delete_by_size(left, rules.retention_bytes)
        if rules.retention_ms >= 0:
            # A record with a timestamp in the future keeps its segment, and with it all later segments.
            left.delete_while(lambda it, _: _has_expired(it, now_ms, rules.retention_ms), DeletionReason.TIME)
    rolls_active = bool(segments) and len(left.deletions) == len(segments)
    return RetentionPlan(tuple(left.deletions), left.log_start_offset, rolls_active)


class _Left:
    """The segments that remain while a plan deletes from the oldest."""

    def __init__(
        self, segments: tuple[LogSegment, ...], log_start_offset: int, high_watermark: int, log_end_offset: int
    ) -> None:
        self.segments = segments
        self.deletions: list[Deletion] = []
        self.log_start_offset = log_start_offset
        self.high_watermark = high_watermark
        self.log_end_offset = log_end_offset

    @property
    def size_bytes(self) -> int:
        return sum(segment.size_bytes for segment in self.segments[len(self.deletions) :])

    def delete_while(
        self,
        expires: Callable[[LogSegment, int], bool],
        reason: DeletionReason,
        *,
        needs_following: bool = False,
    ) -> None:
        """Delete the oldest segments as long as `expires(segment, base offset of the next one)` returns True.

        With `needs_following`, the last segment stays.
        """
        for number in range(len(self.deletions), len(self.segments)):
            segment = self.segments[number]
            is_last = number + 1 == len(self.segments)
            following = self.log_end_offset if is_last else self.segments[number + 1].base_offset
            # Deleting an empty active segment would only replace it by another empty one.
            if is_last and (segment.is_empty or needs_following):
                return
            if following > self.high_watermark or not expires(segment, following):
                return
            self.deletions.append(Deletion(segment, reason))
            self.log_start_offset = max(self.log_start_offset, following)


def _delete_by_size(left: _Left, retention_bytes: int) -> None:
    surplus = left.size_bytes - retention_bytes

    def expires(segment: LogSegment, _: int) -> bool:
        nonlocal surplus
        # Delete only while the rest is no smaller than retention.bytes, so a log may exceed the limit by almost a
        # segment.
        if segment.size_bytes > surplus:
            return False
        surplus -= segment.size_bytes
        return True

    left.delete_while(expires, DeletionReason.SIZE)


def _has_expired(segment: LogSegment, now_ms: int, retention_ms: int) -> bool:
    timestamp = segment.largest_timestamp
    return timestamp >= 0 and now_ms - timestamp > retention_ms


@attrs.frozen(slots=True, kw_only=True)
class RollRules:
    segment_bytes: int = SEGMENT_BYTES_DEFAULT
    segment_ms: int = SEGMENT_MS_DEFAULT
    segment_jitter_ms: int = 0
    compact: bool = False
    max_compaction_lag_ms: int = LAG_MS_UNLIMITED

    @property
    def roll_ms(self) -> int:
        # The active segment is never compacted, so a compacted log must roll within max.compaction.lag.ms.
        if self.compact and self.max_compaction_lag_ms > 0:
            return min(self.max_compaction_lag_ms, self.segment_ms)
        return self.segment_ms

    def jitter_ms(self, seed: bytes, base_offset: int) -> int:
        """Return the milliseconds by which the segment with this base rolls earlier (`segment.jitter.ms`).

        The value is a function of seed and base, so every caller gets the same one. It spreads the rolls of logs that
        were created together. Each broker run has another seed, as Kafka draws another value after a restart.
        """
        bound_ms = min(self.segment_jitter_ms, self.roll_ms)
        if bound_ms <= 0:
            return 0
        drawn = blake2b(base_offset.to_bytes(8, "big"), digest_size=8, key=seed).digest()
        return int.from_bytes(drawn, "big") % bound_ms


def should_roll(
    segment: LogSegment,
    rules: RollRules,
    now_ms: int,
    *,
    batch_size_bytes: int,
    batch_last_offset: int,
    batch_max_timestamp: int,
    created_ms: int,
    jitter_ms: int = 0,
) -> bool:
    """Return whether a batch must be written to a new segment instead of this active one.

    Args:
        segment: the active segment.
        now_ms: wall-clock time.
        created_ms: creation time of the segment; counts only if its first batch has no timestamp.
        jitter_ms: see `RollRules.jitter_ms`.
    """
    if segment.size_bytes > rules.segment_bytes - batch_size_bytes:
        return True
    # Index entries could not represent the offset.
    if not 0 <= batch_last_offset - segment.base_offset <= RELATIVE_OFFSET_MAX:
        return True
    first = segment.first_timestamp
    # As in Kafka's `timeWaitedForRoll`: record time decides, so that replayed old records roll like the originals.
    waited_ms = batch_max_timestamp - first if first >= 0 else now_ms - created_ms
    return not segment.is_empty and waited_ms > rules.roll_ms - jitter_ms
