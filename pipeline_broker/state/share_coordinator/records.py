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
from pipeline_broker.wire.messages.share.share_state_records import (
    ShareSnapshotKey,
    ShareSnapshotValue,
    ShareUpdateKey,
    ShareUpdateValue,
)

__all__ = [
    "RECORD_TYPES",
    "ShareKey",
    "ShareRecord",
    "is_possible",
    "read_share_record",
    "snapshot_record",
    "tombstone_record",
    "update_record",
]

Message = TypeVar("Message", ShareSnapshotKey, ShareSnapshotValue, ShareUpdateKey, ShareUpdateValue)
Value = ShareSnapshotValue | ShareUpdateValue

NUMBER = struct.Struct(">h")
VERSION = 0
SNAPSHOT, UPDATE = RECORD_TYPES = 0, 1
"""The types that `read_share_record` knows."""
UNINITIALIZED_OFFSET = -1
OFFSET_MAX = 2**63 - 1
"""What follows the last record of a batch has an offset, too."""


class ShareKey(NamedTuple):
    """One partition of one group."""

    group_id: str
    topic_id: bytes
    partition: int


class ShareRecord(NamedTuple):
    """A record as it was read.

    Attributes:
        key: the share partition that it is about.
        value: what is kept of it; None where it is forgotten.
        batches: those in the value.
    """

    key: ShareKey
    value: Value | None
    batches: tuple[StateBatch, ...] = ()


def read_share_record(key: bytes, value: bytes | None) -> ShareRecord | None:
    """Read a record; None for a type that is not known. Raises CorruptStateRecordError."""
    found = _read_key(key)
    if found is None:
        return None
    share_key, is_snapshot = found
    if value is None:
        return ShareRecord(share_key, None)
    version = _number(value)
    read: Value = _read(ShareSnapshotValue, value, version) if is_snapshot else _read(ShareUpdateValue, value, version)
    if read.start_offset < UNINITIALIZED_OFFSET or read.snapshot_epoch < 0:
        raise CorruptStateRecordError(f"share state from offset {read.start_offset}, snapshot {read.snapshot_epoch}")
    return ShareRecord(share_key, read, _batches(read))


def _read_key(data: bytes) -> tuple[ShareKey, bool] | None:
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


def _batches(value: Value) -> tuple[StateBatch, ...]:
    """The batches in a value; a state that is not known, or offsets that no log has, are corrupt."""
    try:
        batches = tuple(
            StateBatch(batch.first_offset, batch.last_offset, RecordState(batch.delivery_state), batch.delivery_count)
            for batch in value.state_batches
        )
    except ValueError as error:
        raise CorruptStateRecordError(str(error)) from error
    for batch in batches:
        if not is_possible(batch):
            raise CorruptStateRecordError(
                f"offsets {batch.first} to {batch.last} with {batch.delivery_count} deliveries"
            )
    return batches


def is_possible(batch: StateBatch) -> bool:
    """Whether a log can have records of these offsets, which were delivered so often."""
    return 0 <= batch.first <= batch.last < OFFSET_MAX and batch.delivery_count >= 0


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
