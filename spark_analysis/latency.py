"""End-to-end latency as clients saw it.

Rules: exact percentiles over whole microseconds (bigint), never a sample or a sketch: a sketch is wrong exactly in the
tail. Closed loop: answered - sent. Open loop (replay): answered - intended, so that a request which had to wait because
earlier ones were late counts with its wait.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as f

from spark_analysis.stage import CELL_COLUMNS, QUANTILES, microseconds, percentile_columns, quantiles
from spark_analysis.tables import REPLAY_CLIENT

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from spark_analysis.run import TraceRun

BUCKETS_WANTED: Final = 40


def client_latencies(run: TraceRun, *by: str, traced: bool = False) -> DataFrame:
    """One row a measured answer of the untraced (or traced) runs.

    Returns:
        run, the columns `by` of its run, began_ns, answered_ns, latency_us, late_us (open loop only: how late the
        request left; it tells whether the client kept up).
    """
    named = ["run", "client", *(name for name in by if name not in ("run", "client"))]
    runs = run.runs.where(f.col("traced") == traced).select(*named)
    open_loop = f.col("client") == REPLAY_CLIENT
    return (
        run.client.where("measured and answered_ns is not null")
        .select("run", "sent_ns", "answered_ns", "intended_ns")
        .join(f.broadcast(runs), "run")
        .withColumn("began_ns", f.when(open_loop, f.col("intended_ns")).otherwise(f.col("sent_ns")))
        .withColumn("latency_us", microseconds("began_ns", "answered_ns"))
        .withColumn("late_us", f.when(open_loop, microseconds("intended_ns", "sent_ns")))
        .select(*dict.fromkeys(("run", *by)), "began_ns", "answered_ns", "latency_us", "late_us")
    )


def end_to_end_latency(run: TraceRun, *, by: tuple[str, ...] = CELL_COLUMNS, traced: bool = False) -> DataFrame:
    """Exact percentiles of what clients waited, warm-up left out.

    Args:
        run: an opened experiment.
        by: columns of `runs` to group by.
        traced: look at the traced runs instead of the untraced ones.

    Returns:
        the grouping columns, requests, mean_us, p50_us, p90_us, p99_us, p999_us, p9999_us, most_us (microseconds). A
        percentile means little where fewer than ten requests lie beyond it: p9999_us wants 100,000 of them.
    """
    found = (
        client_latencies(run, *by, traced=traced)
        .groupBy(*by)
        .agg(
            f.count("latency_us").alias("requests"),
            f.avg("latency_us").alias("mean_us"),
            f.percentile("latency_us", quantiles()).alias("values"),
            f.max("latency_us").alias("most_us"),
        )
    )
    return found.select(*by, "requests", "mean_us", *percentile_columns("values"), "most_us")


def latency_by_round(run: TraceRun) -> DataFrame:
    """What clients saw in each round: one row an untraced run, which is a cell, an experiment, a round and a side.

    Pairs of sides are rows that agree in everything but run, side and mode. Rate and percentiles are those of
    `summary.json`: the rate is that of all measured requests, the percentiles those of the answered ones.

    Returns:
        run, the columns of `stage.CELL_COLUMNS`, experiment (`grid`, `ablation`, ...; null in traces that do not say),
        round, side, requests, requests_per_s, p50_us, p99_us, p999_us (microseconds; exact, also where fewer than ten
        requests lie beyond).
    """
    experiment = f.get_json_object("settings", "$.experiment").alias("experiment")
    runs = run.runs.where(~f.col("traced")).select("run", *CELL_COLUMNS, experiment, "round", "side")
    began = f.when(f.col("client") == REPLAY_CLIENT, f.col("intended_ns")).otherwise(f.col("sent_ns"))
    found = (
        run.client.where("measured")
        .join(f.broadcast(runs), "run")
        .withColumn("began_ns", began)
        .groupBy(*runs.columns)
        .agg(
            f.count("*").alias("requests"),
            (f.max("answered_ns") - f.min("sent_ns")).alias("span_ns"),
            f.percentile(microseconds("began_ns", "answered_ns"), quantiles()).alias("values"),
        )
    )
    percentiles = dict(zip(QUANTILES, percentile_columns("values"), strict=True))
    rate = f.when(f.col("span_ns") > 0, f.col("requests") * 1e9 / f.col("span_ns")).alias("requests_per_s")
    wanted = [percentiles[name] for name in ("p50_us", "p99_us", "p999_us")]
    return found.select(*runs.columns, "requests", rate, *wanted)


def bucket_ns(span_ns: Column, bucket_ms: int | None) -> Column:
    """The length of one bucket: as given, else the first of 1, 2, 5 times a power of ten that makes at most forty.

    Args:
        span_ns: nanoseconds that a run takes.
        bucket_ms: milliseconds, or None.
    """
    if bucket_ms is not None:
        return f.lit(bucket_ms * 1_000_000)
    least = f.greatest(span_ns / f.lit(BUCKETS_WANTED), f.lit(1_000_000))
    power = f.pow(f.lit(10.0), f.floor(f.log10(least)))
    step = least / power
    factor = f.when(step <= 1, 1).when(step <= 2, 2).when(step <= 5, 5).otherwise(10)
    return (power * factor).cast("bigint")


def client_series(run: TraceRun, *, bucket_ms: int | None = 1000, traced: bool = False) -> DataFrame:
    """What clients saw over the time of each run; a request counts when it was sent (open loop: when it was due).

    Args:
        run: an opened experiment.
        bucket_ms: length of a bucket; None chooses for each run what makes about forty.
        traced: look at the traced runs instead of the untraced ones.

    Returns:
        run, at_ms (begin of the bucket, milliseconds after the run's first measured request), bucket_ms, requests,
        requests_per_s, p50_us, p99_us (microseconds).
    """
    rows = client_latencies(run, "run", traced=traced)
    ends = rows.groupBy("run").agg(f.min("began_ns").alias("first_ns"), f.max("began_ns").alias("last_ns"))
    ends = ends.withColumn("bucket_ns", bucket_ns(f.col("last_ns") - f.col("first_ns"), bucket_ms))
    found = (
        rows.join(f.broadcast(ends), "run")
        .withColumn("bucket", f.expr("(began_ns - first_ns) div bucket_ns"))
        .groupBy("run", "bucket_ns", "bucket")
        .agg(
            f.count("*").alias("requests"),
            f.percentile("latency_us", f.array(f.lit(0.5), f.lit(0.99))).alias("values"),
        )
    )
    length_ms = f.col("bucket_ns") / 1e6
    return found.select(
        "run",
        (f.col("bucket") * length_ms).alias("at_ms"),
        length_ms.alias("bucket_ms"),
        "requests",
        (f.col("requests") * 1000 / length_ms).alias("requests_per_s"),
        f.col("values")[0].alias("p50_us"),
        f.col("values")[1].alias("p99_us"),
    )
