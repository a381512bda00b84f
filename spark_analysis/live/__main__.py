"""The command `python -m spark_analysis.live BOOTSTRAP DIR`: stage percentiles of a broker that publishes timelines.

Standard output gets the table: a terminal shows it updated in place, any other output gets all windows at the end. An
error is one line on standard error, and exit code 2. Ctrl-C and SIGTERM end the job; the next run on the same
directory resumes it.
"""

from __future__ import annotations

import argparse
import signal
import sys
import time
from typing import TYPE_CHECKING, Final

from spark_analysis.errors import AnalysisError
from spark_analysis.live.table import ShownTable

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyspark.sql.streaming.query import StreamingQuery

BAD_INPUT: Final = 2
FIRST_WINDOW_SECONDS_MAX: Final = 180.0
"""Longest wait of a job with `--seconds` for its first window: Spark's startup, its first batch, and some load."""
_POLL_SECONDS: Final = 1
_NO_WINDOW: Final = (
    "the job computed no window: it ended before Spark's first batch, which takes about ten seconds, or the broker has "
    "published no timeline of a Produce request. Check the broker with pipeline-broker timelines status\n"
)


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    signals = _EndSignals()
    try:
        _run(options, signals)
    except (AnalysisError, ImportError, OSError) as error:
        sys.stderr.write(f"error: {error}\n")
        return BAD_INPUT
    finally:
        signals.close()
    return 0


class _EndSignals:
    def __init__(self) -> None:
        self.is_set = False
        self._before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
        self.receive()

    def receive(self) -> None:
        """Install the handlers, also over PySpark's: its handler of SIGINT raises in the middle of a call to Java."""
        for number in self._before:
            signal.signal(number, self._received)

    def _received(self, *_: object) -> None:
        self.is_set = True

    def close(self) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m spark_analysis.live", description="Stage percentiles of a running broker, window by window."
    )
    parser.add_argument("bootstrap", metavar="HOST:PORT", help="the broker; it must publish its timelines")
    parser.add_argument(
        "directory", metavar="DIR", help="directory for windows/ and checkpoint/, from which a later job resumes"
    )
    parser.add_argument("--window", type=int, default=10, metavar="SECONDS", help="length of a window (default: 10)")
    parser.add_argument(
        "--late", type=int, default=10, metavar="SECONDS", help="longest delay of a counted request (default: 10)"
    )
    parser.add_argument(
        "--seconds", type=float, help="end this many seconds after the first window (default: run until Ctrl-C)"
    )
    parser.add_argument("--once", action="store_true", help="read the existing records, then end")
    parser.add_argument("--master", help="the Spark master (default: local[2])")
    return parser


def _run(options: argparse.Namespace, signals: _EndSignals) -> None:
    from spark_analysis.live.connector import connector_jars  # noqa: PLC0415 - they need optional packages
    from spark_analysis.live.stream import EVERY_SECONDS, read_windows, stream_stage_latency  # noqa: PLC0415 - see above
    from spark_analysis.live.timelines import topic_records  # noqa: PLC0415 - see above
    from spark_analysis.session import spark_session  # noqa: PLC0415 - see above

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


def _wait(query: StreamingQuery, job_time: _Time, signals: _EndSignals) -> None:
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


if __name__ == "__main__":
    sys.exit(main())
