"""The job: it reads records as they come and keeps the windows in files.

Rules: Spark's checkpoint knows which records were read and holds the windows that may still grow; the files are
written before the checkpoint says so. A directory belongs to one length of windows: another one would be mixed with it.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as f

from spark_analysis.errors import TraceError
from spark_analysis.live.timelines import request_timelines
from spark_analysis.live.window_files import WindowFiles
from spark_analysis.live.windows import LATE_SECONDS, WINDOW_SECONDS, window_stage_latency

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery

CHECKPOINT_FOLDER: Final = "checkpoint"
WINDOWS_FOLDER: Final = "windows"
PLAN_FILE: Final = "live.json"
EVERY_SECONDS: Final = 1.0
_PLAN_SCHEMA: Final = 2


def stream_stage_latency(
    records: DataFrame,
    directory: str | Path,
    *,
    window_seconds: int = WINDOW_SECONDS,
    late_seconds: int = LATE_SECONDS,
    every_seconds: float | None = EVERY_SECONDS,
    on_windows: Callable[[list[dict[str, Any]]], None] = lambda _: None,
) -> StreamingQuery:
    """Keep the stage percentiles of each window in files, from where the job on this directory stopped.

    Args:
        records: a stream with a column `value`: `topic_records`, or one of files.
        directory: gets `windows/*.parquet`, with the columns of `window_stage_latency`, and `checkpoint/`.
        window_seconds: length of a window.
        late_seconds: how far behind the latest request another may be received and still count.
        every_seconds: how often a batch begins; None reads what is there now, then ends.
        on_windows: called with the windows that have grown, after each batch, when they are in the files.

    Returns:
        the query, running; `stop` ends it, and the next call on the same directory goes on.

    Raises:
        TraceError: the directory has windows of another length.
    """
    directory = Path(directory)
    _check_plan(directory, {"schema": _PLAN_SCHEMA, "window_seconds": window_seconds, "late_seconds": late_seconds})
    files = WindowFiles(directory / WINDOWS_FOLDER)

    def keep(grown: DataFrame, _: int) -> None:
        rows = _utc_rows(grown)
        files.replace(rows)
        on_windows(rows)

    windows = window_stage_latency(request_timelines(records), window_seconds=window_seconds, late_seconds=late_seconds)
    writer = windows.writeStream.outputMode("update").foreachBatch(keep)
    writer = writer.option("checkpointLocation", str((directory / CHECKPOINT_FOLDER).resolve()))
    if every_seconds is None:
        return writer.trigger(availableNow=True).start()
    return writer.trigger(processingTime=f"{int(every_seconds * 1000)} milliseconds").start()


def _utc_rows(frame: DataFrame) -> list[dict[str, Any]]:
    """The rows with times in UTC: those that Spark gives are in the local time of this process, which has gaps."""
    bounds = ("window_start", "window_end")
    rows = [row.asDict() for row in frame.withColumns({name: f.unix_micros(name) for name in bounds}).collect()]
    return [row | {name: datetime.fromtimestamp(row[name] / 1_000_000, UTC) for name in bounds} for row in rows]


def _check_plan(directory: Path, plan: dict[str, Any]) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / PLAN_FILE
    if not path.exists():
        fresh = path.with_suffix(".new")
        fresh.write_text(json.dumps(plan) + "\n", encoding="utf-8")
        fresh.rename(path)
        return
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise TraceError(f"{path}: not readable as JSON: {error}") from None
    if found != plan:
        raise TraceError(f"{path}: this directory has {found}, not {plan}; choose another one")
