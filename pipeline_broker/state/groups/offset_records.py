"""Records of `__consumer_offsets` in Kafka's layouts: the common parts, and the records of committed offsets.

    key   = int16 type, fields        0 or 1: group, topic, partition of a committed offset
    value = int16 version, fields     null: a tombstone

The records of each group protocol are next to it (`groups/classic/records.py`). Unknown types are skipped: another
version of the broker wrote them.
"""

from __future__ import annotations

import functools
import struct
from typing import NamedTuple

from pipeline_broker.state.coordinator_records import read_record_key, read_record_value, record_key, record_value
from pipeline_broker.state.outcome import StateRecord
from pipeline_broker.wire.messages.groups.offset_commit_record import OffsetCommitKey, OffsetCommitValue
from pipeline_broker.wire.primitives import write_uvarint

__all__ = [
    "NO_TOPIC_ID",
    "OFFSET_TYPES",
    "CommittedOffset",
    "OffsetKey",
    "offset_from_value",
    "offset_key",
    "offset_record",
    "offset_tombstone",
]

NO_TOPIC_ID = bytes(16)
OFFSET_TYPES = frozenset({0, 1})
"""Key types of committed offsets; both have the same fields."""
_OFFSET_VALUE_VERSION = 3
_OFFSET_VALUE_VERSION_EXPIRING = 1  # the only version with an expiration time
_OFFSET_VALUE_VERSION_TOPIC_ID = 4


_PARTITION = struct.Struct(">i")
_LENGTH = struct.Struct(">h")
_TIME = struct.Struct(">q")
# Values since version 3: version, offset, leader epoch.
_VALUE_HEAD = struct.Struct(">hqi")
# After the metadata: commit timestamp, number of tags, tag number, tag size, topic id.
_TOPIC_ID_TAIL = struct.Struct(">qBBB16s")
# A commit names many partitions of few topics.
TOPICS_REMEMBERED = 256
"""Remembered keys of group records: topics."""


class CommittedOffset(NamedTuple):
    """The committed offset of a group in one partition.

    Attributes:
        expire_timestamp_ms: set for old clients that send their own retention time; -1 otherwise.
        topic_id: id of the topic that the client named; zeros if the client did not know it.
    """

    offset: int
    leader_epoch: int = -1
    metadata: str = ""
    commit_timestamp_ms: int = -1
    expire_timestamp_ms: int = -1
    topic_id: bytes = NO_TOPIC_ID


class OffsetKey(NamedTuple):
    group_id: str
    topic: str
    partition: int


def offset_key(key: bytes) -> OffsetKey:
    read = read_record_key(OffsetCommitKey, key)
    return OffsetKey(read.group, read.topic, read.partition)


def offset_record(key: OffsetKey, committed: CommittedOffset) -> StateRecord:
    metadata = committed.metadata.encode()
    if committed.expire_timestamp_ms >= 0:
        value = OffsetCommitValue(
            offset=committed.offset,
            metadata=committed.metadata,
            commit_timestamp=committed.commit_timestamp_ms,
            expire_timestamp=committed.expire_timestamp_ms,
        )
        return StateRecord(_offset_key(key), record_value(_OFFSET_VALUE_VERSION_EXPIRING, value))
    # One request may commit thousands of offsets. Packing the common layouts here takes a third of the codec's time.
    if committed.topic_id == NO_TOPIC_ID:
        parts = (
            _VALUE_HEAD.pack(_OFFSET_VALUE_VERSION, committed.offset, committed.leader_epoch),
            _LENGTH.pack(len(metadata)),
            metadata,
            _TIME.pack(committed.commit_timestamp_ms),
        )
    else:
        parts = (
            _VALUE_HEAD.pack(_OFFSET_VALUE_VERSION_TOPIC_ID, committed.offset, committed.leader_epoch),
            write_uvarint(len(metadata) + 1),
            metadata,
            _TOPIC_ID_TAIL.pack(committed.commit_timestamp_ms, 1, 0, 16, committed.topic_id),
        )
    return StateRecord(_offset_key(key), b"".join(parts))


def offset_tombstone(key: OffsetKey) -> StateRecord:
    return StateRecord(_offset_key(key), None)


def offset_from_value(value: bytes) -> CommittedOffset:
    read = read_record_value(OffsetCommitValue, value)
    return CommittedOffset(
        read.offset,
        read.leader_epoch,
        read.metadata,
        read.commit_timestamp,
        read.expire_timestamp,
        read.topic_id,
    )


def _offset_key(key: OffsetKey) -> bytes:
    return _key_head(key.group_id, key.topic) + _PARTITION.pack(key.partition)


@functools.lru_cache(TOPICS_REMEMBERED)
def _key_head(group_id: str, topic: str) -> bytes:
    # The partition number is the last field of the key.
    return record_key(1, OffsetCommitKey(group=group_id, topic=topic, partition=0))[: -_PARTITION.size]
