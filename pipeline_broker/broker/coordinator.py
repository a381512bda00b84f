"""The interface of all coordinators, and the internal topics that hold their records."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Protocol

import attrs

from pipeline_broker.log.journal.entry import IndexedLog, JournalEntry
from pipeline_broker.log.log_manager import LogManager
from pipeline_broker.log.partition.partition_log import PartitionLog
from pipeline_broker.records.batch import BatchBody, BatchHeader, NewRecord, build_batch, read_header
from pipeline_broker.state.metadata_records import Topic
from pipeline_broker.state.outcome import StateRecord
from pipeline_broker.state.partition_for import partition_for
from pipeline_broker.state.topics import TopicCatalogue

__all__ = ["Coordinator", "InternalTopic", "append_records"]

NO_PRODUCER_ID = NO_PRODUCER_EPOCH = -1


class Coordinator(Protocol):
    """A coordinator: state machines over the records of one internal topic.

    The broker replays the records at startup, passes in the time, and reports markers and deleted topics.
    """

    @property
    def topic(self) -> InternalTopic: ...

    def replay(self, partition: int, header: BatchHeader, change: Any, offset: int) -> None:
        """Apply one durable record of its topic.

        Args:
            header: header of the record's batch.
            change: the record, decoded by `record_readers`.

        Raises:
            MisplacedRecordError: the record cannot be applied; nothing has changed.
        """

    def replay_marker(self, partition: int, header: BatchHeader, batch: memoryview) -> None:
        """Apply a durable control batch of its topic, which ends a transaction."""

    def loaded(self, now_ms: int) -> None: ...

    def unload(self) -> None:
        """Drop all state: the topic was deleted."""

    def unload_partition(self, partition: int) -> None:
        """Drop the state of one partition: another broker will lead it."""

    def begin_loading(self) -> None:
        """Expect, in the same turn, the replay of partitions that this broker begins to lead."""

    def end_loading(self, partitions: Collection[int], now_ms: int) -> None:
        """Begin to coordinate these partitions with the replayed records."""

    def marker_durable(self, log: IndexedLog, producer_id: int, *, is_commit: bool) -> None:
        """Apply a transaction marker that became durable in a partition of its topic.

        Args:
            producer_id: producer of the transaction.
            is_commit: True if the records of the transaction take effect, False if they never do.
        """

    def topic_deleted(self, topic: Topic) -> None:
        """Drop state about another topic that was deleted."""

    def next_deadline_ms(self) -> int | None:
        """Return the time of the next `advance`; None if nothing is scheduled."""

    def advance(self, now_ms: int) -> None:
        """Do the work whose deadline has passed."""


@attrs.frozen(eq=False)
class InternalTopic:
    """An internal topic that holds the records of a coordinator.

    Attributes:
        name: name of the topic, as in Kafka.
        partitions: number of partitions when it is created.
        configs: settings when it is created.
    """

    name: str
    partitions: int
    configs: Mapping[str, str]
    _logs: LogManager
    _topics: TopicCatalogue

    @property
    def exists(self) -> bool:
        """True if the topic exists. The topic is created when a client looks for its coordinator."""
        return self._topics.get(self.name) is not None

    @property
    def logs(self) -> tuple[PartitionLog, ...]:
        """The partitions on this broker; empty if the topic does not exist."""
        return self._logs.partitions(self.name)

    def partition_of(self, subject: str) -> int:
        """Return the partition for the records of a group or transactional id, also before the topic exists."""
        topic = self._topics.get(self.name)
        return partition_for(subject, self.partitions if topic is None else topic.partitions)

    def log_of(self, subject: str) -> PartitionLog | None:
        """Return the log for the records of a subject; None if the topic does not exist or another broker has it."""
        return self._logs.find(self.name, self.partition_of(subject))


def append_records(
    log: PartitionLog,
    records: Sequence[StateRecord] | BatchBody,
    now_ms: int,
    producer: tuple[int, int] | None = None,
) -> JournalEntry:
    """Append records of a coordinator as one batch, which the caller commits.

    Args:
        log: partition of an internal topic.
        records: records in their order; many may be encoded as the body of a batch already.
        now_ms: wall clock.
        producer: id and epoch of the producer whose open transaction the records join; None for no transaction.

    Raises:
        LogError: the producer is fenced.
    """
    # A producer's batch is part of its transaction, so that a marker commits or aborts it (offsets of TxnOffsetCommit).
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
    assert entry is not None, "batches without sequence numbers have no duplicates"
    return entry
