"""Records of `__share_group_state`, in Kafka's layouts.

Rules of this file: bytes and values, no decisions. A key is its type in two bytes, then the fields; a value its version
in two bytes, then the fields. What does not make sense is a CorruptStateRecordError; a type that is not known belongs
to a newer broker and is stepped over.
"""

from __future__ import annotations

import struct
from typing import NamedTuple, TypeVar

from pipeline_broker.state.errors import CorruptStateRecordError
from pipeline_broker.state.outcome import StateRecord
from pipeline_broker.state.share_partitions.messages import StateBatch
from pipeline_broker.state.share_partitions.record_state import RecordState
from pipeline_broker.wire.codec import DecodeError, decode, encode, versions_of
from pipeline_broker.wire.messages.share_state_records import (
    ShareSnapshotKey,
    ShareSnapshotValue,
    ShareUpdateKey,
    ShareUpdateValue,
)

__all__ = [
    "ShareKey",
    "read_batches",
    "read_key",
    "read_snapshot",
    "read_update",
    "snapshot_record",
    "tombstone_record",
    "update_record",
]

Message = TypeVar("Message", ShareSnapshotKey, ShareSnapshotValue, ShareUpdateKey, ShareUpdateValue)
Value = ShareSnapshotValue | ShareUpdateValue

NUMBER = struct.Struct(">h")
VERSION = 0
SNAPSHOT, UPDATE = 0, 1


class ShareKey(NamedTuple):
    """One partition of one group."""

    group_id: str
    topic_id: bytes
    partition: int


def read_key(data: bytes) -> tuple[ShareKey, bool] | None:
    """The share partition that a record is about, and whether it is a snapshot; None for a type that is not known."""
    kind = _number(data)
    if kind == SNAPSHOT:
        key: ShareSnapshotKey | ShareUpdateKey = _read(ShareSnapshotKey, data, VERSION)
    elif kind == UPDATE:
        key = _read(ShareUpdateKey, data, VERSION)
    else:
        return None
    return ShareKey(key.group_id, key.topic_id, key.partition), kind == SNAPSHOT


def snapshot_record(key: ShareKey, value: ShareSnapshotValue) -> StateRecord:
    """All that is known of a share partition."""
    return StateRecord(_key(SNAPSHOT, ShareSnapshotKey(*key)), _value(value))


def update_record(key: ShareKey, value: ShareUpdateValue) -> StateRecord:
    """What has changed since the last snapshot."""
    return StateRecord(_key(UPDATE, ShareUpdateKey(*key)), _value(value))


def tombstone_record(key: ShareKey) -> StateRecord:
    """The share partition is forgotten."""
    return StateRecord(_key(SNAPSHOT, ShareSnapshotKey(*key)), None)


def read_snapshot(data: bytes) -> ShareSnapshotValue:
    """The value of a snapshot."""
    return _read(ShareSnapshotValue, data, _number(data))


def read_update(data: bytes) -> ShareUpdateValue:
    """The value of an update."""
    return _read(ShareUpdateValue, data, _number(data))


def read_batches(value: Value) -> list[StateBatch]:
    """The batches in a value; an unknown state is corrupt."""
    try:
        return [
            StateBatch(batch.first_offset, batch.last_offset, RecordState(batch.delivery_state), batch.delivery_count)
            for batch in value.state_batches
        ]
    except ValueError as error:
        raise CorruptStateRecordError(str(error)) from error


def _key(kind: int, key: ShareSnapshotKey | ShareUpdateKey) -> bytes:
    return b"".join([NUMBER.pack(kind), *encode(key, VERSION)])


def _value(value: Value) -> bytes:
    return b"".join([NUMBER.pack(VERSION), *encode(value, VERSION)])


def _number(data: bytes) -> int:
    if len(data) < NUMBER.size:
        raise CorruptStateRecordError("a record of share state is too short for its type or version")
    return int(NUMBER.unpack_from(data)[0])


def _read(message: type[Message], data: bytes, version: int) -> Message:
    if version not in versions_of(message):
        raise CorruptStateRecordError(f"{message.__name__} has no version {version}")
    try:
        return decode(message, version, data, NUMBER.size)[0]
    except DecodeError as error:
        raise CorruptStateRecordError(f"{message.__name__}: {error}") from error
