"""Conversion of the timelines topic's records to one row per request.

The module declares version 2 of the record. A record that does not match it ends the query with the reason.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as f

from spark_analysis.tables import REQUEST_STAMPS, TABLES, Columns

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

RECORD_SCHEMA: Final = 2
TIMELINES_TOPIC: Final = "__request_timelines"
RECORDS_PER_BATCH_MAX: Final = 1_000
"""Limit of a micro-batch, about half a million requests. It bounds the memory that catching up needs."""
RECORD: Final[Columns] = {
    "schema": "int",
    "session": "string",
    "mode": "string",
    "clock_offset_ns": "bigint",
    "first_row": "bigint",
    "rows": "int",
    "lost": "bigint",
}
"""The fields of a record that hold for all its rows."""
_RECEIVED: Final = "received_ns"
_AFTER: Final = tuple(stamp for stamp in REQUEST_STAMPS if stamp != _RECEIVED)
_REQUEST: Final = {name: kind for name, kind in TABLES["requests"].items() if name != "run"}


def _in_record(column: str) -> str:
    """Return the name of a column of `requests` in a record, where all later stamps are relative to `received_ns`."""
    return column.removesuffix("_ns") + "_after_ns" if column in _AFTER else column


def topic_records(
    spark: SparkSession, bootstrap_servers: str, *, records_per_batch: int = RECORDS_PER_BATCH_MAX
) -> DataFrame:
    """Return the records of a broker's timelines topic as a stream, starting with the oldest existing one.

    The session needs Spark's Kafka connector, see `live.connector`. If retention has deleted records that the
    checkpoint still needs, the query fails instead of missing them.

    Args:
        bootstrap_servers: the broker's address, `host:port`.
        records_per_batch: limit of a micro-batch.
    """
    options = {
        "kafka.bootstrap.servers": bootstrap_servers,
        "subscribe": TIMELINES_TOPIC,
        "startingOffsets": "earliest",
        "maxOffsetsPerTrigger": str(records_per_batch),
    }
    return spark.readStream.format("kafka").options(**options).load().select("value")


def request_timelines(records: DataFrame) -> DataFrame:
    """Return a row per request. The query fails on a record of another schema version.

    Args:
        records: has a column `value`, text or bytes; a stream or a table.

    Returns:
        session, mode, lost (rows that the session had lost before), received (timestamp), row (its number in the
        session). Also the columns of the table `requests` except `run`.
    """
    text = records.select(f.col("value").cast("string").alias("value"))
    parsed = f.from_json("value", _schema(), {"mode": "FAILFAST"}).alias("record")
    wrong = f.format_string(
        f"a record has schema %d, but this version reads schema {RECORD_SCHEMA}. Use the version of the broker",
        f.col("schema"),
    )
    # `assert_true` ends the query; a filter would silently drop records of another version.
    read = text.select(parsed).select("record.*").where(f.assert_true(f.col("schema") == RECORD_SCHEMA, wrong).isNull())
    columns = [_in_record(name) for name in _REQUEST]
    rows = read.select(*RECORD, f.posexplode(f.arrays_zip(*columns)).alias("place", "request"))
    return rows.select(
        "session",
        "mode",
        "lost",
        (f.col("first_row") + f.col("place")).alias("row"),
        f.timestamp_micros(f.expr(f"(request.{_RECEIVED} + clock_offset_ns) div 1000")).alias("received"),
        *[_value(name) for name in _REQUEST],
    )


def _schema() -> str:
    arrays = {_in_record(name): f"array<{kind}>" for name, kind in _REQUEST.items()}
    return ", ".join(f"{name} {kind}" for name, kind in {**RECORD, **arrays}.items())


def _value(name: str) -> Column:
    found = f.col(f"request.{_in_record(name)}")
    return ((f.col(f"request.{_RECEIVED}") + found) if name in _AFTER else found).alias(name)
