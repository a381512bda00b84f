"""The experiment from start to end.

Rules of this file: brokers of one group run side by side and one is driven at a time; whatever happens, they are
stopped and their data is removed; progress goes to stderr, table, verdict and page to stdout.
"""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import attrs
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from pipeline_broker.experiment.broker_process import (
    Brokers,
    BrokerSettings,
    BrokerStart,
    ExperimentError,
    FoundBroker,
    RunningBroker,
    python_environment,
    python_module,
)
from pipeline_broker.experiment.drive import Driver, driver, has_confluent
from pipeline_broker.experiment.kafka_process import KafkaSettings, fetch_jars
from pipeline_broker.experiment.machine import describe_machine
from pipeline_broker.experiment.plan import (
    KAFKA_MODES,
    OTHER_BROKER,
    PROFILES,
    REPLAY,
    Group,
    Request,
    Run,
    Side,
    plan,
)
from pipeline_broker.experiment.raw import RawFolder
from pipeline_broker.experiment.verdict import LEGEND, Results, table
from pipeline_broker.load.departures import Departure, read_departures
from pipeline_broker.load.errors import LoadError
from pipeline_broker.load.replay import DEFAULT_DATA


@attrs.frozen(slots=True)
class CompareOptions:
    """What is run, how the brokers are started, and where the raw rows go.

    Attributes:
        against: the address of a broker that runs already and is driven beside ours.
    """

    out: Path
    request: Request = attrs.field(factory=Request)
    flush: str = "always"
    commits_in_flight: int = 1
    against: tuple[str, int] | None = None


def run_compare(options: CompareOptions) -> Results:
    """Run the experiment and print the verdict; raises ExperimentError or LoadError."""
    request = options.request
    profile = PROFILES[request.profile]
    departures: Sequence[Departure] = ()
    if not request.chosen_grid:
        if not has_confluent():
            _say("confluent-kafka is not installed (extra `compare`): its cells are left out")
            request = attrs.evolve(request, with_confluent=False)
        if DEFAULT_DATA.exists():
            departures = read_departures(DEFAULT_DATA, busiest_week_only=not profile.replay_whole_year)
        else:
            _say(f"{DEFAULT_DATA} is missing: the replay is left out")
            request = attrs.evolve(request, with_replay=False)
    if set(request.others) & set(KAFKA_MODES):
        fetch_jars()  # before anything else: it may take minutes, or fail
    groups = plan(request)
    raw = _empty_output(options.out)
    results = Results(request.modes, request.others)
    with (
        _sigterm_as_interrupt(),
        _scratch(options.out) as scratch,
        Brokers() as brokers,
        driver(profile, departures) as drive,
        _progress(sum(len(group.runs) for group in groups)) as progress,
    ):
        experiment = _Experiment(options, raw, scratch, brokers, drive, results, progress)
        for group in groups:
            experiment.run_group(group)
    print(f"{table(results)}\n\n{LEGEND}", flush=True)  # noqa: T201 - the command's output
    return results


def run_report(out: Path) -> int:
    """Make Parquet, summary and page from the raw rows, or again from the Parquet files; the exit code.

    What goes wrong is said by the analysis itself, in one line.
    """
    return subprocess.call(python_module("spark_analysis", str(out)), env=python_environment())  # noqa: S603 - our own module


