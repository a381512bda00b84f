"""Where logs start because clients deleted what stood before, as records of the metadata partition.

    key   = int16 type, then                                value = int16 version 0, then
    8 log start     16 bytes topic id, int32 partition      JSON {"offset": the first offset that is left}

Rules of this file: see `state/outcome.py` and `state/metadata_records.py`, whose key types these continue. A start only
rises, in whatever order records are replayed: retention raises it too and keeps no record here, so the caller takes the
later of both. A start is known by the topic's id, so that a topic of the same name begins at 0; it is forgotten with
its topic, and a null value says so to those who read the records again.
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
    """A partition of a topic, and the first offset of it that is left."""

    topic_id: bytes
    partition: int
    offset: int


def read_log_start(key: bytes, value: bytes | None) -> tuple[bytes, int, int | None]:
    """Read the topic id and partition of a record, and where the log starts; raises CorruptStateRecordError."""
    with reading("log start"):
        topic_id, partition = _PARTITION.unpack(subject_of(key))
        return topic_id, partition, None if value is None else integer_of(object_of(value)["offset"], 0, INT64_MAX)


class LogStarts:
    """See the rules of the file."""

    def __init__(self) -> None:
        self._visible: dict[bytes, dict[int, int]] = {}
        self._latest: dict[bytes, dict[int, int]] = {}  # when all that is on its way is durable

    def get(self, topic_id: bytes, partition: int) -> int:
        """The first offset that clients left; 0 when they deleted nothing."""
        return self._visible.get(topic_id, {}).get(partition, 0)

    def raise_to(self, topic_id: bytes, partition: int, offset: int) -> Write | None:
        """Decide that a log starts at the offset at least; None when it does already, as everybody can see.

        What was decided before and is still on its way is decided again: each caller waits for a record of its own.
        """
        if offset <= self.get(topic_id, partition):
            return None
        partitions = self._latest.setdefault(topic_id, {})
        start = partitions[partition] = max(offset, partitions.get(partition, 0))
        record = StateRecord(_key(topic_id, partition), record_value(json.dumps({"offset": start})))
        return Write("", (record,), LogStart(topic_id, partition, start))

    def forget(self, topic_id: bytes) -> Write | None:
        """Decide that nothing is known of a topic any more, because it is deleted; None when nothing is.

        Its record must stand behind the one that deletes the topic, and nothing of the topic is decided after it.
        """
        partitions = self._latest.get(topic_id)
        if not partitions:
            return None
        return Write("", tuple(StateRecord(_key(topic_id, partition), None) for partition in sorted(partitions)))

    def durable(self, write: Write) -> LogStart | None:
        """The records of a change are durable; returns the start that rose, if one did."""
        for record in write.records:
            self.replay(record.key, record.value)
        assert write.change is None or isinstance(write.change, LogStart)
        return write.change

    def replay(self, key: bytes, value: bytes | None) -> None:
        """Take over one durable record; those of other subjects are read past.

        Raises:
            CorruptStateRecordError: it cannot be read.
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
                partitions[partition] = max(offset, partitions.get(partition, 0))

    def replayed(self, topic_ids: Collection[bytes]) -> None:
        """All records were replayed: forget topics that there are not, whose deletion was cut short."""
        for topic_id in self._visible.keys() - set(topic_ids):
            del self._visible[topic_id], self._latest[topic_id]


def _key(topic_id: bytes, partition: int) -> bytes:
    return _TYPE_KEY + _PARTITION.pack(topic_id, partition)
