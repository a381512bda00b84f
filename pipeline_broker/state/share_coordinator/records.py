"""Records of `__share_group_state` in Kafka's layouts.

A key is a type in two bytes and fields, a value is a version in two bytes and fields.
"""

from __future__ import annotations

from typing import NamedTuple

from pipeline_broker.state.coordinator_records import (
    read_record_key,
    read_record_value,
    record_key,
    record_type,
    record_value,
)
from pipeline_broker.state.errors import CorruptStateRecordError
from pipeline_broker.state.outcome import StateRecord
from pipeline_broker.state.share_partitions.messages import StateBatch
from pipeline_broker.state.share_partitions.record_state import RecordState
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

Value = ShareSnapshotValue | ShareUpdateValue

VERSION = 0
SNAPSHOT, UPDATE = RECORD_TYPES = 0, 1
"""Types of keys that `read_share_record` decodes."""
UNINITIALIZED_OFFSET = -1
OFFSET_MAX = 2**63 - 1
"""No record has this offset, so that the offset after a batch fits into 64 bits."""


class ShareKey(NamedTuple):
    group_id: str
    topic_id: bytes
    partition: int


class ShareRecord(NamedTuple):
    key: ShareKey
    value: Value | None
    batches: tuple[StateBatch, ...] = ()


def read_share_record(key: bytes, value: bytes | None) -> ShareRecord | None:
    """Decode a record; return None for an unknown type.

    Raises:
        CorruptStateRecordError: the record cannot be decoded, or has impossible offsets, epochs, states or
            delivery counts.
    """
    found = _read_key(key)
    if found is None:
        return None
    share_key, is_snapshot = found
    if value is None:
        return ShareRecord(share_key, None)
    read: Value = (
        read_record_value(ShareSnapshotValue, value) if is_snapshot else read_record_value(ShareUpdateValue, value)
    )
    if read.start_offset < UNINITIALIZED_OFFSET or read.snapshot_epoch < 0:
        raise CorruptStateRecordError(
            f"impossible start offset {read.start_offset} or snapshot epoch {read.snapshot_epoch}"
        )
    return ShareRecord(share_key, read, _batches(read))


def _read_key(data: bytes) -> tuple[ShareKey, bool] | None:
    kind = record_type(data)
    if kind == SNAPSHOT:
        key: ShareSnapshotKey | ShareUpdateKey = read_record_key(ShareSnapshotKey, data)
    elif kind == UPDATE:
        key = read_record_key(ShareUpdateKey, data)
    else:
        return None
    return ShareKey(key.group_id, key.topic_id, key.partition), kind == SNAPSHOT


def snapshot_record(key: ShareKey, value: ShareSnapshotValue) -> StateRecord:
    return StateRecord(record_key(SNAPSHOT, ShareSnapshotKey(*key)), record_value(VERSION, value))


def update_record(key: ShareKey, value: ShareUpdateValue) -> StateRecord:
    return StateRecord(record_key(UPDATE, ShareUpdateKey(*key)), record_value(VERSION, value))


def tombstone_record(key: ShareKey) -> StateRecord:
    return StateRecord(record_key(SNAPSHOT, ShareSnapshotKey(*key)), None)


def _batches(value: Value) -> tuple[StateBatch, ...]:
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
                f"impossible offsets {batch.first} to {batch.last} or delivery count {batch.delivery_count}"
            )
    return batches


def is_possible(batch: StateBatch) -> bool:
    """Return whether a log can have these offsets, and a record this delivery count."""
    return 0 <= batch.first <= batch.last < OFFSET_MAX and batch.delivery_count >= 0
