"""The selection of the next log to compact.

Records in the journal count as the active segment, which is never cleaned.
"""

from __future__ import annotations

from collections.abc import Iterable

import attrs

from pipeline_broker.log.archive.manifest import PartitionManifest
from pipeline_broker.log.compaction.cleaner import LastRecord
from pipeline_broker.log.compaction.schedule import CleaningPlan, CompactedLog, next_plan
from pipeline_broker.log.partition.partition_log import PartitionLog
from pipeline_broker.log.partition.retention_of_logs import segments_of
from pipeline_broker.log.segments.policies import CompactionRules

__all__ = ["Round", "next_round"]


@attrs.frozen
class Round:
    """The input of a compaction round.

    Attributes:
        key: journal key of the log.
        manifest: manifest of the archived part.
        plan: the range to clean.
        last_records: last records of the log's producers, by producer id.
    """

    key: bytes
    manifest: PartitionManifest
    plan: CleaningPlan
    last_records: dict[int, LastRecord]


def _compacted(log: PartitionLog, manifest: PartitionManifest, rules: CompactionRules) -> CompactedLog:
    return CompactedLog(
        topic=log.topic,
        partition=log.partition,
        rules=rules,
        segments=segments_of(log),
        log_start_offset=log.log_start_offset,
        # Only archived segments are cleaned, and later transactions have no records in them.
        last_stable_offset=min((first for _, first in manifest.open_transactions), default=log.high_watermark),
        log_end_offset=log.high_watermark,
        checkpoint=manifest.first_dirty_offset,
    )


def next_round(logs: Iterable[PartitionLog], now_ms: int, *, is_forced: bool = False) -> Round | None:
    """Return the round for the log with the largest dirty ratio that should be compacted; None without one.

    With `is_forced`, every log with dirty segments qualifies.
    """
    found: dict[tuple[str, int], tuple[PartitionLog, PartitionManifest]] = {}
    compacted = []
    for log in logs:
        rules = log.policies.compaction
        if rules is not None and log.archived is not None:
            found[log.topic, log.partition] = log, log.archived.manifest
            compacted.append(_compacted(log, log.archived.manifest, rules))
    plan = next_plan(compacted, now_ms, is_forced=is_forced)
    if plan is None:
        return None
    log, manifest = found[plan.log.topic, plan.log.partition]
    last = {key: LastRecord(*values) for key, values in log.producers.last_offsets().items()}
    return Round(log.entry_key, manifest, plan, last)
