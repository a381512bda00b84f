"""One analysis from end to end: raw traces, Parquet, Spark, `summary.json`, `report.html`.

Rules: the files appear in that order, each whole or not at all. What is wrong ends as one `AnalysisError`.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from spark_analysis.errors import TraceError
from spark_analysis.figures import Figures, gather
from spark_analysis.report.page import write_report
from spark_analysis.run import TRACES_FOLDER, load_run
from spark_analysis.session import spark_session, spread
from spark_analysis.summary import Comparison
from spark_analysis.summary_json import summary as summary_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

    Begin = Callable[[str], Callable[[int, int], None]]

REPORT_FILE = "report.html"
SUMMARY_FILE = "summary.json"


def analyse(directory: str | Path, begin: Begin, *, master: str | None = None, parquet: bool = True) -> str:
    """Do it all; returns the verdict.

    Args:
        directory: what `compare --out` was given.
        begin: starts a named step and returns what reports its progress.
        master: the Spark master; `local[*]` unless given.
        parquet: whether raw traces, where there are any, are turned into Parquet first.

    Raises:
        AnalysisError: the traces, Java or Spark do not allow it.
    """
    directory = Path(directory)
    if not directory.is_dir():
        raise TraceError(f"{directory}: no such directory")
    if parquet:
        from spark_analysis.convert import convert, has_raw  # noqa: PLC0415 - where Parquet is there, PyArrow is not needed

        if has_raw(directory):
            convert(directory, begin("Traces to Parquet"))
    if not (directory / TRACES_FOLDER).is_dir():
        raise TraceError(f"{directory}: no {TRACES_FOLDER} folder" + ("" if parquet else "; leave out --no-parquet"))
    started = begin("Starting Spark")
    started(0, 1)
    with spark_session(master) as spark:
        started(1, 1)
        return report(directory, spark, begin("Spark"))


def report(
    directory: Path, spark: SparkSession, progress: Callable[[int, int], None] = lambda _done, _total: None
) -> str:
    """Write `summary.json` and `report.html` from the Parquet traces; returns the verdict."""
    run = load_run(directory, spark)
    spread(spark, run.traces)
    return write(directory, gather(run, progress))


def write(directory: Path, figures: Figures) -> str:
    """Write `summary.json` and `report.html` from what Spark found out; returns the verdict."""
    comparison = Comparison(figures)
    found = summary_of(comparison)
    summary = json.dumps(found, indent=1, ensure_ascii=False, allow_nan=False)
    fresh = directory / f".{SUMMARY_FILE}.new"
    fresh.write_text(summary + "\n", encoding="utf-8")
    fresh.rename(directory / SUMMARY_FILE)
    write_report(directory / REPORT_FILE, comparison, str(directory))
    return str(found["verdict"])
