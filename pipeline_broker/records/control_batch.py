"""Control batches: the markers that end transactions, built and read.

Rules of this file: as of `batch`. A marker is a batch with one record, whose key says what it is and whose value who
wrote it; the producer that it is about stands in the batch's header. It has no sequence number, is never compressed,
and clients may not write it. Other kinds of control records belong to logs that this broker does not keep.

Layout of the record (big-endian): key = version 2 (0), type 2; value = version 2 (0), coordinator epoch 4.
"""

import struct

import attrs

from pipeline_broker.records.batch import BatchHeader, Buffer, NewRecord, build_batch
from pipeline_broker.records.errors import InvalidRecord
from pipeline_broker.records.record import Record, iterate_records

__all__ = ["ABORT", "COMMIT", "EndMarker", "control_type", "marker_batch", "parse_marker", "read_marker"]

ABORT, COMMIT = 0, 1
"""Types of control records that end a transaction; all others are about something else."""
VERSION = 0

_KEY = struct.Struct(">hh")
_VALUE = struct.Struct(">hi")


@attrs.frozen(slots=True)
class EndMarker:
    """The end of a transaction.

    Attributes:
        is_commit: whether its records count from now on, or never did.
        coordinator_epoch: of the transaction coordinator that says so.
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
    """The batch that ends the transaction of a producer.

    Args:
        producer_id: whose transaction.
        producer_epoch: from now on; lower ones are fenced.
        marker: what is said.
        timestamp: milliseconds since the epoch.
        base_offset: its place in the log.
        leader_epoch: of that log.
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
    """What the record of a control batch is; None for one that compaction has emptied.

    Raises:
        InvalidRecord: it does not say.
    """
    record = _record(header, batch)
    return None if record is None else _type_of(record.key)


def read_marker(header: BatchHeader, batch: Buffer) -> EndMarker | None:
    """What a control batch says; None for one that ends no transaction, or that compaction has emptied.

    Versions above the one that is known are read as that one, as in Apache Kafka: they only add to it.

    Raises:
        InvalidRecord: it makes no sense.
    """
    record = _record(header, batch)
    return None if record is None else parse_marker(record.key, record.value)


def parse_marker(key: Buffer | None, value: Buffer | None) -> EndMarker | None:
    """The same of the record of a control batch."""
    kind = _type_of(key)
    if kind not in {ABORT, COMMIT}:
        return None
    if value is None or len(value) < _VALUE.size:
        raise InvalidRecord("an end of a transaction that does not say who wrote it")
    version, coordinator_epoch = _VALUE.unpack_from(value)
    if version < VERSION:
        raise InvalidRecord(f"an end of a transaction has version {version}")
    return EndMarker(kind == COMMIT, coordinator_epoch)


def _type_of(key: Buffer | None) -> int:
    if key is None or len(key) < _KEY.size:
        raise InvalidRecord("a control record without a type")
    return int(_KEY.unpack_from(key)[1])


def _record(header: BatchHeader, batch: Buffer) -> Record | None:
    """The one record, unless compaction has emptied the batch."""
    return next(iterate_records(batch, header)) if header.record_count else None
