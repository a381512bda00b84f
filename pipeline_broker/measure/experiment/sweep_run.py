"""Execution of a sweep, or of the missing runs of an interrupted one.

The plan is stored before the first run. Complete runs are not repeated. A folder with another plan is refused, because
the rows of two experiments would be mixed.
"""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs

from pipeline_broker.client.errors import ClientError
from pipeline_broker.measure.experiment.broker_process import ExperimentError
from pipeline_broker.measure.experiment.budget import Costs, in_words
from pipeline_broker.measure.experiment.compare import SWEEP_FILE, draw_seed, empty_output
from pipeline_broker.measure.experiment.fleet import BrokerDefaults
from pipeline_broker.measure.experiment.progress import say
from pipeline_broker.measure.experiment.raw import RawFolder
from pipeline_broker.measure.experiment.results import Results
from pipeline_broker.measure.experiment.rounds import remaining
from pipeline_broker.measure.experiment.runner import Setting, run_groups
from pipeline_broker.measure.experiment.runs import Group, Run
from pipeline_broker.measure.experiment.sweep import Sweep
from pipeline_broker.measure.experiment.sweep_plan import plan_sweep, sweep_cells
from pipeline_broker.measure.experiment.table import report_text
from pipeline_broker.measure.load.options import LoadOptions
from pipeline_broker.traces.client_rows import read_client

SCHEMA = 1


@attrs.frozen(slots=True)
class SweepOptions:
    """The options of a sweep besides its factors.

    Attributes:
        out: folder of its results.
        how: common settings of the brokers.
        command: the command line that started it.
    """

    out: Path
    how: BrokerDefaults = attrs.field(factory=BrokerDefaults)
    command: str = ""


def run_sweep(sweep: Sweep, options: SweepOptions) -> Results:
    """Execute the missing runs of a sweep, print the table of all runs, and return their figures.

    Raises:
        ExperimentError: the folder contains another sweep, levels contradict each other, or a broker failed.
        ClientError: a broker could not be driven.
    """
    _check_levels(sweep)
    if options.how.store is not None:
        options.how.store.check()
    raw, seed = _opened(sweep, options)
    groups = plan_sweep(sweep, seed)
    done = {run.number for run in _runs(groups) if raw.is_done(run.number)}
    left = remaining(groups, lambda run: run.number in done)
    again = {run.number for run in _runs(left)}
    results = Results(sweep.modes)
    results.expect(sweep_cells(sweep))
    for run in _runs(groups):
        if run.number in again:
            raw.delete_run(run.number)
        else:
            results.add(
                run, [row for path in sorted(raw.run(run.number).glob("client*.ring")) for row in read_client(path)]
            )
    costs = Costs(sweep.seconds, sweep.seconds)
    total = sum(1 for _ in _runs(groups))
    so_far = f", {total - len(again)} of them done" if len(again) < total else ""
    say(f"{sweep.cells} loads, {total} runs{so_far}, seed {seed}, about {in_words(costs.of(left))}")
    setting = Setting(options.out, raw, costs, sweep.warmup, options.how, seed, command=options.command)
    try:
        run_groups(setting, left, results)
    except KeyboardInterrupt:
        finished = sum(raw.is_done(run.number) for run in _runs(groups))
        say(f"{finished} of {total} runs are done: repeat the command to resume")
        raise
    sys.stdout.write(f"{report_text(results)}\n")
    sys.stdout.flush()
    return results


def _runs(groups: list[Group]) -> Iterator[Run]:
    return (run for group in groups for run in group.runs)


def _check_levels(sweep: Sweep) -> None:
    for cell in sweep_cells(sweep):
        try:
            rate_per_s = None if cell.offer is None else 1.0
            load = LoadOptions("", 0, cell.connections, cell.in_flight, rate_per_s=rate_per_s)
            attrs.evolve(load, **attrs.asdict(cell.requests)).check()
        except ClientError as error:
            raise ExperimentError(f"{cell.variant}: {error}") from None


def _opened(sweep: Sweep, options: SweepOptions) -> tuple[RawFolder, int]:
    path = options.out / SWEEP_FILE
    how = options.how
    planned = {**sweep.as_json(), "flush": how.flush, "commits_in_flight": how.commits_in_flight}
    if how.store is not None:
        planned |= {"store": how.store.url, "store_delay_ms": how.store.delay_ms}
    if path.exists():
        begun = _read(path)
        seed = int(begun["seed"])
        _compare(begun["plan"], planned, options.out)
        if sweep.seed not in {None, seed}:
            raise _other_plan(options.out, f"seed was {seed} and is {sweep.seed}")
        raw = RawFolder(options.out / "raw")
        raw.root.mkdir(exist_ok=True)
        return raw, seed
    seed = draw_seed() if sweep.seed is None else sweep.seed
    raw = empty_output(options.out)
    # Renamed when complete, so that an interruption leaves a whole plan or none.
    fresh = path.with_suffix(".new")
    fresh.write_text(json.dumps({"schema": SCHEMA, "seed": seed, "plan": planned}, indent=1) + "\n", encoding="utf-8")
    fresh.rename(path)
    return raw, seed


def _read(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        if found["schema"] != SCHEMA:
            raise ExperimentError(
                f"{path} has schema {found['schema']}, but this version reads {SCHEMA}: remove the file to start again"
            )
        return {"seed": int(found["seed"]), "plan": dict(found["plan"])}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ExperimentError(f"{path} cannot be read ({error}): remove the file to start again") from None


def _compare(begun: dict[str, Any], planned: dict[str, Any], out: Path) -> None:
    for part in ("factors", None):
        before, now = (plan if part is None else plan.get(part, {}) for plan in (begun, planned))
        for name in {**before, **now}:
            if before.get(name) != now.get(name):
                raise _other_plan(out, f"{name} was {_text(before.get(name))} and is {_text(now.get(name))}")


def _text(value: object) -> str:
    return "missing" if value is None else json.dumps(value)


def _other_plan(out: Path, difference: str) -> ExperimentError:
    return ExperimentError(
        f"{out} contains a sweep with another plan ({difference}): choose another --out, or delete the folder"
    )
