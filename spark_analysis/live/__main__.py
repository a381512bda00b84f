"""`python -m spark_analysis.live BOOTSTRAP DIR`: keeps the windows of a broker that publishes its timelines.

Rules: standard output carries the table: on a terminal one that is renewed, elsewhere the lines of all windows at the
end. What is wrong is one line on standard error, and exit code 2. Ctrl-C and SIGTERM end the job; what it
had not finished is done when it is started again.
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
"""How long a job with an end waits for its first window: a start of Spark, its first batch, and somebody's load."""
_LOOK_SECONDS: Final = 1
_NO_WINDOW: Final = (
    "no window yet: the job ended before its first batch, which takes Spark some ten seconds, or nothing has published "
    "a Produce request's timeline (pipeline-broker timelines status)\n"
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the job; returns the exit code."""
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
    """SIGINT and SIGTERM: somebody wants the job to end."""

    def __init__(self) -> None:
        self.has_come = False
        self._before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
        self.receive()

    def receive(self) -> None:
        """Take them, also from PySpark: its handler of SIGINT raises in the middle of a call to Java."""
        for number in self._before:
            signal.signal(number, self._received)

    def _received(self, *_: object) -> None:
        self.has_come = True

    def close(self) -> None:
        """Leave them to whoever had them before."""
        for number, handler in self._before.items():
            signal.signal(number, handler)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m spark_analysis.live", description="Stage percentiles of a running broker, window by window."
    )
    parser.add_argument("bootstrap", metavar="HOST:PORT", help="the broker; it must publish its timelines")
    parser.add_argument(
        "directory", metavar="DIR", help="gets windows/ and checkpoint/; a job goes on where it stopped"
    )
    parser.add_argument("--window", type=int, default=10, metavar="SECONDS", help="length of a window (default: 10)")
    parser.add_argument(
        "--late", type=int, default=10, metavar="SECONDS", help="how late a request may come (default: 10)"
    )
    parser.add_argument("--seconds", type=float, help="end so long after the first window (default: with Ctrl-C)")
    parser.add_argument("--once", action="store_true", help="read what is there now, then end")
    parser.add_argument("--master", help="the Spark master (default: local[2])")
    return parser


def _run(options: argparse.Namespace, signals: _EndSignals) -> None:
    from spark_analysis.live.connector import connector_jars  # noqa: PLC0415 - they need optional packages
    from spark_analysis.live.stream import EVERY_SECONDS, read_windows, stream_stage_latency  # noqa: PLC0415 - see above
    from spark_analysis.live.timelines import topic_records  # noqa: PLC0415 - see above
    from spark_analysis.session import spark_session  # noqa: PLC0415 - see above

    table = ShownTable(sys.stdout)
    with spark_session(options.master or "local[2]", {"spark.jars": connector_jars()}) as spark:
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
    """The time that a job has: it counts from the first window on, which comes some time after the start of Spark.

    Args:
        seconds: how long; None for ever.
        table: has the windows.
        clock: seconds.
    """

    def __init__(self, seconds: float | None, table: ShownTable, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._seconds = seconds
        self._table = table
        self._end = float("inf") if seconds is None else clock() + FIRST_WINDOW_SECONDS_MAX
        self._has_begun = False

    @property
    def is_over(self) -> bool:
        """Whether the job should end."""
        if self._seconds is not None and not self._has_begun and self._table.has_windows:
            self._has_begun = True
            self._end = self._clock() + self._seconds
        return self._clock() >= self._end


def _wait(query: StreamingQuery, job_time: _Time, signals: _EndSignals) -> None:
    """Until the query ends, or the time is over, or a signal asks for it; an error of the query is raised."""
    late = _LateRequests()
    try:
        while not signals.has_come and not job_time.is_over and not query.awaitTermination(_LOOK_SECONDS):
            late.look(query)
        late.look(query)
    finally:
        query.stop()
    if late.groups:
        sys.stderr.write(f"requests came too late for {late.groups} groups of their windows: raise --late\n")


class _LateRequests:
    """Counts what the watermark left out; Spark keeps the progress of its last hundred batches only."""

    def __init__(self) -> None:
        self.groups = 0
        self._seen = -1

    def look(self, query: StreamingQuery) -> None:
        for progress in query.recentProgress:
            if progress.batchId > self._seen:
                self._seen = progress.batchId
                self.groups += sum(operator.numRowsDroppedByWatermark for operator in progress.stateOperators)


if __name__ == "__main__":
    sys.exit(main())
