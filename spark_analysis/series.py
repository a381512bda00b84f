"""Stage times over the time of a run.

A request counts entirely in the bucket in which it was received, so a stall of 100 ms shows where it began. Time starts
with the first request that the broker received in the run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as f

from spark_analysis.latency import bucket_ns
from spark_analysis.stage import stage_durations, stage_statistics
from spark_analysis.tables import PRODUCE_API

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from spark_analysis.run import TraceRun


def stage_series(run: TraceRun, *, bucket_ms: int | None = 1000) -> DataFrame:
    """Return the stage times of Produce requests over the time of each traced run.

    Args:
        bucket_ms: length of a bucket; None gives at most forty buckets per run.

    Returns:
        run, at_ms (start of the bucket, milliseconds after the first request), bucket_ms, stage, requests, mean_us,
        p50_us, p90_us, p99_us, p999_us, p9999_us (microseconds).
    """
    produced = run.requests.where((f.col("api") == PRODUCE_API) & f.col("received_ns").isNotNull())
    ends = produced.groupBy("run").agg(f.min("received_ns").alias("first_ns"), f.max("received_ns").alias("last_ns"))
    ends = ends.withColumn("bucket_ns", bucket_ns(f.col("last_ns") - f.col("first_ns"), bucket_ms))
    rows = (
        stage_durations(run, "received_ns")
        .join(f.broadcast(ends), "run")
        .withColumn("bucket_ms", f.col("bucket_ns") / 1e6)
        .withColumn("at_ms", f.expr("((received_ns - first_ns) div bucket_ns) * bucket_ns / 1e6"))
        .where("received_ns is not null")
    )
    return stage_statistics(rows, ("run", "at_ms", "bucket_ms"))
