"""What a topic's configuration says of the files of its logs.

Rules of this file: values only, made once per topic; what is accepted into a log is said by `records.check.Rules`.
"""

from __future__ import annotations

import attrs

from pipeline_broker.log.segments.retention import (
    LAG_MS_UNLIMITED,
    SEGMENT_BYTES_DEFAULT,
    RetentionRules,
    RollRules,
)

__all__ = ["DEFAULT_POLICIES", "NEVER", "CompactionRules", "FlushRules", "LogPolicies"]

DIRTY_RATIO_DEFAULT = 0.5
DELETE_RETENTION_MS_DEFAULT = 24 * 3600 * 1000
FILE_DELETE_DELAY_MS = 60_000
PRODUCER_EXPIRATION_MS = 86_400_000
NEVER = 2**63 - 1


@attrs.frozen(kw_only=True)
class CompactionRules:
    """What a compacted topic's configuration says."""

    min_cleanable_dirty_ratio: float = DIRTY_RATIO_DEFAULT
    min_compaction_lag_ms: int = 0
    max_compaction_lag_ms: int = LAG_MS_UNLIMITED
    delete_retention_ms: int = DELETE_RETENTION_MS_DEFAULT
    segment_bytes: int = SEGMENT_BYTES_DEFAULT


@attrs.frozen(kw_only=True)
class FlushRules:
    """When the records of a log are synced to the disk, as in Kafka's `LogConfig`.

    Attributes:
        messages: an acknowledgement waits for a sync when so many records are not synced, its own among them; NEVER
            where none waits.
        ms: records are synced so many milliseconds after their acknowledgement; NEVER where they need not be.
    """

    messages: int = NEVER
    ms: int = NEVER

    def __str__(self) -> str:
        """What it means for a power cut."""
        if self.messages == 1:
            return "every record is synced before it is acknowledged"
        kept = [f"{self.messages} records of a partition"] if self.messages < NEVER else []
        kept += [f"{self.ms} ms"] if self.ms < NEVER else []
        when = f"within {' and '.join(kept)}" if kept else "when the system does so"
        return f"records are acknowledged first and synced {when}; a power cut loses those that are not synced"

    def is_weaker_than(self, other: FlushRules) -> bool:
        """Whether a power cut may lose records that `other` would have kept."""
        if self.messages == 1:
            return False
        return self.messages > other.messages or self.ms > other.ms


@attrs.frozen(kw_only=True)
class LogPolicies:
    """When segments end, what is deleted, what is compacted, what is synced.

    Attributes:
        roll: when a segment ends.
        retention: what is deleted.
        compaction: how records are compacted by key; None where they are not.
        file_delete_delay_ms: how long the files of a deleted segment stay.
        producer_expiration_ms: how long a silent producer is remembered.
        flush: when records are synced; None: as the journal was opened with.
    """

    roll: RollRules = attrs.field(factory=RollRules)
    retention: RetentionRules = attrs.field(factory=RetentionRules)
    compaction: CompactionRules | None = None
    file_delete_delay_ms: int = FILE_DELETE_DELAY_MS
    producer_expiration_ms: int = PRODUCER_EXPIRATION_MS
    flush: FlushRules | None = None


DEFAULT_POLICIES = LogPolicies()
