"""Control batches with end markers of transactions: building and reading.

A marker is a batch with one record. The key holds its type, the value the coordinator epoch, and the batch header the
producer. It has no sequence number and is never compressed, and clients may not write it. Other kinds of control
records belong to logs that this broker does not keep.

Layout of the record (big-endian): key = version 2 (0), type 2; value = version 2 (0), coordinator epoch 4.
"""

import struct

import attrs

from pipeline_broker.base.buffer import Buffer
from pipeline_broker.records.batch import BatchHeader, NewRecord, build_batch
from pipeline_broker.records.errors import InvalidRecord
from pipeline_broker.records.record import Record, iterate_records

__all__ = ["ABORT", "COMMIT", "EndMarker", "control_type", "marker_batch", "parse_marker", "read_marker"]

ABORT, COMMIT = 0, 1
"""The types of control records that end a transaction."""
VERSION = 0

_KEY = struct.Struct(">hh")
_VALUE = struct.Struct(">hi")


@attrs.frozen(slots=True)
class EndMarker:
    """The end of a transaction.

    Attributes:
        is_commit: True if the transaction is committed, False if it is aborted.
        coordinator_epoch: epoch of the transaction coordinator that wrote it.
    """

    is_commit: bool
    coordinator_epoch: int


def marker_batch(
    producer_id: int,
    producer_epoch: int,
    marker: EndMarker,
    timestamp: int,
    *,
    base_offset: int = 0,
    leader_epoch: int = -1,
) -> bytes:
    """Build the batch that ends a producer's transaction.

    Args:
        producer_epoch: lower epochs are fenced by this batch.
        timestamp: milliseconds since 1970.
        base_offset: offset of the batch in the log.
        leader_epoch: leader epoch of the partition; -1 for none.
    """
    key = _KEY.pack(VERSION, COMMIT if marker.is_commit else ABORT)
    record = NewRecord(_VALUE.pack(VERSION, marker.coordinator_epoch), key, timestamp)
    return build_batch(
        [record],
        base_offset,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        leader_epoch=leader_epoch,
        transactional=True,
        control=True,
    )


def control_type(header: BatchHeader, batch: Buffer) -> int | None:
    """Return the type of a control batch; None if compaction has emptied it.

    Raises:
        RecordError: the record is damaged or has no type.
    """
    record = _record(header, batch)
    return None if record is None else _type_of(record.key)


def read_marker(header: BatchHeader, batch: Buffer) -> EndMarker | None:
    """Return the end marker of a control batch; None if the batch has another type, or compaction has emptied it.

    Higher versions are read like version 0, as in Apache Kafka, because they only add fields.

    Raises:
        RecordError: the record is damaged, has no type or a negative version, or lacks the coordinator epoch.
    """
    record = _record(header, batch)
    return None if record is None else parse_marker(record.key, record.value)


def parse_marker(key: Buffer | None, value: Buffer | None) -> EndMarker | None:
    """Like `read_marker`, for the key and value of the record.

    Raises:
        InvalidRecord: the record has no type or a negative version, or lacks the coordinator epoch.
    """
    kind = _type_of(key)
    if kind not in {ABORT, COMMIT}:
        return None
    if value is None or len(value) < _VALUE.size:
        raise InvalidRecord("an end marker of a transaction lacks the coordinator epoch")
    version, coordinator_epoch = _VALUE.unpack_from(value)
    if version < VERSION:
        raise InvalidRecord(f"an end marker of a transaction has version {version}")
    return EndMarker(kind == COMMIT, coordinator_epoch)


def _type_of(key: Buffer | None) -> int:
    if key is None or len(key) < _KEY.size:
        raise InvalidRecord("a control record has no type")
    return int(_KEY.unpack_from(key)[1])


def _record(header: BatchHeader, batch: Buffer) -> Record | None:
    return next(iterate_records(batch, header)) if header.record_count else None
