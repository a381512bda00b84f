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
from pathlib import Path
from typing import TYPE_CHECKING, Final

from spark_analysis.errors import AnalysisError
from spark_analysis.live.table import ShownTable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql.streaming.query import StreamingQuery

BAD_INPUT: Final = 2
_LOOK_SECONDS: Final = 1


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
    parser.add_argument("--seconds", type=float, help="end after so long (default: with Ctrl-C)")
    parser.add_argument("--once", action="store_true", help="read what is there now, then end")
    parser.add_argument("--master", help="the Spark master (default: local[2])")
    return parser


def _run(options: argparse.Namespace, signals: _EndSignals) -> None:
    from spark_analysis.live.connector import connector_jars  # noqa: PLC0415 - they need optional packages
    from spark_analysis.live.stream import EVERY_SECONDS, WINDOWS_FOLDER, stream_stage_latency  # noqa: PLC0415 - see above
    from spark_analysis.live.timelines import topic_records  # noqa: PLC0415 - see above
    from spark_analysis.live.window_files import WindowFiles  # noqa: PLC0415 - see above
    from spark_analysis.session import spark_session  # noqa: PLC0415 - see above

    table = ShownTable(sys.stdout)
    table.update(WindowFiles(Path(options.directory) / WINDOWS_FOLDER).read())
    with spark_session(options.master or "local[2]", {"spark.jars": connector_jars()}) as spark:
        signals.receive()
        query = stream_stage_latency(
            topic_records(spark, options.bootstrap),
            Path(options.directory),
            window_seconds=options.window,
            late_seconds=options.late,
            every_seconds=None if options.once else EVERY_SECONDS,
            on_windows=table.update,
        )
        _wait(query, options.seconds, signals)
    table.end()


def _wait(query: StreamingQuery, seconds_max: float | None, signals: _EndSignals) -> None:
    """Until the query ends, or the time is over, or somebody asks for it; an error of the query is raised."""
    deadline = float("inf") if seconds_max is None else time.monotonic() + seconds_max
    late = _LateRequests()
    try:
        while not signals.has_come and time.monotonic() < deadline and not query.awaitTermination(_LOOK_SECONDS):
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
