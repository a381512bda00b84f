"""Stage percentiles in time windows, by the same query for streams and tables.

A request counts entirely in the window in which it was received. Percentiles are exact, like those of the queries on
trace files. The state of a window is a count for each *different* microsecond of a stage: a few thousand numbers,
whatever the number of requests. A sketch would save little and could not be compared. Spark drops a window once the
watermark has passed its end; it ignores and counts later requests.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as f

from spark_analysis.stage import durations_of, stage_statistics

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

WINDOW_SECONDS: Final = 10
LATE_SECONDS: Final = 10
"""Longest time from receiving a request to publishing its timeline, which happens after the answer."""


def window_stage_latency(
    timelines: DataFrame, *, window_seconds: int = WINDOW_SECONDS, late_seconds: int = LATE_SECONDS
) -> DataFrame:
    """Return exact percentiles of every stage over the Produce requests of each window.

    Args:
        timelines: the result of `request_timelines`; a stream or a table.
        window_seconds: length of a window; windows start at multiples of it.
        late_seconds: in a stream, a request received this much before the latest one still counts.

    Returns:
        window_start, window_end (timestamps), mode, stage, requests.
        mean_us, p50_us, p90_us, p99_us, p999_us, p9999_us (microseconds).
        lost (the greatest `lost` of the window's rows).
        first_received and last_received (timestamps of requests in the window).
    """
    waited = timelines.withWatermark("received", f"{late_seconds} seconds")
    # Windows are aligned to the epoch, so a restarted job continues the same windows.
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
