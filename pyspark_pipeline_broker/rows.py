"""Conversion of stored records to Arrow batches with the columns of Spark's Kafka source."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from pipeline_broker.client.visible import visible_batches
from pipeline_broker.inspect.stored_place import StoredPlace
from pipeline_broker.inspect.stored_range import StoredRange
from pipeline_broker.records.record import Record

__all__ = ["arrow_batches"]

ROWS_MAX = 10_000
BYTES_MAX = 8 << 20
"""Limit of the keys and values in one batch. A single larger record gets a batch of its own."""
US = 1000
US_MAX = 2**63 - 1
"""Spark's largest timestamp. Kafka's largest one exceeds it, so later timestamps are cut to this value."""

_COLUMNS = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType")


def arrow_batches(
    stored: StoredRange, place: StoredPlace, *, with_headers: bool, skips_gone: bool
) -> Iterator[pa.RecordBatch]:
    """Yield the visible records of a range as Arrow batches.

    Args:
        place: the directory or the object store of the broker.
        with_headers: add headers as the last column.
        skips_gone: ignore records that were deleted after planning.

    Raises:
        RecordsGoneError, StoredDataError, NoDataDirectoryError: see `StoredRange.read`.
        ClientError: a batch is damaged or too large.
    """
    rows: list[tuple[Record, int]] = []
    size_bytes = 0
    for record, timestamp_type in _records(stored, place, skips_gone=skips_gone):
        rows.append((record, timestamp_type))
        size_bytes += len(record.key or b"") + len(record.value or b"")
        if len(rows) >= ROWS_MAX or size_bytes >= BYTES_MAX:
            yield _batch(stored, rows, with_headers=with_headers)
            rows, size_bytes = [], 0
    if rows:
        yield _batch(stored, rows, with_headers=with_headers)


def _records(stored: StoredRange, place: StoredPlace, *, skips_gone: bool) -> Iterator[tuple[Record, int]]:
    for found in stored.read(place, skips_gone=skips_gone):
        for batch in visible_batches(found.data, found.offset, found.end_offset, found.aborted):
            for record in batch.records:
                yield record, int(batch.is_append_time)


def _batch(stored: StoredRange, rows: Sequence[tuple[Record, int]], *, with_headers: bool) -> pa.RecordBatch:
    records = [record for record, _ in rows]
    count = len(rows)
    columns = [
        pa.array([record.key for record in records], pa.binary()),
        pa.array([record.value for record in records], pa.binary()),
        pa.array([stored.topic] * count, pa.string()),
        pa.array([stored.partition] * count, pa.int32()),
        pa.array([record.offset for record in records], pa.int64()),
        pa.array([_us(record.timestamp) for record in records], pa.timestamp("us", tz="UTC")),
        pa.array([timestamp_type for _, timestamp_type in rows], pa.int32()),
    ]
    if not with_headers:
        return pa.RecordBatch.from_arrays(columns, list(_COLUMNS))
    return pa.RecordBatch.from_arrays([*columns, _headers(records)], [*_COLUMNS, "headers"])


def _us(timestamp_ms: int) -> int:
    return max(-US_MAX, min(timestamp_ms * US, US_MAX))


def _headers(records: Sequence[Record]) -> pa.Array:
    """Return the column of headers: null for a record without headers, as in Spark's Kafka source."""
    starts: list[int | None] = []
    keys: list[str] = []
    values: list[bytes | None] = []
    for record in records:
        starts.append(len(keys) if record.headers else None)
        for name, content in record.headers:
            keys.append(name)
            values.append(content)
    starts.append(len(keys))
    structs = pa.StructArray.from_arrays([pa.array(keys, pa.string()), pa.array(values, pa.binary())], ["key", "value"])
    return pa.ListArray.from_arrays(pa.array(starts, pa.int32()), structs)
