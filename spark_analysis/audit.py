"""The ordering audit, done twice with data that the two do not share.

The broker is audited by its own stamps, the client by the order in which it received answers. Each violation is one
row that breaks a rule, so one exchanged pair of answers is one violation:
    broker, released:  along the sequence of a connection, `released_ns` never decreases;
    broker, complete:  sequences are 0, 1, 2, ... without repetition, and without a gap unless rows were lost;
    broker, log:       along the sequence, the offsets of a connection in one partition increase;
    client, received:  the correlation ids of a connection increase in the order of receipt, and none is missing
                       unless rows were lost.
Lost rows make an audit incomplete, never clean: the column `complete` reports them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import Window
from pyspark.sql import functions as f

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from spark_analysis.run import TraceRun


# Sequences of a connection that one task sorts. Without chunks, one task would sort a connection that has all the rows
# of an experiment.
CHUNK_ROWS: Final = 1 << 18
_FOUND: Final = "wrong + if(complete, absent, 0) as found"


def _count(condition: Column) -> Column:
    return f.count(f.when(condition, 1))


def ordering_audit(run: TraceRun) -> DataFrame:
    """Return both audits of every run.

    Returns:
        run, audit (`broker` or `client`), audited (audited rows), violations, complete (false if rows were lost). A run
        whose client does not show correlation ids (confluent-kafka) has no `client` row.
    """
    lost = run.runs.select("run", (f.coalesce(f.col("lost_rows"), f.lit(0)) == 0).alias("complete"))
    found = _released(run, lost).union(_appended(run)).union(_received(run, lost)).groupBy("run", "audit")
    # The appends add no audited rows, but their violations count for the broker.
    sums = found.agg(f.sum("audited").alias("audited"), f.sum("found").alias("violations"))
    return sums.join(f.broadcast(lost), "run").select("run", "audit", "audited", "violations", "complete")


def _chunked(rows: DataFrame) -> DataFrame:
    """Cut connections into chunks that one task can sort. The caller must compare neighbouring chunks afterwards."""
    return rows.withColumn("chunk", f.expr(f"sequence div {CHUNK_ROWS}"))


def _released(run: TraceRun, lost: DataFrame) -> DataFrame:
    arrival = Window.partitionBy("run", "connection", "chunk").orderBy("sequence")
    earlier = arrival.rowsBetween(Window.unboundedPreceding, -1)
    rows = (
        _chunked(run.requests.select("run", "connection", "sequence", "released_ns"))
        .withColumn("step", f.col("sequence") - f.lag("sequence", 1).over(arrival))
        # Requests without a release (dropped ones) are skipped, so the comparison is with the last released request.
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
    # The first sequence of a connection is 0, so -1 stands for the chunk before it.
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
    """Count the rows of each series whose value is not above the end of the previous row.

    Args:
        rows: must have a `sequence`.
        key: the columns that identify a series.
        order: the order within a series.
        value: the column that must increase.
        end: the column of the previous row that `value` must exceed.

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
    rows = run.appends.where("connection is not null and sequence is not null and base_offset is not null")
    key = ("run", "connection", "topic", "partition")
    rows = rows.select(*key, "sequence", "base_offset", "last_offset")
    found = _rising(rows, key, ("sequence", "base_offset"), "base_offset", "last_offset")
    # `_released` has counted the requests of these rows as audited.
    return found.select("run", f.lit("broker"), f.lit(0), f.col("wrong").alias("found"))


def _received(run: TraceRun, lost: DataFrame) -> DataFrame:
    # Clients without correlation ids (confluent-kafka) cannot be audited.
    rows = run.client.where("answered_ns is not null and correlation_id is not null").select(
        "run", "connection", "sequence", f.col("correlation_id").cast("bigint").alias("id")
    )
    connections = _rising(rows, ("run", "connection"), ("sequence",), "id", "id")
    # If ids increase, each id between the least and the greatest that was not received is missing.
    absent = f.greatest(f.lit(0), f.col("most") - f.col("least") + 1 - f.col("audited"))
    connections = connections.withColumn("absent", absent)
    return connections.join(f.broadcast(lost), "run").select("run", f.lit("client"), "audited", f.expr(_FOUND))
