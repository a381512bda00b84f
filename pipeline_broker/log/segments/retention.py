"""Which segments of a log are deleted, and when the active one is followed by a new one.

Rules of this file: decisions only, time passed in; whole segments, from the oldest on, until the first that stays. The
order is Kafka's: what lies below the log start first, then by size, then by time, each pass looking at what the
ones before it left over. Nothing is deleted that is not below the high watermark, and a log always keeps a segment:
when all are to go, a new active one begins first. Without the policy `delete` only the first pass is made.
- retention.bytes: deleted while what remains is no smaller than the limit. -1 is no limit.
- retention.ms: deleted when the largest timestamp is older than the limit, so one from the future keeps its segment and
  all behind it. Where records have no timestamps, the last write counts. -1 is no limit.
- A segment rolls by record time: when the first batch and the one to be appended are further apart than segment.ms.
  Only where the first batch has no timestamp the clock decides. A compacted log rolls within max.compaction.lag.ms,
  because what is active is never compacted. With segment.jitter.ms each segment rolls earlier, by a time of its own, so
  that logs which began together do not all roll at once. It is drawn from a seed and the segment's base, so whoever
  asks gets the same; a start draws another seed, as Apache Kafka draws anew.
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
    """Why a segment goes."""

    LOG_START = "below the log start offset"
    SIZE = "retention.bytes"
    TIME = "retention.ms"


@attrs.frozen(slots=True, kw_only=True)
class RetentionRules:
    """What a topic's configuration says of keeping."""

    delete: bool = True
    """Whether cleanup.policy has `delete`; a compacted log without it keeps all above its start."""
    retention_ms: int = RETENTION_MS_DEFAULT
    retention_bytes: int = UNLIMITED


class Deletion(NamedTuple):
    """One segment to be deleted."""

    segment: LogSegment
    reason: DeletionReason


class RetentionPlan(NamedTuple):
    """What is to be done, in this order: roll, move the log start, delete."""

    deletions: tuple[Deletion, ...]
    log_start_offset: int
    """Where the log starts afterwards; never lower than before."""
    rolls_active: bool
    """Whether the active segment goes too, so that a new one must begin at the log end offset first."""


def retention_plan(
    segments: tuple[LogSegment, ...],
    rules: RetentionRules,
    now_ms: int,
    *,
    log_start_offset: int,
    high_watermark: int,
    log_end_offset: int,
) -> RetentionPlan:
    """Which segments of a log are deleted now."""
    left = _Left(segments, log_start_offset, high_watermark, log_end_offset)
    start_before = log_start_offset
    left.delete_while(lambda _, following: following <= start_before, DeletionReason.LOG_START, needs_following=True)
    if rules.delete:
        if rules.retention_bytes >= 0:
            _delete_by_size(left, rules.retention_bytes)
        if rules.retention_ms >= 0:
            left.delete_while(lambda it, _: _has_expired(it, now_ms, rules.retention_ms), DeletionReason.TIME)
    rolls_active = bool(segments) and len(left.deletions) == len(segments)
    return RetentionPlan(tuple(left.deletions), left.log_start_offset, rolls_active)


class _Left:
    """The segments of a log while some are being taken away at its old end."""

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
        goes: Callable[[LogSegment, int], bool],
        reason: DeletionReason,
        *,
        needs_following: bool = False,
    ) -> None:
        """Take away the oldest as long as `goes(it, where the next one starts)` says so."""
        for number in range(len(self.deletions), len(self.segments)):
            segment = self.segments[number]
            is_last = number + 1 == len(self.segments)
            following = self.log_end_offset if is_last else self.segments[number + 1].base_offset
            if is_last and (segment.is_empty or needs_following):
                return
            if following > self.high_watermark or not goes(segment, following):
                return
            self.deletions.append(Deletion(segment, reason))
            self.log_start_offset = max(self.log_start_offset, following)


def _delete_by_size(left: _Left, retention_bytes: int) -> None:
    surplus = left.size_bytes - retention_bytes

    def goes(segment: LogSegment, _: int) -> bool:
        nonlocal surplus
        if segment.size_bytes > surplus:
            return False
        surplus -= segment.size_bytes
        return True

    left.delete_while(goes, DeletionReason.SIZE)


def _has_expired(segment: LogSegment, now_ms: int, retention_ms: int) -> bool:
    timestamp = segment.largest_timestamp
    return timestamp >= 0 and now_ms - timestamp > retention_ms


@attrs.frozen(slots=True, kw_only=True)
class RollRules:
    """What a topic's configuration says of segments."""

    segment_bytes: int = SEGMENT_BYTES_DEFAULT
    segment_ms: int = SEGMENT_MS_DEFAULT
    segment_jitter_ms: int = 0
    compact: bool = False
    max_compaction_lag_ms: int = LAG_MS_UNLIMITED

    @property
    def roll_ms(self) -> int:
        """The longest time a segment may span."""
        if self.compact and self.max_compaction_lag_ms > 0:
            return min(self.max_compaction_lag_ms, self.segment_ms)
        return self.segment_ms

    def jitter_ms(self, seed: bytes, base_offset: int) -> int:
        """By how much earlier the segment with this base rolls; less than the time it may span."""
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
    """Whether the batch goes to a new segment instead of this active one."""
    if segment.size_bytes > rules.segment_bytes - batch_size_bytes:
        return True
    if not 0 <= batch_last_offset - segment.base_offset <= RELATIVE_OFFSET_MAX:
        return True
    first = segment.first_timestamp
    waited_ms = batch_max_timestamp - first if first >= 0 else now_ms - created_ms
    return not segment.is_empty and waited_ms > rules.roll_ms - jitter_ms
