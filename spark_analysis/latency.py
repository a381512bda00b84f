"""End-to-end latency as the clients saw it.

Percentiles are exact, over whole microseconds (bigint). Sketches would be wrong exactly in the tail. Closed loop:
answered - sent. Open loop (a given pace, the replay): answered - intended, so that the latency of a request includes
its wait for late earlier ones (no coordinated omission).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as f

from spark_analysis.cells import PERCENTILES
from spark_analysis.stage import CELL_COLUMNS, microseconds, percentile_columns, quantiles
from spark_analysis.tables import REPLAY_CLIENT

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from spark_analysis.run import TraceRun

BUCKETS_WANTED: Final = 40
RUN_PERCENTILES: Final = ("p50_us", "p99_us", "p999_us")


def open_loop() -> Column:
    """Return the condition that a row of `runs` has fixed intended times for its requests."""
    return (f.col("client") == REPLAY_CLIENT) | f.col("offered_per_s").isNotNull()


def client_latencies(run: TraceRun, *by: str, traced: bool = False) -> DataFrame:
    """Return a row per measured answer of the untraced (or traced) runs.

    Returns:
        run, the columns `by` of its run, began_ns, answered_ns, latency_us.
    """
    named = ["run", *(name for name in by if name != "run")]
    runs = run.runs.where(f.col("traced") == traced).select(*named, open_loop().alias("open_loop"))
    is_open = f.col("open_loop")
    return (
        run.client.where("measured and answered_ns is not null")
        .select("run", "sent_ns", "answered_ns", "intended_ns")
        .join(f.broadcast(runs), "run")
        # In an open loop latency counts from the intended time, or late sending would hide a stall (coordinated
        # omission).
        .withColumn("began_ns", f.when(is_open, f.col("intended_ns")).otherwise(f.col("sent_ns")))
        .withColumn("latency_us", microseconds("began_ns", "answered_ns"))
        .select(*dict.fromkeys(("run", *by)), "began_ns", "answered_ns", "latency_us")
    )


def end_to_end_latency(run: TraceRun, *, by: tuple[str, ...] = CELL_COLUMNS, traced: bool = False) -> DataFrame:
    """Return exact percentiles of the client's latency, without the warm-up.

    Args:
        by: columns of `runs` to group by.
        traced: use the traced runs instead of the untraced ones.

    Returns:
        the grouping columns, requests, mean_us, p50_us, p90_us, p99_us, p999_us, p9999_us, most_us (microseconds). A
        percentile with fewer than ten requests beyond it means little: p9999_us needs 100,000 requests.
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


