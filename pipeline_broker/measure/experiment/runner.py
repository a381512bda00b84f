"""Execution of a plan's groups, one run at a time."""

import contextlib
import shutil
import signal
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import attrs

from pipeline_broker.measure.experiment.budget import Costs, TimeLeft
from pipeline_broker.measure.experiment.compared_store import ComparedStore
from pipeline_broker.measure.experiment.drive import Driver, driver
from pipeline_broker.measure.experiment.fleet import BrokerDefaults, BrokerStarts, Fleet, NumberedBroker, is_ours
from pipeline_broker.measure.experiment.kafka_process import VERSION
from pipeline_broker.measure.experiment.machine import Surroundings, describe_machine, describe_software
from pipeline_broker.measure.experiment.modes import KAFKA_MODES
from pipeline_broker.measure.experiment.progress import ExperimentProgress, experiment_progress
from pipeline_broker.measure.experiment.raw import Circumstances, RawFolder, Surrounded
from pipeline_broker.measure.experiment.replayed import Stretch
from pipeline_broker.measure.experiment.results import Results
from pipeline_broker.measure.experiment.runs import Group, Run
from pipeline_broker.measure.experiment.stopping import Stopping, due
from pipeline_broker.measure.experiment.words import load_of


@attrs.frozen(slots=True)
class Setting:
    """The settings of an experiment.

    Attributes:
        out: folder of the results.
        raw: folder of the rows.
        costs: durations of runs.
        warmup_s: warm-up of each run.
        how: common settings of the brokers.
        seed: seed of the order of the runs, and of the intended times of open loops.
        stretches: recorded events, one stretch for each round.
        command: command line that repeats the experiment; empty if no command started it.
        budget_s: see `Request`.
        client: command line of a user's client.
    """

    out: Path
    raw: RawFolder
    costs: Costs
    warmup_s: float
    how: BrokerDefaults
    seed: int
    stretches: Sequence[Stretch] = ()
    command: str = ""
    budget_s: float | None = None
    client: str = ""


def run_groups(setting: Setting, groups: Sequence[Group], results: Results) -> None:
    """Execute the groups in order and collect their figures. With a budget, leave out rounds that are not needed.

    Raises:
        ExperimentError: a broker failed or refused.
        ClientError: a broker could not be driven.
    """
    planned_s = setting.costs.of(groups)
    budget_s = planned_s if setting.budget_s is None else setting.budget_s
    left = TimeLeft(min(planned_s, budget_s))
    stopping = Stopping(groups, setting.costs, results, budget_s)
    began_s = time.monotonic()

    def is_enough(round_number: int) -> bool:
        return setting.budget_s is not None and stopping.is_enough(round_number, time.monotonic() - began_s)

    how = setting.how
    kafka = {"apache-kafka": VERSION} if set(results.others) & set(KAFKA_MODES) else {}
    command = {"command": setting.command} if setting.command else {}
    machine = {**describe_machine(), **describe_software(), **kafka, **command}
    circumstances = Circumstances(how.flush, how.commits_in_flight, machine, setting.seed, how.store)
    with (
        _sigterm_as_interrupt(),
        _cleared(how.store),
        _scratch(setting.out) as scratch,
        Fleet(BrokerStarts(setting.how, scratch, setting.raw)) as fleet,
        driver(setting.costs, setting.warmup_s, setting.stretches, setting.seed, setting.client) as drive,
        experiment_progress(sum(len(group.runs) for group in groups), left) as progress,
    ):
        experiment = Experiment(setting.raw, setting.costs, circumstances, fleet, drive, results, progress)
        for group in due(groups, is_enough):
            experiment.run_group(group)


@attrs.frozen
class Experiment:
    raw: RawFolder
    costs: Costs
    circumstances: Circumstances
    fleet: Fleet
    driver: Driver
    results: Results
    progress: ExperimentProgress

    def run_group(self, group: Group) -> None:
        """Start or replace brokers, execute all runs of a group on them, and collect their figures.

        Raises:
            ExperimentError: a broker failed or refused.
            ClientError: a broker could not be driven.
        """
        self.progress.show("starting brokers")
        brokers, fresh = self.fleet.start(group)
        if not group.traced:  # the files of a traced broker must contain its run only
            for side in fresh:
                self.driver.warm_up(brokers[side].broker, is_ours=is_ours(side))
                own = [run for run in group.runs if run.side == side]
                self.driver.prepare_topics(own, brokers[side].broker)
        self.driver.connect_clients(group.runs, {side: brokers[side].broker for side in brokers})
        others = sum(not is_ours(side) for side in fresh)
        self.progress.advance(self.costs.of_start(group, others), is_run=False)
        for run in group.runs:
            self._run(run, brokers[run.side])
        self.driver.disconnect_clients()

    def _run(self, run: Run, numbered: NumberedBroker) -> None:
        self.progress.show(_title(run))
        offered_per_s = self.results.offered_per_s(run.cell)
        with Surroundings() as surroundings:
            rows, measured = self.driver.run(run, numbered.broker, self.raw.run(run.number), offered_per_s)
        own = Surrounded(numbered.process, offered_per_s, surroundings.describe())
        # `run.json` marks the run as complete, so it is written after the rows.
        self.raw.write_run(run, measured, own, self.circumstances)
        self.results.add(run, rows)
        self.progress.advance(self.costs.of_run(run))


def _title(run: Run) -> str:
    cell = run.cell
    delay = f" delay {cell.commit_delay_ms:g} ms" if cell.commit_delay_ms else ""
    return f"{cell.client} {load_of(cell)}{delay}, {run.side.mode}{', traced' if run.traced else ''}"


@contextlib.contextmanager
def _scratch(out: Path) -> Iterator[Path]:
    # On the disk of the results: /tmp may be a memory file system, on which a sync costs nothing.
    path = Path(tempfile.mkdtemp(prefix=".brokers-", dir=out))
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


@contextlib.contextmanager
def _cleared(store: ComparedStore | None) -> Iterator[None]:
    try:
        yield
    finally:
        if store is not None:
            store.clear()


@contextlib.contextmanager
def _sigterm_as_interrupt() -> Iterator[None]:
    # Trio handles Ctrl-C, and brokers are stopped.
    # A shell starts background jobs with SIGINT ignored, which would ignore the raised SIGINT too.
    interrupt = signal.signal(signal.SIGINT, signal.default_int_handler)
    terminate = signal.signal(signal.SIGTERM, lambda _number, _frame: signal.raise_signal(signal.SIGINT))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, terminate)
        signal.signal(signal.SIGINT, interrupt)
