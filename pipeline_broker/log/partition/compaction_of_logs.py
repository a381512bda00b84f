"""Compaction applied to logs: which one is cleaned next, and what a round of it must know.

Rules of this file: decided on the event loop from what the logs look like; what lies in the journal is the active
segment, which is never cleaned.
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
    """A round of compaction that is worth its work.

    Attributes:
        key: of the log.
        manifest: what the archive holds of it.
        plan: what may be cleaned.
        last_records: of its live producers.
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
        last_stable_offset=min((first for _, first in manifest.open_transactions), default=log.high_watermark),
        log_end_offset=log.high_watermark,
        checkpoint=manifest.first_dirty_offset,
    )


def next_round(logs: Iterable[PartitionLog], now_ms: int, *, is_forced: bool = False) -> Round | None:
    """The round of the dirtiest log that is due; of any with something dirty in it when it is forced."""
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
