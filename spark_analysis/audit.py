"""The ordering audit: twice, by two witnesses that share no code.

Rules: the broker's witness is its own stamps, the client's is the order in which answers came back. Each finding counts
one row that breaks a rule, so that one exchanged pair of answers is one violation:
    broker, released:  along the sequence of a connection `released_ns` never falls;
    broker, complete:  sequences are 0, 1, 2, ... without repetition, and without a gap unless rows were lost;
    broker, log:       along the sequence, the offsets that a connection gets in one partition rise;
    client, received:  the correlation ids of a connection rise in the order of receipt, and none is left out unless
                       rows were lost.
All of it is window functions over (run, connection), one shuffle a table. Rows that were lost make an audit incomplete,
never clean: `complete` says so.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as f

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from spark_analysis.run import TraceRun


_FOUND = "wrong + if(complete, absent, 0) as found"


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


def _released(run: TraceRun, lost: DataFrame) -> DataFrame:
    """The broker's stamps, one row a connection."""
    arrival = Window.partitionBy("run", "connection").orderBy("sequence")
    earlier = arrival.rowsBetween(Window.unboundedPreceding, -1)
    rows = (
        run.requests.select("run", "connection", "sequence", "released_ns")
        .withColumn("sequence_before", f.lag("sequence", 1, -1).over(arrival))
        .withColumn("released_before", f.last("released_ns", ignorenulls=True).over(earlier))
    )
    step = f.col("sequence") - f.col("sequence_before")
    connections = rows.groupBy("run", "connection").agg(
        f.count("*").alias("audited"),
        (_count(f.col("released_ns") < f.col("released_before")) + _count(step == 0)).alias("wrong"),
        f.sum(f.when(step > 1, step - 1).otherwise(0)).alias("absent"),
    )
    return connections.join(f.broadcast(lost), "run").select(
        "run", f.lit("broker").alias("audit"), "audited", f.expr(_FOUND)
    )


def _appended(run: TraceRun) -> DataFrame:
    """The log's offsets, one row a run. Its rows are requests already counted as audited."""
    arrival = Window.partitionBy("run", "connection", "topic", "partition").orderBy("sequence", "base_offset")
    rows = (
        run.appends.where("connection is not null and sequence is not null and base_offset is not null")
        .select("run", "connection", "topic", "partition", "sequence", "base_offset", "last_offset")
        .withColumn("offset_before", f.lag("last_offset", 1).over(arrival))
    )
    wrong = _count(f.col("base_offset") <= f.col("offset_before")).alias("found")
    return rows.groupBy("run").agg(wrong).select("run", f.lit("broker"), f.lit(0), "found")


def _received(run: TraceRun, lost: DataFrame) -> DataFrame:
    """The client's order of receipt, one row a connection."""
    receipt = Window.partitionBy("run", "connection").orderBy("sequence")
    rows = (
        run.client.where("answered_ns is not null and correlation_id is not null")
        .select("run", "connection", "sequence", f.col("correlation_id").cast("bigint").alias("id"))
        .withColumn("id_before", f.lag("id", 1).over(receipt))
    )
    # Where ids rise, what lies between the least and the greatest and was not received has been left out.
    connections = rows.groupBy("run", "connection").agg(
        f.count("*").alias("audited"),
        _count(f.col("id") <= f.col("id_before")).alias("wrong"),
        f.greatest(f.lit(0), f.max("id") - f.min("id") + 1 - f.count("*")).alias("absent"),
    )
    return connections.join(f.broadcast(lost), "run").select("run", f.lit("client"), "audited", f.expr(_FOUND))
