"""Topic settings about the files of a log: flush, roll, retention and compaction.

`records.check.Rules` has the settings about which records a log accepts.
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
    min_cleanable_dirty_ratio: float = DIRTY_RATIO_DEFAULT
    min_compaction_lag_ms: int = 0
    max_compaction_lag_ms: int = LAG_MS_UNLIMITED
    delete_retention_ms: int = DELETE_RETENTION_MS_DEFAULT
    segment_bytes: int = SEGMENT_BYTES_DEFAULT


@attrs.frozen(kw_only=True)
class FlushRules:
    """`flush.messages` and `flush.ms` of a log, as in Kafka's `LogConfig`.

    Attributes:
        messages: an acknowledgement waits for a sync once this many records are unsynced, including its own. NEVER: no
            acknowledgement waits.
        ms: records are synced at most this many milliseconds after their acknowledgement. NEVER: no deadline.
    """

    messages: int = NEVER
    ms: int = NEVER

    def __str__(self) -> str:
        if self.messages == 1:
            return "every record is synced before it is acknowledged"
        kept = [f"{self.messages} records of a partition"] if self.messages < NEVER else []
        kept += [f"{self.ms} ms"] if self.ms < NEVER else []
        when = f"within {' and '.join(kept)}" if kept else "when the operating system writes them"
        return f"records are acknowledged first and synced {when}; a power cut loses those that are not synced"

    def is_weaker_than(self, other: FlushRules) -> bool:
        """Return whether a power cut may lose records that `other` would keep."""
        if self.messages == 1:
            return False
        return self.messages > other.messages or self.ms > other.ms


@attrs.frozen(kw_only=True)
class LogPolicies:
    """All file settings of a topic, created once per topic and shared by its logs.

    Attributes:
        compaction: None if the topic is not compacted.
        file_delete_delay_ms: time between the deletion of a segment and of its files.
        producer_expiration_ms: time after which a silent producer is forgotten.
        flush: None for the journal's default flush rules.
    """

    roll: RollRules = attrs.field(factory=RollRules)
    retention: RetentionRules = attrs.field(factory=RetentionRules)
    compaction: CompactionRules | None = None
    file_delete_delay_ms: int = FILE_DELETE_DELAY_MS
    producer_expiration_ms: int = PRODUCER_EXPIRATION_MS
    flush: FlushRules | None = None


DEFAULT_POLICIES = LogPolicies()
