"""Conversion of Spark's rows to records. The columns are those of Spark's Kafka sink (`KafkaWriter`).

`value` is required; `key`, `headers`, `partition` and `topic` are optional, other columns are ignored. Keys and values
are text or bytes.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from pipeline_broker.records.batch import NewRecord

__all__ = ["TopicRows", "check_columns", "topic_rows_of_batch", "topic_rows_of_rows"]

TYPES = {
    "topic": ("string",),
    "key": ("string", "binary"),
    "value": ("string", "binary"),
    "partition": ("int",),
    "headers": ("array<struct<key:string,value:binary>>",),
}
ROWS_AT_ONCE = 1_000
"""Records that are built before they are encoded. This number fits into the processor's cache."""


class TopicRows(NamedTuple):
    """Records of one topic.

    Attributes:
        topic: the topic's name.
        records: in the order of the rows.
        partitions: the partition of each record; None leaves the choice to the partitioner.
    """

    topic: str
    records: Sequence[NewRecord]
    partitions: Sequence[int | None]


def check_columns(types: Mapping[str, str], topic: str | None) -> None:
    """Check the columns of the rows to write.

    Args:
        types: Spark's simple type names by column.
        topic: the option `topic`, if set.

    Raises:
        ValueError: a column is missing or has a wrong type.
    """
    if "value" not in types:
        raise ValueError(
            f"the rows lack the column value; they have {', '.join(types) or 'no columns'}. Add the column"
        )
    if topic is None and "topic" not in types:
        raise ValueError("the rows have no topic. Set the option topic, or add a column topic")
    for name, allowed in TYPES.items():
        if (found := types.get(name)) is not None and found not in allowed:
            raise ValueError(f"the column {name} is {found}; it must be {' or '.join(allowed)}")


def topic_rows_of_batch(batch: pa.RecordBatch, topic: str | None, now_ms: int) -> Iterator[TopicRows]:
    """Yield the records of an Arrow batch.

    Args:
        topic: the topic of all rows; None if the column `topic` names it.
        now_ms: the timestamp of the records, in milliseconds since the epoch.

    Raises:
        ValueError: a row has no topic.
    """
    for start in range(0, batch.num_rows, ROWS_AT_ONCE):
        part = batch.slice(start, ROWS_AT_ONCE)
        columns = {name: _list_of(column) for name, column in zip(part.schema.names, part.columns, strict=True)}
        yield from _topic_rows(columns, part.num_rows, topic, now_ms)


def topic_rows_of_rows(rows: Iterator[Any], topic: str | None, now_ms: int) -> Iterator[TopicRows]:
    """Yield the records of Spark's rows, for streams of PySpark 4.0; otherwise like `topic_rows_of_batch`."""
    while chunk := list(itertools.islice(rows, ROWS_AT_ONCE)):
        names = [name for name in TYPES if name in chunk[0]]
        columns = {name: [_bytes_of(row[name]) for row in chunk] for name in names}
        if "headers" in columns:
            columns["headers"] = [headers and [header.asDict() for header in headers] for headers in columns["headers"]]
        yield from _topic_rows(columns, len(chunk), topic, now_ms)


def _list_of(column: pa.Array) -> list[Any]:
    if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
        column = pc.cast(column, pa.binary() if pa.types.is_string(column.type) else pa.large_binary())
    found: list[Any] = column.to_pylist()
    return found


def _bytes_of(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode()
    return bytes(value) if isinstance(value, bytearray) else value


def _topic_rows(
    columns: Mapping[str, Sequence[Any]], count: int, topic: str | None, now_ms: int
) -> Iterator[TopicRows]:
    partitions = columns.get("partition", [None] * count)
    headers = map(_pairs, columns["headers"]) if "headers" in columns else itertools.repeat((), count)
    fields = zip(columns["value"], columns.get("key", itertools.repeat(None, count)), itertools.repeat(now_ms), headers)
    # C functions build the records: Python steps per row would take half the time of a write.
    records = list(map(tuple.__new__, itertools.repeat(NewRecord), fields))
    if topic is not None:
        yield TopicRows(topic, records, partitions)
        return
    indexes: dict[str, list[int]] = {}
    for index, name in enumerate(_topics(columns["topic"])):
        indexes.setdefault(name, []).append(index)
    for name, chosen in indexes.items():
        yield TopicRows(name, [records[index] for index in chosen], [partitions[index] for index in chosen])


def _topics(names: Sequence[bytes | None]) -> Iterator[str]:
    for name in names:
        if name is None:
            raise ValueError(
                "a row has no topic: its column topic is null, and the option topic is not set. Set one of them"
            )
        yield name.decode()


def _pairs(headers: Sequence[Mapping[str, Any]] | None) -> tuple[tuple[str, bytes | None], ...]:
    if not headers:
        return ()
    values = (None if header["value"] is None else bytes(header["value"]) for header in headers)
    return tuple(zip((header["key"] or "" for header in headers), values, strict=True))