def client_runs(run: TraceRun) -> DataFrame:
    """Return a row per run with its client's totals and latency.

    Returns:
        run, requests (measured rows), errors (of them), first_sent_ns, last_answered_ns, samples (measured answers),
        p50_us, p99_us, p999_us (exact; open loop: from the intended time), mean_us (from sent to answered, over all
        answers including the warm-up), late_us (open loop: delay of the median request when it was sent), growth (open
        loop: growth of the latency in seconds per second, the slope of latency over the intended time), sent_p50_us,
        sent_p99_us, sent_p999_us (open loop: from the time of sending).
    """
    runs = run.runs.select("run", open_loop().alias("open_loop"))
    is_open, is_measured = f.col("open_loop"), f.col("measured")
    took_us = f.when(is_open, microseconds("intended_ns", "answered_ns")).otherwise(
        microseconds("sent_ns", "answered_ns")
    )
    rows = run.client.join(f.broadcast(runs), "run").withColumn("latency_us", f.when(is_measured, took_us))
    late_us = f.when(is_open & is_measured, microseconds("intended_ns", "sent_ns"))
    quantiles_wanted = f.array(*[f.lit(quantile) for quantile in PERCENTILES.values()])
    values = f.percentile("latency_us", quantiles_wanted)
    sent_us = f.when(is_open & is_measured, microseconds("sent_ns", "answered_ns"))
    found = rows.groupBy("run").agg(
        f.count(f.when(is_measured, 1)).alias("requests"),
        f.count(f.when(is_measured & (f.col("error") != 0), 1)).alias("errors"),
        f.min(f.when(is_measured, f.col("sent_ns"))).alias("first_sent_ns"),
        f.max(f.when(is_measured, f.col("answered_ns"))).alias("last_answered_ns"),
        f.count("latency_us").alias("samples"),
        values.alias("values"),
        f.avg(microseconds("sent_ns", "answered_ns")).alias("mean_us"),
        f.percentile(late_us, f.lit(0.5)).alias("late_us"),
        f.percentile(sent_us, quantiles_wanted).alias("sent_values"),
        # Latency in microseconds over time in microseconds: the slope is seconds per second.
        f.regr_slope(f.when(is_open, f.col("latency_us")), f.col("intended_ns") / 1000).alias("growth"),
    )
    percentiles = [f.col("values")[place].alias(name) for place, name in enumerate(RUN_PERCENTILES)]
    sent = [f.col("sent_values")[place].alias(f"sent_{name}") for place, name in enumerate(RUN_PERCENTILES)]
    counted = ("run", "requests", "errors", "first_sent_ns", "last_answered_ns", "samples")
    return found.select(*counted, *percentiles, "mean_us", "late_us", "growth", *sent)


def latency_by_round(run: TraceRun) -> DataFrame:
    """Return the client's rate and latency in each round: a row per untraced run.

    Rows that agree in everything except run, side and mode are a pair of sides. Rate and percentiles are those of
    `summary.json`: the rate counts all measured requests, the percentiles count the answered ones.

    Returns:
        run, the columns of `stage.CELL_COLUMNS`, experiment (`grid`, `ablation`, ...; null if unknown), round, side,
        requests, requests_per_s, p50_us, p99_us, p999_us (microseconds; exact, even if fewer than two requests lie
        beyond).
    """
    experiment = f.get_json_object("settings", "$.experiment").alias("experiment")
    runs = run.runs.where(~f.col("traced")).select("run", *CELL_COLUMNS, experiment, "round", "side")
    span_ns = f.col("last_answered_ns") - f.col("first_sent_ns")
    rate = f.when(span_ns > 0, f.col("requests") * 1e9 / span_ns).alias("requests_per_s")
    found = client_runs(run).where("requests > 0").join(f.broadcast(runs), "run")
    return found.select(*runs.columns, "requests", rate, *RUN_PERCENTILES)


def bucket_ns(span_ns: Column, bucket_ms: int | None) -> Column:
    """Return the length of a bucket in nanoseconds.

    Args:
        span_ns: the duration of a run.
        bucket_ms: milliseconds; None chooses the least of 1, 2, 5 times a power of ten that gives at most forty
            buckets.
    """
    if bucket_ms is not None:
        return f.lit(bucket_ms * 1_000_000)
    least = f.greatest(span_ns / f.lit(BUCKETS_WANTED), f.lit(1_000_000))
    power = f.pow(f.lit(10.0), f.floor(f.log10(least)))
    step = least / power
    factor = f.when(step <= 1, 1).when(step <= 2, 2).when(step <= 5, 5).otherwise(10)
    return (power * factor).cast("bigint")


def client_series(run: TraceRun, *, bucket_ms: int | None = 1000, traced: bool = False) -> DataFrame:
    """Return the client's rate and latency over the time of each run.

    Requests are placed by the time of sending, in an open loop by the intended time.

    Args:
        bucket_ms: length of a bucket; None gives at most forty buckets per run.
        traced: use the traced runs instead of the untraced ones.

    Returns:
        run, at_ms (start of the bucket, milliseconds after the run's first measured request), bucket_ms, requests,
        requests_per_s, p50_us, p99_us (microseconds). A run ends within its last bucket, so the rate of that bucket
        is too low.
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
