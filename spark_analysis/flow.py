"""Little's law, commits by load, and the spans in which connections were not read.

Each query aggregates per run or cell, so its results can be added up for a round or an experiment. Durations are in
microseconds. The integrals of Little's law are sums of nanoseconds, divided once at the end.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import Window
from pyspark.sql import functions as f

from spark_analysis.stage import CELL_COLUMNS, microseconds
from spark_analysis.tables import PRODUCE_API, STAGES

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from spark_analysis.run import TraceRun

WINDOW: Final = (0.1, 0.9)
"""The part of a run in which Little's law is checked. The broker fills before it and drains after it."""
ANY_REASON: Final = "any"
"""The reason in `mute_spans` for all reasons together; overlapping spans count once."""


def littles_law(run: TraceRun) -> DataFrame:
    """Check Little's law, L = lambda W, for each stage of each traced run.

    The two sides come from different rows. The rate and the wait come from the requests that *enter* the stage in the
    middle of the run. L is the average number of all requests in the stage during that time. They differ only by the
    requests in the stage at the start and the end of that time. A large difference means that the load was not steady,
    or that stamps are wrong.

    Returns:
        run, stage, entered (requests), window_us, rate_per_s (lambda), wait_us (W).
        expected (lambda W, requests in the stage), measured (L, requests in the stage).
        difference (measured - expected).
    """
    produced = run.requests.where(f.col("api") == PRODUCE_API)
    spans = produced.groupBy("run").agg(f.min("received_ns").alias("first_ns"), f.max("received_ns").alias("last_ns"))
    low, high = (f.lit(round(part * 100)) for part in WINDOW)
    length = f.col("last_ns") - f.col("first_ns")
    spans = spans.select(
        "run",
        (f.col("first_ns") + f.floor(length * low / 100)).alias("from_ns"),
        (f.col("first_ns") + f.floor(length * high / 100)).alias("to_ns"),
    ).where("to_ns > from_ns")
    rows = produced.join(f.broadcast(spans), "run")
    sums = rows.groupBy("run", "from_ns", "to_ns").agg(f.array(*[_flow(stage) for stage in STAGES]).alias("stages"))
    long = sums.select("run", (f.col("to_ns") - f.col("from_ns")).alias("window_ns"), f.explode("stages").alias("s"))
    seconds = f.col("window_ns") / 1e9
    wait_us = f.when(f.col("s.entered") > 0, f.col("s.spent_ns") / f.col("s.entered") / 1000)
    named = long.select(
        "run",
        f.col("s.stage").alias("stage"),
        f.col("s.entered").alias("entered"),
        (f.col("window_ns") / 1000).alias("window_us"),
        (f.col("s.entered") / seconds).alias("rate_per_s"),
        wait_us.alias("wait_us"),
        (f.col("s.spent_ns") / f.col("window_ns")).alias("expected"),
        (f.col("s.inside_ns") / f.col("window_ns")).alias("measured"),
    )
    return named.withColumn("difference", f.col("measured") - f.col("expected"))


def _flow(stage: str) -> Column:
    began, ended = (f.col(name) for name in STAGES[stage])
    passed = began.isNotNull() & ended.isNotNull() & (ended >= began)
    entered = passed & (began >= f.col("from_ns")) & (began < f.col("to_ns"))
    overlap = f.greatest(f.lit(0), f.least(ended, f.col("to_ns")) - f.greatest(began, f.col("from_ns")))
    return f.struct(
        f.lit(stage).alias("stage"),
        f.count(f.when(entered, 1)).alias("entered"),
        f.coalesce(f.sum(f.when(entered, ended - began)), f.lit(0)).alias("spent_ns"),
        f.coalesce(f.sum(f.when(passed, overlap)), f.lit(0)).alias("inside_ns"),
    )


