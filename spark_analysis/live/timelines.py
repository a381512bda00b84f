"""From the records of the topic to one row a request.

Rules: see the room. The declaration below is the one of the record's form, version 2. A record that does not fit it
ends the query with its reason: nothing is guessed, and nothing is left out in silence.
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
"""Records that one micro-batch takes: half a million requests, so that catching up needs no more memory than that."""
RECORD: Final[Columns] = {
    "schema": "int",
    "session": "string",
    "mode": "string",
    "clock_offset_ns": "bigint",
    "first_row": "bigint",
    "rows": "int",
    "lost": "bigint",
}
"""What a record says of all its rows."""
_RECEIVED: Final = "received_ns"
_AFTER: Final = tuple(stamp for stamp in REQUEST_STAMPS if stamp != _RECEIVED)
_REQUEST: Final = {name: kind for name, kind in TABLES["requests"].items() if name != "run"}


def _in_record(column: str) -> str:
    """What a column of `requests` is called in a record: but for the first, stamps count from it."""
    return column.removesuffix("_ns") + "_after_ns" if column in _AFTER else column


def topic_records(
    spark: SparkSession, bootstrap_servers: str, *, records_per_batch: int = RECORDS_PER_BATCH_MAX
) -> DataFrame:
    """The records of a broker's topic as a stream, from the oldest that is still there.

    The session needs Spark's Kafka connector, see `live.connector`. Where a checkpoint asks for records that retention
    has deleted, the query fails: it would miss them.

    Args:
        spark: the session.
        bootstrap_servers: of the broker, `host:port`.
        records_per_batch: what a micro-batch takes at most.
    """
    options = {
        "kafka.bootstrap.servers": bootstrap_servers,
        "subscribe": TIMELINES_TOPIC,
        "startingOffsets": "earliest",
        "maxOffsetsPerTrigger": str(records_per_batch),
    }
    return spark.readStream.format("kafka").options(**options).load().select("value")


def request_timelines(records: DataFrame) -> DataFrame:
    """One row a request.

    Args:
        records: with a column `value`, text or bytes; a stream or not.

    Returns:
        session, mode, lost (rows that the session had lost until then), received (timestamp), and the columns of the
        table `requests` but `run`. A row's number in its session is `row`.
    """
    text = records.select(f.col("value").cast("string").alias("value"))
    parsed = f.from_json("value", _schema(), {"mode": "FAILFAST"}).alias("record")
    wrong = f.format_string(f"a record has schema %d, this version reads {RECORD_SCHEMA}", f.col("schema"))
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
