"""Rows become records as in Spark's Kafka sink, from Arrow and from Spark's rows."""

import pyarrow as pa
import pytest
from pyspark.sql import Row

from pipeline_broker.records.batch import NewRecord
from pyspark_pipeline_broker.sink import sink_rows
from pyspark_pipeline_broker.sink.sink_rows import check_columns, topic_rows_of_batch, topic_rows_of_rows

HEADERS = "array<struct<key:string,value:binary>>"


def of_both(rows, topic=None):
    """Check that Arrow and Spark's rows give the same records; return topic, partition and record of each row, by
    topic.
    """
    names = list(rows[0])
    types = {"headers": pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())])), "partition": pa.int32()}
    arrays = [pa.array([row[name] for row in rows], types.get(name)) for name in names]
    by_arrow = list(topic_rows_of_batch(pa.RecordBatch.from_arrays(arrays, names), topic, 7))
    given = [Row(**{name: _as_spark(row[name]) for name in names}) for row in rows]
    assert list(topic_rows_of_rows(iter(given), topic, 7)) == by_arrow
    return [
        (of_topic.topic, partition, record)
        for of_topic in by_arrow
        for record, partition in zip(of_topic.records, of_topic.partitions, strict=True)
    ]


def _as_spark(value):
    if isinstance(value, bytes):
        return bytearray(value)
    return [Row(**header) for header in value] if isinstance(value, list) else value


def test_text_and_bytes_are_values_and_missing_columns_are_null():
    assert of_both([{"value": "ü"}, {"value": None}], "t") == [
        ("t", None, NewRecord("ü".encode(), None, 7)),
        ("t", None, NewRecord(None, None, 7)),
    ]
    assert of_both([{"value": b"\xff", "key": b"k"}], "t") == [("t", None, NewRecord(b"\xff", b"k", 7))]


def test_columns_set_topic_partition_and_headers_and_others_are_ignored():
    headers = [{"key": "a", "value": b"1"}, {"key": "a", "value": None}]
    rows = [
        {"topic": "u", "partition": 3, "value": "v", "key": "k", "headers": headers, "more": 1},
        {"topic": "t", "partition": None, "value": "v", "key": None, "headers": None, "more": 2},
    ]
    assert of_both(rows) == [
        ("u", 3, NewRecord(b"v", b"k", 7, (("a", b"1"), ("a", None)))),
        ("t", None, NewRecord(b"v", None, 7)),
    ]
    assert [target[0] for target in of_both(rows, "all")] == ["all", "all"]


def test_rows_of_a_topic_stay_in_their_order():
    rows = [{"topic": "tu"[number % 2], "value": str(number)} for number in range(4)]
    assert [(topic, record.value) for topic, _, record in of_both(rows)] == [
        ("t", b"0"),
        ("t", b"2"),
        ("u", b"1"),
        ("u", b"3"),
    ]


def test_a_row_without_a_topic_is_refused():
    with pytest.raises(ValueError, match="a row has no topic"):
        of_both([{"topic": None, "value": "v"}])


def test_rows_are_processed_a_chunk_at_a_time(monkeypatch):
    monkeypatch.setattr(sink_rows, "ROWS_AT_ONCE", 2)
    rows = (Row(value=str(number)) for number in range(5))
    chunks = [[record.value for record in chunk.records] for chunk in topic_rows_of_rows(rows, "t", 0)]
    assert chunks == [[b"0", b"1"], [b"2", b"3"], [b"4"]]
    assert list(topic_rows_of_rows(iter(()), "t", 0)) == []


@pytest.mark.parametrize(
    ("types", "topic", "reason"),
    [
        ({"key": "string"}, "t", "the rows lack the column value; they have key"),
        ({"value": "string"}, None, "the rows have no topic. Set the option topic, or add a column topic"),
        ({"value": "int"}, "t", "the column value is int; it must be string or binary"),
        ({"value": "string", "partition": "bigint"}, "t", "the column partition is bigint; it must be int"),
        ({"value": "string", "headers": "map<string,binary>"}, "t", "the column headers is map"),
    ],
)
def test_columns_of_other_types_are_refused(types, topic, reason):
    with pytest.raises(ValueError, match=reason):
        check_columns(types, topic)


def test_columns_of_the_kafka_sink_are_accepted():
    every = {"topic": "string", "key": "binary", "value": "string", "partition": "int", "headers": HEADERS, "x": "int"}
    check_columns(every, None)