def commit_batches(run: TraceRun) -> DataFrame:
    """Return sizes and times of commits by load, one row per cell with traced runs.

    Returns:
        the columns of `stage.CELL_COLUMNS`, outstanding (requests that clients keep unanswered: connections x
        in_flight), commits, entries, entries_mean, entries_p50, entries_p99, entries_most, bytes_mean, commit_p50_us,
        commit_p99_us (started to durable), sync_p50_us (written to durable); microseconds.
    """
    runs = run.runs.where("traced").select("run", *CELL_COLUMNS)
    ends = f.array(f.lit(0.5), f.lit(0.99))
    found = (
        run.commits.join(f.broadcast(runs), "run")
        .groupBy(*CELL_COLUMNS)
        .agg(
            f.count("*").alias("commits"),
            f.sum("entries").alias("entries"),
            f.avg("entries").alias("entries_mean"),
            f.percentile("entries", ends).alias("sizes"),
            f.max("entries").alias("entries_most"),
            f.avg("bytes").alias("bytes_mean"),
            f.percentile(microseconds("started_ns", "durable_ns"), ends).alias("times"),
            f.percentile(microseconds("written_ns", "durable_ns"), f.lit(0.5)).alias("sync_p50_us"),
        )
    )
    return found.select(
        *CELL_COLUMNS,
        (f.col("connections") * f.col("in_flight")).alias("outstanding"),
        "commits",
        "entries",
        "entries_mean",
        f.col("sizes")[0].alias("entries_p50"),
        f.col("sizes")[1].alias("entries_p99"),
        "entries_most",
        "bytes_mean",
        f.col("times")[0].alias("commit_p50_us"),
        f.col("times")[1].alias("commit_p99_us"),
        "sync_p50_us",
    )


def mute_spans(run: TraceRun) -> DataFrame:
    """Return the spans in which connections were not read, by reason; a throttle is one of the reasons.

    Returns:
        run, reason (`any`: all reasons, overlaps counted once), spans, connections.
        unended (spans without a traced end, which count in no time).
        total_us, p50_us, p99_us, most_us; microseconds.
        share (total_us over the time of the run, for all connections that were muted at least once, whatever the
            reason).
    """
    spans = run.mutes.withColumn("reason", f.coalesce("reason", f.lit("unknown")))
    spans = spans.select("run", "connection", "reason", "began_ns", "ended_ns")
    ends = f.array(f.lit(0.5), f.lit(0.99))
    length = run.requests.groupBy("run").agg((f.max("sent_ns") - f.min("received_ns")).alias("run_ns"))
    muted = spans.groupBy("run").agg(f.count_distinct("connection").alias("muted"))
    found = (
        spans.unionByName(_merged(spans))
        .withColumn("span_us", microseconds("began_ns", "ended_ns"))
        .groupBy("run", "reason")
        .agg(
            f.count("*").alias("spans"),
            f.count(f.when(f.col("ended_ns").isNull(), 1)).alias("unended"),
            f.count_distinct("connection").alias("connections"),
            f.coalesce(f.sum("span_us"), f.lit(0)).alias("total_us"),
            f.percentile("span_us", ends).alias("values"),
            f.max("span_us").alias("most_us"),
        )
        .join(f.broadcast(length), "run", "left")
        .join(f.broadcast(muted), "run")
    )
    share = f.col("total_us") * 1000 / (f.col("run_ns") * f.col("muted"))
    named = [f.col("values")[0].alias("p50_us"), f.col("values")[1].alias("p99_us")]
    counted = ("run", "reason", "spans", "unended", "connections", "total_us")
    return found.select(*counted, share.alias("share"), *named, "most_us")


def _merged(spans: DataFrame) -> DataFrame:
    along = Window.partitionBy("run", "connection").orderBy("began_ns", "ended_ns")
    # Gaps and islands: a span that starts before the latest earlier end belongs to the same island.
    before = f.max("ended_ns").over(along.rowsBetween(Window.unboundedPreceding, -1))
    starts = f.when(f.col("began_ns") <= before, 0).otherwise(1)
    ended = spans.where("ended_ns is not null").withColumn("starts", starts)
    islands = ended.withColumn("island", f.sum("starts").over(along))
    merged = islands.groupBy("run", "connection", "island").agg(
        f.min("began_ns").alias("began_ns"), f.max("ended_ns").alias("ended_ns")
    )
    return merged.select("run", "connection", f.lit(ANY_REASON).alias("reason"), "began_ns", "ended_ns")