@attrs.define
class _Experiment:
    """The parts that every run needs."""

    options: CompareOptions
    raw: RawFolder
    scratch: Path
    brokers: Brokers
    driver: Driver
    results: Results
    progress: "_Progress"
    machine: dict[str, str | int] = attrs.field(factory=describe_machine)
    _started: int = 0

    def run_group(self, group: Group) -> None:
        """All runs of a group, on brokers that they share or, traced, on brokers of their own."""
        shared = [run for run in group.runs if not run.traced]
        if shared:
            brokers = self.brokers.replace([self._start(side, group) for side in group.sides])
            for side, broker in zip(group.sides, brokers, strict=True):
                self.driver.warm_up(broker, is_ours=side.mode not in (*KAFKA_MODES, OTHER_BROKER))
            of_side = dict(zip(group.sides, brokers, strict=True))
            for run in shared:
                self._run(run, of_side[run.side])
        traced = [run for run in group.runs if run.traced]
        for start in range(0, len(traced), len(group.sides)):
            runs = traced[start : start + len(group.sides)]
            settings = [self._settings(run.side.mode, group, self.raw.run(run.number)) for run in runs]
            for run, broker in zip(runs, self.brokers.replace(settings), strict=True):
                self._run(run, broker)

    def _start(self, side: Side, group: Group) -> BrokerStart:
        if side.mode == OTHER_BROKER:
            assert self.options.against is not None
            return FoundBroker(*self.options.against)
        if side.mode in KAFKA_MODES:
            self._started += 1
            data = self.scratch / f"kafka-{self._started}"
            return KafkaSettings(side.mode, data, is_synced=side.mode == KAFKA_MODES[0])
        return self._settings(side.mode, group)

    def _settings(self, mode: str, group: Group, trace: Path | None = None) -> BrokerSettings:
        self._started += 1
        return BrokerSettings(
            mode=mode,
            data=self.scratch / f"broker-{self._started}",
            commit_delay_ms=group.commit_delay_ms,
            commits_in_flight=self.options.commits_in_flight,
            flush=self.options.flush,
            trace=trace,
        )

    def _run(self, run: Run, broker: RunningBroker) -> None:
        self.progress.show(_title(run))
        rows, measured = self.driver.run(run, broker, self.raw.run(run.number))
        self.raw.write_run(run, measured, self.options.flush, self.machine)
        self.results.add(run, rows)
        self.progress.advance()


def _title(run: Run) -> str:
    cell = run.cell
    load = "" if cell.client == REPLAY else f" {cell.connections} x {cell.in_flight}"
    delay = f" delay {cell.commit_delay_ms:g} ms" if cell.commit_delay_ms else ""
    return f"{cell.client}{load}{delay}, {run.side.mode}{', traced' if run.traced else ''}"


class _Progress:
    """A bar that is drawn between runs only: a thread that draws would disturb the client."""

    def __init__(self, progress: Progress, total: int) -> None:
        self._progress = progress
        self._task = progress.add_task("starting brokers", total=total)
        progress.refresh()

    def show(self, title: str) -> None:
        """Say what is running now."""
        self._progress.update(self._task, description=title, refresh=True)

    def advance(self) -> None:
        """One run is done."""
        self._progress.update(self._task, advance=1)


@contextlib.contextmanager
def _progress(total: int) -> Iterator[_Progress]:
    console = Console(stderr=True)
    columns = (BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TextColumn("{task.description}"))
    disabled = not console.is_terminal or "NO_COLOR" in os.environ
    with Progress(*columns, console=console, auto_refresh=False, transient=True, disable=disabled) as progress:
        yield _Progress(progress, total)


def _say(line: str) -> None:
    print(line, file=sys.stderr)  # noqa: T201 - a note for the person at the terminal


def _empty_output(out: Path) -> RawFolder:
    """The raw folder of this experiment, without what an earlier one has left."""
    out.mkdir(parents=True, exist_ok=True)
    raw = RawFolder(out / "raw")
    raw.clear()
    shutil.rmtree(out / "traces", ignore_errors=True)
    for name in ("summary.json", "report.html"):
        (out / name).unlink(missing_ok=True)
    return raw


@contextlib.contextmanager
def _scratch(out: Path) -> Iterator[Path]:
    """A folder for the brokers' data, on the disk of the results and not in a memory file system."""
    path = Path(tempfile.mkdtemp(prefix=".brokers-", dir=out))
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


@contextlib.contextmanager
def _sigterm_as_interrupt() -> Iterator[None]:
    """Let SIGTERM end the experiment as Ctrl-C does, so that its brokers are stopped; Trio knows that one.

    A shell starts background jobs with Ctrl-C ignored: that would ignore SIGTERM too.
    """
    interrupt = signal.signal(signal.SIGINT, signal.default_int_handler)
    terminate = signal.signal(signal.SIGTERM, lambda _number, _frame: signal.raise_signal(signal.SIGINT))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, terminate)
        signal.signal(signal.SIGINT, interrupt)


__all__ = ["CompareOptions", "ExperimentError", "LoadError", "run_compare", "run_report"]
