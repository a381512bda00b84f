"""The generator of synthetic raw runs; the Spark session is that of all tests (tests/conftest.py)."""

from __future__ import annotations

import contextlib
import importlib.util
import io
import shutil
from pathlib import Path

import attrs
import pytest


def _load_synthetic():
    spec = importlib.util.spec_from_file_location("spark_analysis_synthetic", Path(__file__).with_name("synthetic.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def synthetic():
    """The module synthetic.py. Tests are not in packages, so it is loaded by its path."""
    return _load_synthetic()


@pytest.fixture(autouse=True)
def _leaves_nothing_behind():
    """Replaces the check for unclosed sockets: PySpark leaves its own to the garbage collector."""


@pytest.fixture(scope="session")
def experiment(synthetic, tmp_path_factory):
    """A small experiment with every part of a real one, as raw runs."""
    directory = tmp_path_factory.mktemp("experiment")
    synthetic.experiment(directory, requests=60)
    return directory


@pytest.fixture(scope="session")
def converted(experiment, spark):
    """The small experiment, without the tables that earlier versions did not write."""
    from spark_analysis.convert import convert
    from spark_analysis.tables import LATER_TABLES

    convert(experiment, spark)
    for table in LATER_TABLES:
        shutil.rmtree(experiment / "traces" / table)
    return experiment


@attrs.frozen
class Reported:
    """A report, with the output and the leftovers of making it.

    Attributes:
        directory: the experiment.
        printed: standard output and standard error.
        jobs: Spark's jobs.
        is_anything_kept: whether Spark still cached a table afterwards.
    """

    directory: Path
    printed: tuple[str, str]
    jobs: int
    is_anything_kept: bool


@pytest.fixture(scope="session")
def reported(converted, spark):
    """The small experiment with its page and summary."""
    from spark_analysis.__main__ import main

    tracker = spark.sparkContext.statusTracker()
    before = set(tracker.getJobIdsForGroup(None))
    printed = printed_by(main, str(converted), "--no-parquet")
    jobs = set(tracker.getJobIdsForGroup(None)) - before
    kept = not spark.sparkContext._jsc.sc().getPersistentRDDs().isEmpty()
    return Reported(converted, printed, len(jobs), kept)


def printed_by(main, *arguments):
    """Run `main`, which must succeed, and return standard output and standard error."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        assert main(list(arguments)) == 0
    return out.getvalue(), err.getvalue()


@pytest.fixture(scope="session")
def small(small_by_uri):
    """Two rounds of two sides, the second one traced: raw runs, and the summary that this process makes of them."""
    return small_by_uri[0]


@pytest.fixture(scope="session")
def small_by_uri(synthetic, spark, tmp_path_factory):
    """Like `small`, with the output. It was named by a URI with characters that are special in addresses."""
    from spark_analysis.__main__ import main

    assert spark is not None
    directory = tmp_path_factory.mktemp("small") / "with [brackets] and blanks"
    stages = dict.fromkeys(("RequestQueue", "Local", "CommitWait", "Remote"), 10)
    stages |= dict.fromkeys(("ResponseOrderWait", "ResponseQueue", "ResponseSend"), 5)
    for number in range(1, 5):
        columns = {"traced": number > 2, "side": number % 2, "mode": ("classic", "pipelined")[number % 2]}
        run = synthetic.RawRun(directory / "raw", number, **columns)
        synthetic.steady(run, [500 * number] * 50, gap_us=100)
        if columns["traced"]:
            synthetic.traced_request(run, 0, 0, synthetic.START_NS, stages)
        run.write()
    return directory, printed_by(main, f"file://{directory}")
