"""Log start offsets that DeleteRecords raised, as records of the metadata partition.

    key   = int16 type, then                                value = int16 version 0, then
    8 log start     16 bytes topic id, int32 partition      JSON {"offset": the first remaining offset}

A null value deletes the entry. The key types continue those of `metadata_records.py`.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Collection
from typing import NamedTuple

from pipeline_broker.state.metadata_records import (
    INT64_MAX,
    RecordType,
    integer_of,
    object_of,
    reading,
    record_key,
    record_type,
    record_value,
    subject_of,
)
from pipeline_broker.state.outcome import StateRecord, Write

__all__ = ["LogStart", "LogStarts", "read_log_start"]

_PARTITION = struct.Struct(">16si")
_TYPE_KEY = record_key(RecordType.LOG_START)


class LogStart(NamedTuple):
    topic_id: bytes
    partition: int
    offset: int


def read_log_start(key: bytes, value: bytes | None) -> tuple[bytes, int, int | None]:
    """Decode a record to topic id, partition and log start offset; the offset is None for a tombstone.

    Raises:
        CorruptStateRecordError: the record cannot be decoded.
    """
    with reading("log start"):
        topic_id, partition = _PARTITION.unpack(subject_of(key))
        return topic_id, partition, None if value is None else integer_of(object_of(value)["offset"], 0, INT64_MAX)


class LogStarts:
    """Log start offsets by topic id and partition.

    An offset only rises, in whatever order records are replayed. Retention raises log starts too and writes no record
    here. So callers use the larger of the two offsets.
    """

    def __init__(self) -> None:
        # By topic id rather than name: a new topic of the same name must begin at offset 0.
        self._visible: dict[bytes, dict[int, int]] = {}
        self._latest: dict[bytes, dict[int, int]] = {}  # includes changes that are not durable yet

    def get(self, topic_id: bytes, partition: int) -> int:
        """Return the durable log start offset; 0 if clients deleted nothing."""
        return self._visible.get(topic_id, {}).get(partition, 0)

    def raise_to(self, topic_id: bytes, partition: int, offset: int) -> Write | None:
        """Raise the log start offset to at least `offset`; return the write, or None if the durable offset suffices."""
        # Compared with the durable offset: a caller whose offset is pending gets a record of its own to wait for.
        if offset <= self.get(topic_id, partition):
            return None
        partitions = self._latest.setdefault(topic_id, {})
        start = partitions[partition] = max(offset, partitions.get(partition, 0))
        record = StateRecord(_key(topic_id, partition), record_value(json.dumps({"offset": start})))
        return Write("", (record,), LogStart(topic_id, partition, start))

    def forget(self, topic_id: bytes) -> Write | None:
        """Return the write that deletes all entries of a topic; None if the topic has none.

        The caller appends the tombstones after the record that deletes the topic, and raises no offset of the topic
        afterwards.
        """
        partitions = self._latest.get(topic_id)
        if not partitions:
            return None
        return Write("", tuple(StateRecord(_key(topic_id, partition), None) for partition in sorted(partitions)))

    def durable(self, write: Write) -> LogStart | None:
        """Make a change visible; return the log start that rose, or None after `forget`."""
        for record in write.records:
            self.replay(record.key, record.value)
        assert write.change is None or isinstance(write.change, LogStart)
        return write.change

    def replay(self, key: bytes, value: bytes | None) -> None:
        """Apply one durable record; ignore records of other types.

        Raises:
            CorruptStateRecordError: the record cannot be decoded.
        """
        if record_type(key) != RecordType.LOG_START:
            return
        topic_id, partition, offset = read_log_start(key, value)
        for starts in (self._visible, self._latest):
            if offset is None:
                starts.get(topic_id, {}).pop(partition, None)
                if not starts.get(topic_id, True):
                    del starts[topic_id]
            else:
                partitions = starts.setdefault(topic_id, {})
                # Compacted and archived records may be replayed twice, or after later ones.
                partitions[partition] = max(offset, partitions.get(partition, 0))

    def replayed(self, topic_ids: Collection[bytes]) -> None:
        """Drop entries of topics that do not exist, once all records are replayed.

        Args:
            topic_ids: ids of the existing topics.
        """
        # A crash between the records of a deletion and these tombstones leaves them.
        for topic_id in self._visible.keys() - set(topic_ids):
            del self._visible[topic_id], self._latest[topic_id]


def _key(topic_id: bytes, partition: int) -> bytes:
    return _TYPE_KEY + _PARTITION.pack(topic_id, partition)
