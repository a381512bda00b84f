"""The job of `python -m spark_analysis.live`: reads timelines, and writes and shows windows until its end."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Final

from spark_analysis.live.connector import connector_jars
from spark_analysis.live.stream import EVERY_SECONDS, read_windows, stream_stage_latency
from spark_analysis.live.table import ShownTable
from spark_analysis.live.timelines import topic_records
from spark_analysis.session import spark_session

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

    from pyspark.sql.streaming.query import StreamingQuery

    from spark_analysis.live.end_signals import EndSignals

FIRST_WINDOW_SECONDS_MAX: Final = 180.0
"""Longest wait of a job with `--seconds` for its first window: Spark's startup, its first batch, and some load."""
_POLL_SECONDS: Final = 1
_NO_WINDOW: Final = (
    "the job computed no window: it ended before Spark's first batch, which takes about ten seconds, or the broker has "
    "published no timeline of a Produce request. Check the broker with pipeline-broker timelines status\n"
)


def run(options: argparse.Namespace, signals: EndSignals) -> None:
    table = ShownTable(sys.stdout)
    with spark_session(options.master or "local[2]", {"spark.jars": connector_jars()}) as spark:
        # Again: the start of Spark has replaced the handlers.
        signals.receive()
        table.update(read_windows(spark, options.directory))
        query = stream_stage_latency(
            topic_records(spark, options.bootstrap),
            options.directory,
            window_seconds=options.window,
            late_seconds=options.late,
            every_seconds=None if options.once else EVERY_SECONDS,
            on_windows=table.update,
        )
        _wait(query, _Time(options.seconds, table), signals)
    table.end()
    if not table.has_windows:
        sys.stderr.write(_NO_WINDOW)


class _Time:
    """The time limit of a job, which starts with the first window.

    Without a window, the time is over after FIRST_WINDOW_SECONDS_MAX.

    Args:
        seconds: the limit; None for no limit.
        table: contains the windows.
        clock: a monotonic clock in seconds.
    """

    def __init__(self, seconds: float | None, table: ShownTable, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._seconds = seconds
        self._table = table
        self._end = float("inf") if seconds is None else clock() + FIRST_WINDOW_SECONDS_MAX
        self._has_begun = False

    @property
    def is_over(self) -> bool:
        if self._seconds is not None and not self._has_begun and self._table.has_windows:
            self._has_begun = True
            self._end = self._clock() + self._seconds
        return self._clock() >= self._end


def _wait(query: StreamingQuery, job_time: _Time, signals: EndSignals) -> None:
    late = _LateRequests()
    try:
        while not signals.is_set and not job_time.is_over and not query.awaitTermination(_POLL_SECONDS):
            late.update(query)
        late.update(query)
    finally:
        query.stop()
    if late.groups:
        sys.stderr.write(f"Spark dropped {late.groups} groups of requests that arrived too late. Raise --late\n")


class _LateRequests:
    """A count of the groups that the watermark dropped. Spark keeps the progress of its last hundred batches only."""

    def __init__(self) -> None:
        self.groups = 0
        self._seen = -1

    def update(self, query: StreamingQuery) -> None:
        for progress in query.recentProgress:
            if progress.batchId > self._seen:
                self._seen = progress.batchId
                self.groups += sum(operator.numRowsDroppedByWatermark for operator in progress.stateOperators)
