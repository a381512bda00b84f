"""The replay of internal topics at startup.

Counterpart in Kafka: `CoordinatorLoaderImpl`; an unreadable record is set aside and the partition is served.
"""

from __future__ import annotations

from collections.abc import Callable

from pipeline_broker.broker.coordinator import Coordinator
from pipeline_broker.broker.coordinators import Coordinators
from pipeline_broker.broker.record_readers import is_known_of, reader_of
from pipeline_broker.log.partition.partition_log import PartitionLog
from pipeline_broker.records.batch import BatchHeader
from pipeline_broker.records.errors import RecordError
from pipeline_broker.records.record import Record, chosen_records
from pipeline_broker.state.errors import StateRecordError
from pipeline_broker.state.set_aside import SetAside

__all__ = ["StateReplay"]


class StateReplay:
    """The replay of durable records of internal topics, one batch at a time. A callback of `LogManager.recover`.

    A record that cannot be decoded or applied is set aside: the startup continues as if it did not exist. Kafka's
    CoordinatorLoaderImpl gives up the whole partition instead. Damaged files are not handled here: checksums of the
    journal and the archive find them, and the startup fails.

    Args:
        coordinators: apply the records of their topics.
        metadata_log: the log of `__cluster_metadata`.
        replay_metadata: applies a record of the metadata partition, given key and value; raises StateRecordError if it
            cannot be decoded or applied.
        set_aside: receives the records that are set aside.
    """

    def __init__(
        self,
        coordinators: Coordinators,
        metadata_log: PartitionLog,
        replay_metadata: Callable[[bytes, bytes | None], None],
        set_aside: SetAside,
    ) -> None:
        self._coordinators = coordinators
        self._metadata_log = metadata_log
        self._replay_metadata = replay_metadata
        self._set_aside = set_aside

    def is_state(self, log: PartitionLog) -> bool:
        """Return whether the records of a log are kept in memory as state."""
        return log is self._metadata_log or log.topic in self._coordinators

    def __call__(self, log: PartitionLog, header: BatchHeader, batch: memoryview) -> None:
        coordinator = self._coordinators.get(log.topic)
        if coordinator is None and log is not self._metadata_log:
            return
        if header.is_control:
            if coordinator is not None:
                coordinator.replay_marker(log.partition, header, batch)
            return
        offset = header.base_offset
        try:
            # Records of unknown types are skipped before they are decoded, since a client may have written millions of
            # them.
            for at, record in chosen_records(batch, header, is_known_of(log.topic)):
                offset = at
                if record is not None:
                    try:
                        self._apply(log, coordinator, header, record)
                    except StateRecordError as error:
                        self._set_aside.add(log.topic, log.partition, offset, error)
                offset += 1
        except RecordError as error:  # not damaged: the checksum is right, so the batch was written like this
            self._set_aside.add(log.topic, log.partition, offset, error)

    def _apply(self, log: PartitionLog, coordinator: Coordinator | None, header: BatchHeader, record: Record) -> None:
        key = record.key or b""
        if coordinator is None:
            self._replay_metadata(key, record.value)
            return
        reader = reader_of(log.topic)
        assert reader is not None, "the topic of every coordinator has a reader"
        change = reader(key, record.value)
        if change is not None:
            coordinator.replay(log.partition, header, change, record.offset)
