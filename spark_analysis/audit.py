"""The ordering audit: twice, by two witnesses that share no code.

Rules: the broker's witness is its own stamps, the client's is the order in which answers came back. Each finding counts
one row that breaks a rule, so that one exchanged pair of answers is one violation:
    broker, released:  along the sequence of a connection `released_ns` never falls;
    broker, complete:  sequences are 0, 1, 2, ... without repetition, and without a gap unless rows were lost;
    broker, log:       along the sequence, the offsets that a connection gets in one partition rise;
    client, received:  the correlation ids of a connection rise in the order of receipt, and none is left out unless
                       rows were lost.
All of it is window functions over chunks of a connection, and over the few rows that chunks leave for their connection:
one connection with all the rows of an experiment is sorted by many tasks, not by one. Rows that were lost make an audit
incomplete, never clean: `complete` says so.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import Window
from pyspark.sql import functions as f

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from spark_analysis.run import TraceRun


CHUNK_ROWS: Final = 1 << 18
"""Sequences of a connection that are sorted together."""
_FOUND: Final = "wrong + if(complete, absent, 0) as found"


def _count(condition: Column) -> Column:
    return f.count(f.when(condition, 1))


def ordering_audit(run: TraceRun) -> DataFrame:
    """Both audits of every run.

    Returns:
        run, audit (`broker` or `client`), audited (rows looked at), violations, complete (false when rows were lost).
        A run whose client does not show correlation ids (confluent-kafka) has no `client` row.
    """
    lost = run.runs.select("run", (f.coalesce(f.col("lost_rows"), f.lit(0)) == 0).alias("complete"))
    found = _released(run, lost).union(_appended(run)).union(_received(run, lost)).groupBy("run", "audit")
    sums = found.agg(f.sum("audited").alias("audited"), f.sum("found").alias("violations"))
    return sums.join(f.broadcast(lost), "run").select("run", "audit", "audited", "violations", "complete")


def _chunked(rows: DataFrame) -> DataFrame:
    """Cut connections into chunks that one task can sort; what happens between two of them is looked at afterwards."""
    return rows.withColumn("chunk", f.expr(f"sequence div {CHUNK_ROWS}"))


def _released(run: TraceRun, lost: DataFrame) -> DataFrame:
    """The broker's stamps, one row a connection."""
    arrival = Window.partitionBy("run", "connection", "chunk").orderBy("sequence")
    earlier = arrival.rowsBetween(Window.unboundedPreceding, -1)
    rows = (
        _chunked(run.requests.select("run", "connection", "sequence", "released_ns"))
        .withColumn("step", f.col("sequence") - f.lag("sequence", 1).over(arrival))
        .withColumn("released_before", f.last("released_ns", ignorenulls=True).over(earlier))
    )
    stamped = f.when(f.col("released_ns").isNotNull(), f.col("sequence"))
    chunks = rows.groupBy("run", "connection", "chunk").agg(
        f.count("*").alias("rows"),
        (_count(f.col("released_ns") < f.col("released_before")) + _count(f.col("step") == 0)).alias("wrong"),
        f.sum(f.when(f.col("step") > 1, f.col("step") - 1).otherwise(0)).alias("absent"),
        f.min("sequence").alias("first_sequence"),
        f.max("sequence").alias("last_sequence"),
        f.min_by("released_ns", stamped).alias("first_ns"),
        f.max_by("released_ns", stamped).alias("last_ns"),
    )
    along = Window.partitionBy("run", "connection").orderBy("chunk")
    before = f.last("last_ns", ignorenulls=True).over(along.rowsBetween(Window.unboundedPreceding, -1))
    chunks = chunks.withColumn("before_ns", before)
    chunks = chunks.withColumn("gap", f.col("first_sequence") - f.lag("last_sequence", 1, -1).over(along) - 1)
    connections = chunks.groupBy("run", "connection").agg(
        f.sum("rows").alias("audited"),
        (f.sum("wrong") + _count(f.col("first_ns") < f.col("before_ns"))).alias("wrong"),
        (f.sum("absent") + f.sum("gap")).alias("absent"),
    )
    return connections.join(f.broadcast(lost), "run").select(
        "run", f.lit("broker").alias("audit"), "audited", f.expr(_FOUND)
    )


def _rising(rows: DataFrame, key: tuple[str, ...], order: tuple[str, ...], value: str, end: str) -> DataFrame:
    """How often a value is not above the end of the row before it, one row a key.

    Args:
        rows: with a sequence.
        key: what the rows of one series have in common.
        order: the order within a series.
        value: the column that must rise.
        end: the column of the row before that it must be above.

    Returns:
        the key, audited (rows), wrong, least and most (of `value`).
    """
    place = f.struct(*order)
    within = Window.partitionBy(*key, "chunk").orderBy(*order)
    marked = _chunked(rows).withColumn("before", f.lag(end, 1).over(within))
    chunks = marked.groupBy(*key, "chunk").agg(
        f.count("*").alias("rows"),
        _count(f.col(value) <= f.col("before")).alias("wrong"),
        f.min_by(value, place).alias("first_value"),
        f.max_by(end, place).alias("last_end"),
        f.min(value).alias("least"),
        f.max(value).alias("most"),
    )
    along = Window.partitionBy(*key).orderBy("chunk")
    chunks = chunks.withColumn("end_before", f.lag("last_end", 1).over(along))
    return chunks.groupBy(*key).agg(
        f.sum("rows").alias("audited"),
        (f.sum("wrong") + _count(f.col("first_value") <= f.col("end_before"))).alias("wrong"),
        f.min("least").alias("least"),
        f.max("most").alias("most"),
    )


def _appended(run: TraceRun) -> DataFrame:
    """The log's offsets, one row a connection and partition. Its rows are requests already counted as audited."""
    rows = run.appends.where("connection is not null and sequence is not null and base_offset is not null")
    key = ("run", "connection", "topic", "partition")
    rows = rows.select(*key, "sequence", "base_offset", "last_offset")
    found = _rising(rows, key, ("sequence", "base_offset"), "base_offset", "last_offset")
    return found.select("run", f.lit("broker"), f.lit(0), f.col("wrong").alias("found"))


def _received(run: TraceRun, lost: DataFrame) -> DataFrame:
    """The client's order of receipt, one row a connection."""
    rows = run.client.where("answered_ns is not null and correlation_id is not null").select(
        "run", "connection", "sequence", f.col("correlation_id").cast("bigint").alias("id")
    )
    connections = _rising(rows, ("run", "connection"), ("sequence",), "id", "id")
    # Where ids rise, what lies between the least and the greatest and was not received has been left out.
    absent = f.greatest(f.lit(0), f.col("most") - f.col("least") + 1 - f.col("audited"))
    connections = connections.withColumn("absent", absent)
    return connections.join(f.broadcast(lost), "run").select("run", f.lit("client"), "audited", f.expr(_FOUND))
