"""The metadata partition: topics, settings, users, access rules, quotas and features of the cluster.

Counterpart in Kafka: `MetadataImage`, `QuorumController` of KRaft.
"""

from __future__ import annotations

from collections.abc import Callable
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

__all__ = ["METADATA_TOPIC", "Change", "MetadataLog"]

Change: TypeAlias = tuple[Write, Callable[[Write], None]]
"""A write, and the function that applies it once it is durable."""
POLICIES = LogPolicies(retention=RetentionRules(delete=False), compaction=CompactionRules())


class MetadataLog:
    def __init__(self, logs: LogManager) -> None:
        self.log: PartitionLog
        (self.log,) = logs.create(METADATA_TOPIC, METADATA_TOPIC_ID, 1, Rules(size_max=2**31 - 1), POLICIES)

    def append(self, write: Write, now_ms: int) -> JournalEntry:
        """Append the records of a write as one batch. The caller commits the entry."""
        batch = build_batch(write.body or [NewRecord(record.value, record.key, now_ms) for record in write.records])
        entry = self.log.append(read_header(batch), batch, now_ms).entry
        assert entry is not None, "no producer, so no duplicate"
        return entry
