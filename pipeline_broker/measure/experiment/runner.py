"""Carries out the groups of a plan.

Rules of this file: brokers of one group run side by side and one is driven at a time; whatever happens, they are
stopped and their data is removed. A run is described only when its rows are written.
"""

import contextlib
import shutil
import signal
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import attrs

from pipeline_broker.measure.experiment.broker_process import (
    Brokers,
    BrokerSettings,
    BrokerStart,
    FoundBroker,
    RunningBroker,
)
from pipeline_broker.measure.experiment.budget import Costs, TimeLeft
from pipeline_broker.measure.experiment.drive import Driver, driver
from pipeline_broker.measure.experiment.kafka_process import KafkaSettings
from pipeline_broker.measure.experiment.machine import describe_machine
from pipeline_broker.measure.experiment.modes import KAFKA_MODES, OTHER_BROKER
from pipeline_broker.measure.experiment.plan import REPLAY, Group, Run, Side
from pipeline_broker.measure.experiment.progress import ExperimentProgress, experiment_progress
from pipeline_broker.measure.experiment.raw import Circumstances, RawFolder
from pipeline_broker.measure.experiment.verdict import Results
from pipeline_broker.measure.load.departures import Departure
from stages.commit_pace import COMMITS_IN_FLIGHT_MAX


@attrs.frozen(slots=True)
class Setting:
    """Where and how the groups are run.

    Attributes:
        out: the folder of the results.
        raw: their rows.
        costs: what runs take; also how long they are.
        warmup_s: of each run.
        flush, commits_in_flight: of brokers whose cell does not say it.
        against: the address of a broker that runs already and is driven beside ours.
        departures: that are replayed.
    """

    out: Path
    raw: RawFolder
    costs: Costs
    warmup_s: float
    flush: str = "always"
    commits_in_flight: int = COMMITS_IN_FLIGHT_MAX
    against: tuple[str, int] | None = None
    departures: Sequence[Departure] = ()


def run_groups(setting: Setting, groups: Sequence[Group], results: Results) -> None:
    """Run everything in order and gather its figures.

    Raises:
        ExperimentError: a broker failed or refused.
        ClientError: a broker could not be driven.
    """
    left = TimeLeft(setting.costs.of(groups))
    with (
        _sigterm_as_interrupt(),
        _scratch(setting.out) as scratch,
        Brokers() as brokers,
        driver(setting.costs.run_s, setting.warmup_s, setting.departures) as drive,
        experiment_progress(sum(len(group.runs) for group in groups), left) as progress,
    ):
        circumstances = Circumstances(setting.flush, setting.commits_in_flight, describe_machine())
        experiment = _Experiment(setting, circumstances, scratch, brokers, drive, results, progress)
        for group in groups:
            experiment.run_group(group)


@attrs.define
class _Experiment:
    """The parts that every run needs."""

    setting: Setting
    circumstances: Circumstances
    scratch: Path
    brokers: Brokers
    driver: Driver
    results: Results
    progress: ExperimentProgress
    _started: int = 0

    def run_group(self, group: Group) -> None:
        """All runs of a group, on brokers that they share or, traced, on brokers of their own."""
        shared = [run for run in group.runs if not run.traced]
        if shared:
            brokers = self.brokers.replace([self._start(side, group) for side in group.sides])
            for side, broker in zip(group.sides, brokers, strict=True):
                self.driver.warm_up(broker, is_ours=side.mode not in (*KAFKA_MODES, OTHER_BROKER))
            self.progress.advance(self.setting.costs.of_start(group), is_run=False)
            of_side = dict(zip(group.sides, brokers, strict=True))
            for run in shared:
                self._run(run, of_side[run.side])
        traced = [run for run in group.runs if run.traced]
        for start in range(0, len(traced), len(group.sides)):
            runs = traced[start : start + len(group.sides)]
            settings = [self._settings(run.side.mode, group, self.setting.raw.run(run.number)) for run in runs]
            for run, broker in zip(runs, self.brokers.replace(settings), strict=True):
                self._run(run, broker)

    def _start(self, side: Side, group: Group) -> BrokerStart:
        if side.mode == OTHER_BROKER:
            assert self.setting.against is not None
            return FoundBroker(*self.setting.against)
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
            commits_in_flight=group.broker.commits_in_flight or self.setting.commits_in_flight,
            flush=group.broker.flush or self.setting.flush,
            trace=trace,
            properties=group.broker.properties,
        )

    def _run(self, run: Run, broker: RunningBroker) -> None:
        self.progress.show(_title(run))
        raw = self.setting.raw
        rows, measured = self.driver.run(run, broker, raw.run(run.number))
        raw.write_run(run, measured, self.circumstances)
        self.results.add(run, rows)
        self.progress.advance(self.setting.costs.of_run(run))


def _title(run: Run) -> str:
    cell = run.cell
    load = "" if cell.client == REPLAY else f" {cell.connections} x {cell.in_flight}"
    delay = f" delay {cell.commit_delay_ms:g} ms" if cell.commit_delay_ms else ""
    varied = f" {cell.variant}" if cell.variant else ""
    return f"{cell.client}{load}{delay}{varied}, {run.side.mode}{', traced' if run.traced else ''}"


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
