"""What every coordinator at work has in common, and the internal topic that its records go to.

Rules of this file: A coordinator owns the state that its topic's records say; the
broker shows it these records at the start, its time, and what becomes of topics.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import attrs

from pipeline_broker.log.journal.entry import IndexedLog, JournalEntry
from pipeline_broker.log.log_manager import LogManager
from pipeline_broker.log.partition.partition_log import PartitionLog
from pipeline_broker.records.batch import BatchBody, BatchHeader, NewRecord, build_batch, read_header
from pipeline_broker.state.metadata_records import Topic
from pipeline_broker.state.outcome import StateRecord
from pipeline_broker.state.partition_for import partition_for

__all__ = ["Coordinator", "InternalTopic"]

NO_PRODUCER_ID = NO_PRODUCER_EPOCH = -1


class Coordinator(Protocol):
    """What the broker asks of a coordinator.

    Attributes:
        topic: where its records are.
    """

    @property
    def topic(self) -> InternalTopic: ...

    def replay(self, partition: int, header: BatchHeader, change: Any, offset: int) -> None:
        """Take over one durable record of its topic.

        Args:
            header: of the record's batch.
            change: the record as `record_readers` has read it.
            offset: of the record.

        Raises:
            MisplacedRecordError: it cannot be taken over; nothing has changed.
        """

    def replay_marker(self, partition: int, header: BatchHeader, batch: memoryview) -> None:
        """Take over a durable control batch of its topic, the end of a transaction."""

    def loaded(self, now_ms: int) -> None:
        """All batches are replayed."""

    def unload(self) -> None:
        """The topic is gone, and all that its records said."""

    def marker_durable(self, log: IndexedLog, producer_id: int, *, is_commit: bool) -> None:
        """The marker of a transaction in a partition of its topic is durable.

        Args:
            producer_id: whose transaction has ended there.
            is_commit: whether what was written for it counts from now on, or never will.
        """

    def topic_deleted(self, topic: Topic) -> None:
        """Some other topic is gone."""

    def next_deadline_ms(self) -> int | None:
        """When `advance` has something to do."""

    def advance(self, now_ms: int) -> None:
        """Do what is due."""


@attrs.frozen(eq=False)
class InternalTopic:
    """A topic that holds the records of a coordinator.

    Attributes:
        name: Kafka's.
        partitions: how many it is created with.
        configs: its settings from the beginning.
    """

    name: str
    partitions: int
    configs: Mapping[str, str]
    _logs: LogManager

    @property
    def exists(self) -> bool:
        """Whether there is a place for records; clients make one by asking for their coordinator."""
        return self._logs.find(self.name, 0) is not None

    @property
    def logs(self) -> tuple[PartitionLog, ...]:
        """The partitions, by number; none while there is no topic."""
        return self._logs.partitions(self.name)

    def log_of(self, subject: str) -> PartitionLog | None:
        """The partition that holds the records about a group or a transactional id; None while there is no topic."""
        logs = self._logs.partitions(self.name)
        return logs[partition_for(subject, len(logs))] if logs else None

    def append(
        self,
        subject: str,
        records: Sequence[StateRecord] | BatchBody,
        now_ms: int,
        producer: tuple[int, int] | None = None,
    ) -> JournalEntry | None:
        """Append records as one batch, which must be committed; None when there is no place for them.

        Args:
            subject: decides the partition.
            records: in their order; where they are many, maybe as the body of their batch.
            now_ms: wall clock.
            producer: id and epoch of the one whose transaction they are part of; it must have one.

        Raises:
            LogError: the producer is fenced.
        """
        log = self.log_of(subject)
        if log is None:
            return None
        producer_id, epoch = producer or (NO_PRODUCER_ID, NO_PRODUCER_EPOCH)
        batch = build_batch(
            records
            if isinstance(records, BatchBody)
            else [NewRecord(record.value, record.key, now_ms) for record in records],
            producer_id=producer_id,
            producer_epoch=epoch,
            transactional=producer is not None,
        )
        entry = log.append(read_header(batch), batch, now_ms).entry
        assert entry is not None, "no sequence number, so no duplicate"
        return entry
