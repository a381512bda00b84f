"""The log of the metadata partition: topics, settings, rules and all else that the cluster is told about itself.

Rules of this file: What is appended must be committed, and applied when durable.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from pipeline_broker.log.journal.entry import JournalEntry
from pipeline_broker.log.log_manager import LogManager
from pipeline_broker.log.partition.partition_log import PartitionLog
from pipeline_broker.log.segments.policies import CompactionRules, LogPolicies
from pipeline_broker.log.segments.retention import RetentionRules
from pipeline_broker.records.batch import NewRecord, build_batch, read_header
from pipeline_broker.records.check import Rules
from pipeline_broker.state.internal_topics import METADATA_TOPIC
from pipeline_broker.state.metadata_records import METADATA_TOPIC_ID
from pipeline_broker.state.outcome import Write
from stages.request import Final, Pending

__all__ = ["METADATA_TOPIC", "Change", "MetadataLog"]

Change: TypeAlias = tuple[Write, Callable[[Write], None]]
"""What was decided, and what applies it when it is durable."""
POLICIES = LogPolicies(retention=RetentionRules(delete=False), compaction=CompactionRules())


class MetadataLog:
    """See above."""

    def __init__(self, logs: LogManager) -> None:
        self.log: PartitionLog
        (self.log,) = logs.create(METADATA_TOPIC, METADATA_TOPIC_ID, 1, Rules(size_max=2**31 - 1), POLICIES)

    def append(self, write: Write, now_ms: int) -> JournalEntry:
        """Append records that state returned, as one batch."""
        batch = build_batch([NewRecord(record.value, record.key, now_ms) for record in write.records])
        entry = self.log.append(read_header(batch), batch, now_ms).entry
        assert entry is not None, "no producer, so no duplicate"
        return entry

    def commit(self, changes: Sequence[Change], now_ms: int, answer: Final) -> Pending | Final:
        """Make changes durable, apply them, then answer.

        Args:
            changes: what was decided.
            now_ms: the records' timestamp.
            answer: what ends the request's slot.
        """
        if not changes:
            return answer
        changes = tuple(changes)

        def apply() -> None:
            for write, durable in changes:
                durable(write)

        return Pending([self.append(write, now_ms) for write, _ in changes], answer, apply)
