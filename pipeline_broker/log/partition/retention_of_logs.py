"""Retention over all logs: which archived segments expire, and which log starts rise.

Records in the journal count as the active segment. If their log start rises, they are invisible at once, and their
space is recycled with the journal.
"""

from __future__ import annotations

from collections.abc import Iterable

import attrs

from pipeline_broker.log.archive.archive import Expiry
from pipeline_broker.log.partition.partition_log import PartitionLog
from pipeline_broker.log.segments.log_segment import LogSegment
from pipeline_broker.log.segments.retention import retention_plan

__all__ = ["expiries", "segments_of", "waits_for_archive"]


def segments_of(log: PartitionLog) -> tuple[LogSegment, ...]:
    """Return all segments of a log. Records in the journal belong to the active segment."""
    archived = () if log.archived is None else tuple(segment.facts for segment in log.archived.manifest.segments)
    index = log.index
    if not index.bases:
        return archived
    active = LogSegment(
        base_offset=index.bases[0],
        last_offset=log.high_watermark - 1,
        size_bytes=index.size_bytes,
        first_timestamp=index.own_timestamps[0],
        max_timestamp=index.timestamps[-1],
        modified_ms=log.untimed_ms,
        is_sealed=False,
    )
    if archived and not archived[-1].is_sealed:
        *archived_only, begun = archived
        active = attrs.evolve(
            begun,
            last_offset=active.last_offset,
            size_bytes=begun.size_bytes + active.size_bytes,
            max_timestamp=max(begun.max_timestamp, active.max_timestamp),
            modified_ms=max(begun.modified_ms, active.modified_ms),
        )
        return (*archived_only, active)
    return (*archived, active)


def waits_for_archive(log: PartitionLog, now_ms: int) -> bool:
    """Return whether the journal must be archived now, because the active segment should have ended within its records.

    Otherwise segments would not end where those of Kafka do.
    """
    if not log.index.bases:
        return False
    roll, retention = log.policies.roll, log.policies.retention
    active = segments_of(log)[-1]
    if active.size_bytes >= roll.segment_bytes:
        return True
    if not (retention.delete or roll.compact):
        return False
    if retention.delete and 0 <= retention.retention_ms < now_ms - active.largest_timestamp:
        return False  # all of it has expired, so retention deletes it without a roll
    jitter_ms = roll.jitter_ms(log.roll_seed, active.base_offset)
    since_ms = active.first_timestamp if active.first_timestamp >= 0 else _created_ms(log)
    return now_ms - since_ms > roll.roll_ms - jitter_ms


def _created_ms(log: PartitionLog) -> int:
    """Return the time at which the active segment began, for a first batch without a timestamp."""
    segments = () if log.archived is None else log.archived.manifest.segments
    return segments[-1].modified_ms if segments and not segments[-1].is_sealed else log.untimed_since_ms


def expiries(logs: Iterable[PartitionLog], now_ms: int) -> dict[bytes, Expiry]:
    """Return the archived segments to delete and the new log starts, by journal key.

    Logs without a change are left out.
    """
    found: dict[bytes, Expiry] = {}
    for log in logs:
        plan = retention_plan(
            segments_of(log),
            log.policies.retention,
            now_ms,
            log_start_offset=log.log_start_offset,
            high_watermark=log.high_watermark,
            # Records in flight are not visible, so the log ends here for retention.
            log_end_offset=log.high_watermark,
        )
        archived = (
            frozenset()
            if log.archived is None
            else frozenset(segment.base_offset for segment in log.archived.manifest.segments)
        )
        gone = frozenset(deletion.segment.base_offset for deletion in plan.deletions) & archived
        if gone or plan.log_start_offset > log.log_start_offset:
            found[log.entry_key] = Expiry(log.folder, plan.log_start_offset, gone)
    return found
