"""Replay at a start: every durable record of an internal topic is read, then applied, one at a time.

Rules of this file: A record of a type that is not known is stepped over before it is taken apart. One that cannot be
read, or not applied, is set aside: all state is as if it did not exist, and everything else is served. Apache Kafka's
CoordinatorLoaderImpl gives up the partition instead. Damage of the journal and the archive is found below, by
checksums, and stops the start.
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
    """Called for every batch of every log, in order; see LogManager.recover.

    Args:
        coordinators: take over the records of their topics.
        metadata_log: the metadata partition.
        replay_metadata: takes over one record of that, given its key and value; raises StateRecordError.
        set_aside: what is left out.
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
        """Whether what a log says is kept in memory."""
        return log is self._metadata_log or log.topic in self._coordinators

    def __call__(self, log: PartitionLog, header: BatchHeader, batch: memoryview) -> None:
        """Take over what a batch says, if it holds state."""
        coordinator = self._coordinators.get(log.topic)
        if coordinator is None and log is not self._metadata_log:
            return
        if header.is_control:
            if coordinator is not None:
                coordinator.replay_marker(log.partition, header, batch)
            return
        offset = header.base_offset
        try:
            for at, record in chosen_records(batch, header, is_known_of(log.topic)):
                offset = at
                if record is not None:
                    try:
                        self._take_over(log, coordinator, header, record)
                    except StateRecordError as error:
                        self._set_aside.add(log.topic, log.partition, offset, error)
                offset += 1
        except RecordError as error:  # no damage, as the checksum is right: it was written like that
            self._set_aside.add(log.topic, log.partition, offset, error)

    def _take_over(
        self, log: PartitionLog, coordinator: Coordinator | None, header: BatchHeader, record: Record
    ) -> None:
        key = record.key or b""
        if coordinator is None:
            self._replay_metadata(key, record.value)
            return
        reader = reader_of(log.topic)
        assert reader is not None, "the topic of every coordinator has one"
        change = reader(key, record.value)
        if change is not None:
            coordinator.replay(log.partition, header, change, record.offset)
