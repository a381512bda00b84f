"""The streaming job: reads records as they arrive and keeps the windows in files.

Spark's checkpoint stores which records were read and the windows that may still grow. The files are written before the
checkpoint. Spark writes a Parquet folder for each window and mode that has grown, and replaces the previous folder with
it as a whole. Writing the same batch again changes nothing. So a job that is killed at any point and started again
neither loses nor doubles a request. A directory belongs to one window length and one limit of lateness.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as f

from spark_analysis.errors import TraceError
from spark_analysis.live.timelines import request_timelines
from spark_analysis.live.windows import LATE_SECONDS, WINDOW_SECONDS, window_stage_latency
from spark_analysis.location import Location

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

CHECKPOINT_FOLDER: Final = "checkpoint"
WINDOWS_FOLDER: Final = "windows"
PLAN_FILE: Final = "live.json"
EVERY_SECONDS: Final = 1.0
_PLAN_SCHEMA: Final = 3
_UNFINISHED: Final = ".spark-staging"


def stream_stage_latency(
    records: DataFrame,
    directory: str | Path,
    *,
    window_seconds: int = WINDOW_SECONDS,
    late_seconds: int = LATE_SECONDS,
    every_seconds: float | None = EVERY_SECONDS,
    on_windows: Callable[[list[dict[str, Any]]], None] = lambda _: None,
) -> StreamingQuery:
    """Keep the stage percentiles of each window in files. Resume if a job on this directory was stopped.

    Args:
        records: a stream with a column `value`: `topic_records`, or a stream of files.
        directory: receives `windows/window=NAME/*.parquet`, with the columns of `window_stage_latency`, and
            `checkpoint/`. It is a path of this machine, or an address that Spark reads and writes.
        window_seconds: length of a window.
        late_seconds: a request received this much before the latest one still counts.
        every_seconds: time between two batches; None reads the existing records, then ends.
        on_windows: called after each batch with the windows that have grown, once they are in the files.

    Returns:
        the running query; `stop` ends it, and the next call on the same directory resumes.

    Raises:
        TraceError: the directory belongs to a job with another `window_seconds` or `late_seconds`, or to another
            version, or its `live.json` is damaged.
    """
    place = Location(records.sparkSession, directory)
    _check_plan(place, {"schema": _PLAN_SCHEMA, "window_seconds": window_seconds, "late_seconds": late_seconds})
    windows_place = place / WINDOWS_FOLDER
    for name in windows_place.folders() if windows_place.is_folder() else ():
        if name.startswith(_UNFINISHED):
            (windows_place / name).remove()  # from a job that was killed while writing

    def keep(grown: DataFrame, _: int) -> None:
        grown.persist()  # else each use would read the records of this batch again
        try:
            with place.without_checksums():
                named = grown.withColumn("window", _name()).write.partitionBy("window")
                # Dynamic mode replaces only the folders of windows in this batch, each as a whole. So a repeated batch
                # changes nothing.
                named.mode("overwrite").option("partitionOverwriteMode", "dynamic").parquet(windows_place.uri)
            on_windows(_utc_rows(grown))
        finally:
            grown.unpersist()

    windows = window_stage_latency(request_timelines(records), window_seconds=window_seconds, late_seconds=late_seconds)
    writer = windows.writeStream.outputMode("update").foreachBatch(keep)
    writer = writer.option("checkpointLocation", (place / CHECKPOINT_FOLDER).uri)
    if every_seconds is None:
        return writer.trigger(availableNow=True).start()
    return writer.trigger(processingTime=f"{int(every_seconds * 1000)} milliseconds").start()


def read_windows(spark: SparkSession, directory: str | Path) -> list[dict[str, Any]]:
    """Return the rows of all windows in a job's directory, the oldest first; empty if no job has run there."""
    place = Location(spark, directory) / WINDOWS_FOLDER
    if not place.is_folder() or place.parquet_columns() is None:
        return []
    return _utc_rows(spark.read.parquet(place.pattern).drop("window").orderBy("window_start", "mode"))


def _name() -> Column:
    # In UTC, whatever the session's time zone is: a restarted job must find its folders.
    start = f.convert_timezone(None, f.lit("UTC"), f.col("window_start").cast("timestamp_ntz"))
    return f.concat(f.date_format(start, "yyyyMMdd'T'HHmmss'Z-'"), "mode")


def _utc_rows(frame: DataFrame) -> list[dict[str, Any]]:
    # Spark would give local times of this process, which have gaps.
    times = ("window_start", "window_end", "first_received", "last_received")
    rows = [row.asDict() for row in frame.withColumns({name: f.unix_micros(name) for name in times}).collect()]
    return [row | {name: datetime.fromtimestamp(row[name] / 1_000_000, UTC) for name in times} for row in rows]


def _check_plan(place: Location, plan: dict[str, Any]) -> None:
    path = place / PLAN_FILE
    text = path.read_text()
    if text is None:
        path.write_text(json.dumps(plan) + "\n")
        return
    try:
        found = json.loads(text)
    except ValueError as error:
        raise TraceError(f"{path} is not readable as JSON: {error}. Choose another directory") from None
    # The checkpoint contains windows of the old length; Spark would mix them with new ones.
    if found != plan:
        raise TraceError(f"{path} belongs to a job with {found}, not {plan}. Choose another directory")
