"""The Spark queries of the report, except for stages and audit.

Each query is one aggregation with a small result: a row per run, cell or batch size. The client's figures use every
measured row, never a sample.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as f

from spark_analysis.latency import client_latencies
from spark_analysis.stage import CELL_COLUMNS, microseconds
from spark_analysis.tables import REPLAY_CLIENT

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from spark_analysis.run import TraceRun

CURVE: Final = tuple(
    sorted(
        {0.0001, 0.001, 0.005, 0.995, 0.998, 0.999, 0.9995, 0.9998, 0.9999}
        | {step / 100 for step in (1, 2, 3, 97, 98, 99)}
        | {step / 40 for step in range(2, 39)}
    )
)
"""The quantiles of a latency curve. They must include 0.5, 0.99 and 0.999, which the report looks up."""

BUCKET_MS: Final = 250


def latency(run: TraceRun) -> DataFrame:
    """Return a row per cell with the end-to-end latency of its untraced runs.

    Returns:
        the columns of `stage.CELL_COLUMNS`, samples, curve_us (microseconds at the quantiles CURVE).
    """
    curve = f.array(*[f.lit(quantile) for quantile in CURVE])
    return (
        client_latencies(run, *CELL_COLUMNS)
        .groupBy(*CELL_COLUMNS)
        .agg(
            f.count("latency_us").alias("samples"),
            f.percentile("latency_us", curve).alias("curve_us"),
        )
    )


def replay_buckets(run: TraceRun) -> DataFrame:
    """Return a row for each quarter of a second of the replay with answered requests, counted from its first event.

    Columns: `run`, `mode`, `bucket`, `requests`, and `p50_us` and `p99_us` from the intended time to the answer.
    """
    runs = run.runs.where((f.col("client") == REPLAY_CLIENT) & ~f.col("traced")).select("run", "mode")
    events = run.client.where("answered_ns is not null").join(f.broadcast(runs), "run")
    first = events.groupBy("run").agg(f.min("intended_ns").alias("first_ns"))
    return (
        events.join(f.broadcast(first), "run")
        .withColumn("bucket", f.expr(f"(intended_ns - first_ns) div {BUCKET_MS * 1_000_000}"))
        .withColumn("latency_us", microseconds("intended_ns", "answered_ns"))
        .groupBy("run", "mode", "bucket")
        .agg(
            f.count("*").alias("requests"),
            f.percentile("latency_us", f.lit(0.5)).alias("p50_us"),
            f.percentile("latency_us", f.lit(0.99)).alias("p99_us"),
        )
    )


def commit_sizes(run: TraceRun) -> DataFrame:
    """Return a row per cell and batch size (entries in one commit): the number of such commits, and their bytes."""
    runs = run.runs.where("traced").select("run", *CELL_COLUMNS)
    return (
        run.commits.join(f.broadcast(runs), "run")
        .groupBy(*CELL_COLUMNS, "entries")
        .agg(f.count("*").alias("commits"), f.sum("bytes").alias("bytes"))
    )


def commit_times(run: TraceRun) -> DataFrame:
    """Return a row per cell with the times of its commits.

    Returns:
        the columns of `stage.CELL_COLUMNS`, commits, commit_us and sync_us (p50 and p99, in microseconds),
        on_loop_share (of commits on the event loop).
    """
    runs = run.runs.where("traced").select("run", *CELL_COLUMNS)
    ends = f.array(f.lit(0.5), f.lit(0.99))
    return (
        run.commits.join(f.broadcast(runs), "run")
        .groupBy(*CELL_COLUMNS)
        .agg(
            f.count("*").alias("commits"),
            f.percentile(microseconds("started_ns", "durable_ns"), ends).alias("commit_us"),
            f.percentile(microseconds("written_ns", "durable_ns"), ends).alias("sync_us"),
            f.avg(f.col("is_on_loop").cast("int")).alias("on_loop_share"),
        )
    )


def waits(run: TraceRun) -> DataFrame:
    """Return rows for each cell and `what`, with the columns times, total and p99.

    `what` is the reason of a mute, with values in microseconds, or null for the depths of queues, with values in
    requests.
    """
    runs = run.runs.where("traced").select("run", *CELL_COLUMNS)
    mutes = run.mutes.select(
        "run",
        f.coalesce(f.col("reason"), f.lit("unknown")).alias("what"),
        microseconds("began_ns", "ended_ns").alias("value"),
    )
    depths = run.queues.select("run", f.lit(None).cast("string").alias("what"), f.col("depth").cast("bigint"))
    return (
        mutes.union(depths)
        .join(f.broadcast(runs), "run")
        .groupBy(*CELL_COLUMNS, "what")
        .agg(
            f.count("*").alias("times"),
            f.sum("value").alias("total"),
            f.percentile("value", f.lit(0.99)).alias("p99"),
        )
    )
