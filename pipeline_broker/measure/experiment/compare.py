"""The experiment of `compare` from start to end: plans and runs it, prints its tables, and creates the report.

Notes are written to stderr, tables to stdout.
"""

import contextlib
import importlib.util
import random
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import attrs

from pipeline_broker.client.errors import ClientError
from pipeline_broker.files.errors import DirectoryLocked
from pipeline_broker.files.file_system import SystemFileSystem
from pipeline_broker.measure.experiment.broker_process import ExperimentError, python_environment, python_module
from pipeline_broker.measure.experiment.budget import Costs, in_words
from pipeline_broker.measure.experiment.drive import has_confluent
from pipeline_broker.measure.experiment.fleet import BrokerDefaults
from pipeline_broker.measure.experiment.kafka_process import fetch_jars
from pipeline_broker.measure.experiment.modes import KAFKA_MODES
from pipeline_broker.measure.experiment.plan import Request, plan, reading_order
from pipeline_broker.measure.experiment.progress import say
from pipeline_broker.measure.experiment.raw import RawFolder
from pipeline_broker.measure.experiment.replayed import Stretch, departure_stretches, trace_stretches
from pipeline_broker.measure.experiment.results import Results
from pipeline_broker.measure.experiment.runner import Setting, run_groups
from pipeline_broker.measure.experiment.table import report_text
from pipeline_broker.measure.load.replay import DEFAULT_DATA

ANALYSIS_PACKAGES = ("pyspark", "pyarrow", "jinja2")
"""The packages of the extra `spark` that the analysis imports. Java may already be installed on the machine."""
LOCK_NAME = ".lock"
SEED_BITS = 32
SWEEP_FILE = "sweep.json"
"""The plan of a sweep, stored beside its rows so that an interrupted sweep can be resumed."""


@attrs.frozen(slots=True)
class CompareOptions:
    """The options of an experiment.

    Attributes:
        out: folder of its results.
        request: the loads and modes to run.
        how: the common settings of its brokers.
        seed: seed of the order of the runs; None: a random one.
        command: the command that started the experiment, recorded with its seed.
    """

    out: Path
    request: Request = attrs.field(factory=Request)
    how: BrokerDefaults = attrs.field(factory=BrokerDefaults)
    seed: int | None = None
    command: str = ""


def run_compare(options: CompareOptions, *, with_report: bool = True) -> Results:
    """Run the experiment, print its tables, and return its figures.

    Args:
        with_report: whether the caller will create a report; changes only a note.

    Raises:
        ExperimentError, ClientError: the experiment cannot continue.
    """
    request, stretches = _without_missing_parts(options.request)
    profile = request.sizes
    if set(request.others) & set(KAFKA_MODES):
        fetch_jars()  # first, because it may take minutes or fail
    if options.how.store is not None:
        options.how.store.check()
    seed = draw_seed() if options.seed is None else options.seed
    groups = plan(request, seed)
    replay_s = max((stretch.seconds for stretch in stretches), default=0.0)
    costs = Costs(profile.run_s, profile.open_s, replay_s)
    runs = sum(len(group.runs) for group in groups)
    seconds = costs.of(groups)
    length = f"about {in_words(seconds)}" if request.budget_s is None else f"at most {in_words(request.budget_s)}"
    most = "" if request.budget_s is None else "at most "
    say(f"{most}{runs} runs, seed {seed}, {length}{', then the report' if with_report else ''}")
    raw = empty_output(options.out)
    command = f"{options.command} --seed {seed}" if options.command and options.seed is None else options.command
    setting = Setting(
        options.out,
        raw,
        costs,
        profile.warmup_s,
        options.how,
        seed,
        stretches,
        command,
        request.budget_s,
        request.command,
    )
    results = Results(request.modes, request.others)
    results.expect(reading_order(groups))
    run_groups(setting, groups, results)
    sys.stdout.write(f"{report_text(results)}\n")
    sys.stdout.flush()
    return results


def _without_missing_parts(request: Request) -> tuple[Request, Sequence[Stretch]]:
    if request.trace is not None:
        stretches = trace_stretches(request.trace, request.replay_rounds)
        return attrs.evolve(request, replay_connections=stretches[0].connections), stretches
    if request.chosen_grid or request.command:
        return request, ()
    if not has_confluent():
        say("loads of confluent-kafka are skipped. To include them, run pip install 'pipeline-broker[compare]'")
        request = attrs.evolve(request, with_confluent=False)
    if request.on_store:
        return attrs.evolve(request, with_replay=False), ()  # classic cannot keep the replay's pace on a store
    if DEFAULT_DATA.exists():
        whole_year = request.sizes.replay_whole_year
        return request, departure_stretches(DEFAULT_DATA, request.replay_rounds, whole_year=whole_year)
    say("the replay of departures is skipped: its events are in the repository, not in the package")
    return attrs.evolve(request, with_replay=False), ()


def draw_seed() -> int:
    return random.SystemRandom().getrandbits(SEED_BITS)


def ensure_report() -> None:
    """Check that a report can be created, before the experiment takes its minutes.

    Raises:
        ExperimentError: a package that the analysis needs is not installed.
    """
    missing = [name for name in ANALYSIS_PACKAGES if importlib.util.find_spec(name) is None]
    if missing:
        raise ExperimentError(
            f"the report needs {' and '.join(missing)}. Run pip install 'pipeline-broker[spark]', or pass --no-report"
        )


def run_report(out: Path, put_price: float, get_price: float) -> int:
    """Create Parquet files, summary and page from the raw rows, or from Parquet files of an earlier analysis.

    The analysis prints its own errors.

    Args:
        out: folder of the experiment.
        put_price, get_price: dollars for a million requests to an object store.

    Returns:
        the exit code of the analysis.
    """
    say("creating the report")
    prices = ["--put-price", f"{put_price:g}", "--get-price", f"{get_price:g}"]
    return subprocess.call(python_module("spark_analysis", str(out), *prices), env=python_environment())  # noqa: S603 - our own module


@contextlib.contextmanager
def alone_in(out: Path) -> Iterator[None]:
    """Lock the folder against other experiments, which would delete this one's results.

    Raises:
        ExperimentError: another experiment holds the lock.
    """
    out.mkdir(parents=True, exist_ok=True)
    try:
        lock = SystemFileSystem().lock(out / LOCK_NAME)
    except DirectoryLocked:
        raise ExperimentError(f"another experiment is running in {out}: choose another --out") from None
    try:
        yield
    finally:
        lock.release()


def empty_output(out: Path) -> RawFolder:
    """Delete the results of an earlier experiment, and return the empty raw folder.

    Raises:
        ExperimentError: the raw folder contains other files.
    """
    out.mkdir(parents=True, exist_ok=True)
    raw = RawFolder(out / "raw")
    raw.clear()
    shutil.rmtree(out / "traces", ignore_errors=True)
    for name in (SWEEP_FILE, "summary.json", "report.html"):
        (out / name).unlink(missing_ok=True)
    return raw


__all__ = [
    "SWEEP_FILE",
    "ClientError",
    "CompareOptions",
    "ExperimentError",
    "alone_in",
    "empty_output",
    "ensure_report",
    "run_compare",
    "run_report",
]
