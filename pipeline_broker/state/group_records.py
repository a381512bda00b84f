"""Records of `__consumer_offsets`, with Kafka's own layouts: what all have in common, and those of committed offsets.

    key   = int16 type, fields        0 or 1: group, topic, partition of a committed offset
    value = int16 version, fields     or null: what the key is about is gone

Rules of this file: the records of a kind of groups are read and written beside it (`classic_groups/records.py`,
`consumer_groups/records.py`); types that nobody knows belong to brokers of another age and are read past.
"""

from __future__ import annotations

import functools
import struct
from typing import Any, NamedTuple, TypeVar

from pipeline_broker.state.errors import CorruptStateRecordError
from pipeline_broker.state.outcome import StateRecord
from pipeline_broker.wire.codec import DecodeError, decode, encode, versions_of
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
    "read_record_key",
    "read_record_value",
    "record_key",
    "record_type",
    "record_value",
]

NO_TOPIC_ID = bytes(16)
_TYPE = struct.Struct(">h")
OFFSET_TYPES = frozenset({0, 1})
"""Committed offsets; type 0 has the same key."""
_OFFSET_VALUE_VERSION = 3
_OFFSET_VALUE_VERSION_EXPIRING = 1  # the only one that says when the offset expires
_OFFSET_VALUE_VERSION_TOPIC_ID = 4


_PARTITION = struct.Struct(">i")
_LENGTH = struct.Struct(">h")
_TIME = struct.Struct(">q")
_VALUE_HEAD = struct.Struct(">hqi")
"""Of values since version 3: version, offset, leader epoch."""
_TOPIC_ID_TAIL = struct.Struct(">qBBB16s")
"""Behind the metadata: the time of the commit, and one tag, which is number 0 and has 16 bytes."""
TOPICS_REMEMBERED = 256
"""The beginnings of the keys of so many topics of groups: a commit is about many partitions of few topics."""

Message = TypeVar("Message")


class CommittedOffset(NamedTuple):
    """Where a group is in one partition.

    Attributes:
        expire_timestamp_ms: set by clients of old that bring their own retention; -1 otherwise.
        topic_id: of the topic that was meant; zeros when the client did not know.
    """

    offset: int
    leader_epoch: int = -1
    metadata: str = ""
    commit_timestamp_ms: int = -1
    expire_timestamp_ms: int = -1
    topic_id: bytes = NO_TOPIC_ID


class OffsetKey(NamedTuple):
    """What an offset record is about."""

    group_id: str
    topic: str
    partition: int


def record_type(key: bytes) -> int:
    """What a record is about; raises CorruptStateRecordError."""
    if len(key) < _TYPE.size:
        raise CorruptStateRecordError("the key is too short for its type")
    return int(_TYPE.unpack_from(key)[0])


def record_key(kind: int, message: Any) -> bytes:
    """The key of a record."""
    return b"".join([_TYPE.pack(kind), *encode(message, 0)])


def read_record_key(message: type[Message], key: bytes) -> Message:
    """Read the fields of a key; raises CorruptStateRecordError."""
    try:
        return decode(message, 0, key, _TYPE.size)[0]
    except DecodeError as error:
        raise CorruptStateRecordError(f"key of type {record_type(key)}: {error}") from error


def record_value(version: int, message: Any) -> bytes:
    """The value of a record."""
    return b"".join([_TYPE.pack(version), *encode(message, version)])


def read_record_value(message: type[Message], value: bytes) -> Message:
    """Read a value in the version that it names; raises CorruptStateRecordError."""
    if len(value) < _TYPE.size:
        raise CorruptStateRecordError("the value is too short for its version")
    (version,) = _TYPE.unpack_from(value)
    if version not in versions_of(message):
        raise CorruptStateRecordError(f"{message.__name__} has no version {version}")
    try:
        return decode(message, version, value, _TYPE.size)[0]
    except DecodeError as error:
        raise CorruptStateRecordError(f"{message.__name__}: {error}") from error


def offset_key(key: bytes) -> OffsetKey:
    """Read the key of an offset record; raises CorruptStateRecordError."""
    read = read_record_key(OffsetCommitKey, key)
    return OffsetKey(read.group, read.topic, read.partition)


def offset_record(key: OffsetKey, committed: CommittedOffset) -> StateRecord:
    """The record of a committed offset.

    A commit may be about thousands of them, so the layouts in use are packed here, in a third of the codec's time.
    """
    metadata = committed.metadata.encode()
    if committed.expire_timestamp_ms >= 0:
        value = OffsetCommitValue(
            offset=committed.offset,
            metadata=committed.metadata,
            commit_timestamp=committed.commit_timestamp_ms,
            expire_timestamp=committed.expire_timestamp_ms,
        )
        return StateRecord(_offset_key(key), record_value(_OFFSET_VALUE_VERSION_EXPIRING, value))
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
    """The record that says that an offset is gone."""
    return StateRecord(_offset_key(key), None)


def offset_from_value(value: bytes) -> CommittedOffset:
    """Read the value of an offset record."""
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
    """The key of any partition of a topic, without the partition's number."""
    return record_key(1, OffsetCommitKey(group=group_id, topic=topic, partition=0))[: -_PARTITION.size]
