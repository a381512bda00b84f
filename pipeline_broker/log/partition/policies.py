"""What a topic's configuration says of the files of its logs.

Rules of this file: values only, made once per topic; what is accepted into a log is said by `records.check.Rules`.
"""

import attrs

from pipeline_broker.log.partition.retention import (
    LAG_MS_UNLIMITED,
    SEGMENT_BYTES_DEFAULT,
    RetentionRules,
    RollRules,
)

__all__ = ["DEFAULT_POLICIES", "CompactionRules", "LogPolicies"]

DIRTY_RATIO_DEFAULT = 0.5
DELETE_RETENTION_MS_DEFAULT = 24 * 3600 * 1000
FILE_DELETE_DELAY_MS = 60_000
PRODUCER_EXPIRATION_MS = 86_400_000


@attrs.frozen(kw_only=True)
class CompactionRules:
    """What a compacted topic's configuration says."""

    min_cleanable_dirty_ratio: float = DIRTY_RATIO_DEFAULT
    min_compaction_lag_ms: int = 0
    max_compaction_lag_ms: int = LAG_MS_UNLIMITED
    delete_retention_ms: int = DELETE_RETENTION_MS_DEFAULT
    segment_bytes: int = SEGMENT_BYTES_DEFAULT


@attrs.frozen(kw_only=True)
class LogPolicies:
    """When segments end, what is deleted, what is compacted.

    Attributes:
        roll: when a segment ends.
        retention: what is deleted.
        compaction: how records are compacted by key; None where they are not.
        file_delete_delay_ms: how long the files of a deleted segment stay.
        producer_expiration_ms: how long a silent producer is remembered.
    """

    roll: RollRules = attrs.field(factory=RollRules)
    retention: RetentionRules = attrs.field(factory=RetentionRules)
    compaction: CompactionRules | None = None
    file_delete_delay_ms: int = FILE_DELETE_DELAY_MS
    producer_expiration_ms: int = PRODUCER_EXPIRATION_MS


DEFAULT_POLICIES = LogPolicies()
