"""The whole analysis: from raw traces to Parquet, and with Spark to derived tables, `summary.json` and `report.html`.

The results appear in that order beside the raw traces, each complete or not at all.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from spark_analysis.costs import DEFAULT_PRICES, Prices
from spark_analysis.derived import write_derived
from spark_analysis.errors import TraceError
from spark_analysis.figures import gather
from spark_analysis.location import Location, local_path
from spark_analysis.report.page import render
from spark_analysis.run import RAW_FOLDER, TRACES_FOLDER, load_run
from spark_analysis.run_quality import run_quality
from spark_analysis.session import spark_session
from spark_analysis.summary import Comparison
from spark_analysis.summary_json import summary as summary_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import SparkSession

    Begin = Callable[[str], Callable[[int, int], None]]

REPORT_FILE = "report.html"
SUMMARY_FILE = "summary.json"


def analyse(
    directory: str | Path,
    begin: Begin,
    *,
    master: str | None = None,
    parquet: bool = True,
    prices: Prices = DEFAULT_PRICES,
) -> str:
    """Run the whole analysis. Return the verdict and the quality of the run, as text for a terminal.

    Args:
        directory: the directory of `compare --out`: a path of this machine, or an address that Spark reads.
        begin: starts a named step and returns the callback for its progress (done, total).
        master: the Spark master; None for the default of `spark_session`.
        parquet: convert raw traces to Parquet first, if there are any.
        prices: prices of an object store.

    Raises:
        AnalysisError: the traces are missing or damaged, or Java or Spark fails.
    """
    path = local_path(directory)
    if path is not None and not path.is_dir():
        raise TraceError(f"the directory {directory} does not exist. Give the directory of `compare --out`")
    started = begin("Starting Spark")
    started(0, 1)
    with spark_session(master, input_bytes=None if path is None else _input_bytes(path)) as spark:
        started(1, 1)
        place = Location(spark, directory)
        if parquet and (place / RAW_FOLDER).is_folder():
            from spark_analysis.convert import convert  # noqa: PLC0415 - PyArrow is needed only to convert

            convert(place, spark, begin("Traces to Parquet"))
        if not (place / TRACES_FOLDER).is_folder():
            raise TraceError(
                f"{directory} has no {TRACES_FOLDER} folder"
                + (". Give the directory of `compare --out`" if parquet else ". Run it without --no-parquet")
            )
        return report(place, spark, begin("Spark"), prices)


def _input_bytes(path: Path) -> int:
    files = (file for folder in (RAW_FOLDER, TRACES_FOLDER) for file in (path / folder).rglob("*"))
    return sum(file.stat().st_size for file in files if file.is_file())


def report(
    directory: str | Path | Location,
    spark: SparkSession,
    progress: Callable[[int, int], None] = lambda _done, _total: None,
    prices: Prices = DEFAULT_PRICES,
) -> str:
    """Write the derived tables, `summary.json` and `report.html` from the Parquet traces.

    Returns:
        the verdict and the quality of the run, as text for a terminal.

    Raises:
        TraceError: the traces are missing or damaged.
    """
    place = directory if isinstance(directory, Location) else Location(spark, directory)
    run = load_run(place)
    comparison = Comparison(gather(run, progress), prices)
    write_derived(place, run, comparison)
    return write(place, comparison)


def write(place: Location, comparison: Comparison) -> str:
    """Write `summary.json` and `report.html` from Spark's results. Return the verdict and the quality of the run."""
    quality = run_quality(comparison)
    found = summary_of(comparison, quality)
    summary = json.dumps(found, indent=1, ensure_ascii=False, allow_nan=False)
    (place / SUMMARY_FILE).write_text(summary + "\n")
    (place / REPORT_FILE).write_text(render(comparison, quality, str(place)))
    return f"{found['verdict']}\n{quality.sentence}"
