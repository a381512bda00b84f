"""The command `python -m spark_analysis.live BOOTSTRAP DIR`: stage percentiles of a broker that publishes timelines.

Standard output gets the table: a terminal shows it updated in place, any other output gets all windows at the end. An
error is one line on standard error, and exit code 2. Ctrl-C and SIGTERM end the job; the next run on the same
directory resumes it.
"""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Final

from spark_analysis.errors import AnalysisError
from spark_analysis.live.end_signals import EndSignals

if TYPE_CHECKING:
    from collections.abc import Sequence

BAD_INPUT: Final = 2


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    signals = EndSignals()
    try:
        from spark_analysis.live import job  # noqa: PLC0415 - it needs optional packages

        job.run(options, signals)
    except ImportError as error:
        sys.stderr.write(f"error: {error}. Run pip install 'pipeline-broker[spark]'\n")
        return BAD_INPUT
    except (AnalysisError, OSError) as error:
        sys.stderr.write(f"error: {error}\n")
        return BAD_INPUT
    finally:
        signals.close()
    return 0


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
        "--late",
        type=int,
        default=10,
        metavar="SECONDS",
        help="longest time of a counted request before the latest received one (default: 10)",
    )
    parser.add_argument(
        "--seconds", type=float, help="end this many seconds after the first window (default: run until Ctrl-C)"
    )
    parser.add_argument("--once", action="store_true", help="read the existing records, then end")
    parser.add_argument("--master", help="the Spark master (default: local[2])")
    return parser


if __name__ == "__main__":
    sys.exit(main())
