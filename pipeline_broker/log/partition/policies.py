"""What a topic's configuration says of the files of its logs.

Rules of this file: values only, made once per topic; what is accepted into a log is said by `records.check.Rules`.
"""

import attrs

from pipeline_broker.log.compaction.schedule import CompactionRules
from pipeline_broker.log.partition.retention import RetentionRules, RollRules

__all__ = ["DEFAULT_POLICIES", "LogPolicies"]

FILE_DELETE_DELAY_MS = 60_000
PRODUCER_EXPIRATION_MS = 86_400_000


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
