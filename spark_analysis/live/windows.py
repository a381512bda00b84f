"""The stages of requests in windows of time; the same query over a stream and over what is there.

Rules: a request counts in the window in which it was received, whole. Percentiles are exact, as those of the jobs on
trace files: the state of a window is a count for each *different* microsecond of a stage, a few thousand numbers
however many requests there were, so that an approximation would save little and could not be compared. A window may be
forgotten once the watermark has passed its end: requests that come later are left out and counted by Spark.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as f

from spark_analysis.stage import durations_of, stage_statistics

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

WINDOW_SECONDS: Final = 10
LATE_SECONDS: Final = 10
"""How long a request may take until it is published and still count: it is published when it was answered."""


def window_stage_latency(
    timelines: DataFrame, *, window_seconds: int = WINDOW_SECONDS, late_seconds: int = LATE_SECONDS
) -> DataFrame:
    """Exact percentiles of every stage over the Produce requests of each window.

    Args:
        timelines: what `request_timelines` gave; a stream or not.
        window_seconds: length of a window; windows begin at whole multiples of it.
        late_seconds: how far behind the latest request another may be received and still count; streams only.

    Returns:
        window_start, window_end (timestamps), mode, stage, requests, mean_us, p50_us, p90_us, p99_us, p999_us, p9999_us
        (microseconds), lost (the most rows that the broker had lost by a record of the window), first_received and
        last_received (timestamps of requests of the window).
    """
    waited = timelines.withWatermark("received", f"{late_seconds} seconds")
    placed = waited.withColumn("window", f.window("received", f"{window_seconds} seconds"))
    found = stage_statistics(
        durations_of(placed, "mode", "window", "lost", "received"),
        ("mode", "window"),
        f.max("lost").alias("lost"),
        f.min("received").alias("first_received"),
        f.max("received").alias("last_received"),
    )
    bounds = [f.col(f"window.{end}").alias(f"window_{end}") for end in ("start", "end")]
    return found.select(*bounds, *[name for name in found.columns if name != "window"])
