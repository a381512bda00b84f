"""Rows of Spark as records: the columns of Spark's Kafka sink (`KafkaWriter`).

`value` is required; `key`, `headers`, `partition` and `topic` are optional, other columns are ignored. Keys and values
are text or bytes.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from pipeline_broker.records.batch import NewRecord

__all__ = ["Target", "check_columns", "targets_of_batch", "targets_of_rows"]

TYPES = {
    "topic": ("string",),
    "key": ("string", "binary"),
    "value": ("string", "binary"),
    "partition": ("int",),
    "headers": ("array<struct<key:string,value:binary>>",),
}
ROWS_AT_ONCE = 10_000


Target = tuple[str, int | None, NewRecord]
"""A topic, a partition and a record; a partition of None leaves the choice to the partitioner."""


def check_columns(types: Mapping[str, str], topic: str | None) -> None:
    """Check the columns of rows to write.

    Args:
        types: Spark's simple names of the types by column.
        topic: the option.

    Raises:
        ValueError: a column is missing or of another type.
    """
    if "value" not in types:
        raise ValueError(f"the column value is missing. The columns are {', '.join(types) or 'none'}")
    if topic is None and "topic" not in types:
        raise ValueError("no topic: set the option topic, or add a column topic")
    for name, allowed in TYPES.items():
        if (found := types.get(name)) is not None and found not in allowed:
            raise ValueError(f"the column {name} is {found}; it must be {' or '.join(allowed)}")


def targets_of_batch(batch: pa.RecordBatch, topic: str | None, now_ms: int) -> Iterator[Target]:
    """The records of an Arrow batch; raises ValueError for a row without a topic."""
    columns = {name: _list_of(column) for name, column in zip(batch.schema.names, batch.columns, strict=True)}
    return _targets(columns, batch.num_rows, topic, now_ms)


def targets_of_rows(rows: Iterator[Any], topic: str | None, now_ms: int) -> Iterator[Target]:
    """The records of Spark's rows, for streams of PySpark 4.0; raises ValueError for a row without a topic."""
    while chunk := list(itertools.islice(rows, ROWS_AT_ONCE)):
        names = [name for name in TYPES if name in chunk[0]]
        columns = {name: [_bytes_of(row[name]) for row in chunk] for name in names}
        if "headers" in columns:
            columns["headers"] = [headers and [header.asDict() for header in headers] for headers in columns["headers"]]
        yield from _targets(columns, len(chunk), topic, now_ms)


def _list_of(column: pa.Array) -> list[Any]:
    if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
        column = pc.cast(column, pa.binary() if pa.types.is_string(column.type) else pa.large_binary())
    found: list[Any] = column.to_pylist()
    return found


def _bytes_of(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode()
    return bytes(value) if isinstance(value, bytearray) else value


def _targets(columns: Mapping[str, Sequence[Any]], count: int, topic: str | None, now_ms: int) -> Iterator[Target]:
    """Make records from columns by functions in C: steps of Python per row would take half the time of a write."""
    topics: Iterable[str] = itertools.repeat(topic, count) if topic is not None else _topics(columns["topic"])
    partitions = columns.get("partition", itertools.repeat(None, count))
    headers = map(_pairs, columns["headers"]) if "headers" in columns else itertools.repeat((), count)
    fields = zip(columns["value"], columns.get("key", itertools.repeat(None, count)), itertools.repeat(now_ms), headers)
    records = map(tuple.__new__, itertools.repeat(NewRecord), fields)
    return zip(topics, partitions, records, strict=True)


def _topics(names: Sequence[bytes | None]) -> Iterator[str]:
    for name in names:
        if name is None:
            raise ValueError("a row has no topic: its column topic is null, and the option topic is not set")
        yield name.decode()


def _pairs(headers: Sequence[Mapping[str, Any]] | None) -> tuple[tuple[str, bytes | None], ...]:
    if not headers:
        return ()
    values = (None if header["value"] is None else bytes(header["value"]) for header in headers)
    return tuple(zip((header["key"] or "" for header in headers), values, strict=True))
