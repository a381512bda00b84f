"""Each round has its own brokers, other projects' brokers keep running, and offers are shares of measured rates."""

import itertools
import json

import attrs

from pipeline_broker.measure.experiment.budget import Costs, TimeLeft
from pipeline_broker.measure.experiment.fleet import Fleet, is_ours
from pipeline_broker.measure.experiment.plan import Request, plan
from pipeline_broker.measure.experiment.progress import ExperimentProgress
from pipeline_broker.measure.experiment.raw import Circumstances, Measured, RawFolder
from pipeline_broker.measure.experiment.results import Results
from pipeline_broker.measure.experiment.runner import Experiment
from pipeline_broker.measure.experiment.runs import PAIRS
from pipeline_broker.traces.client_rows import ClientRow

RATE_PER_S = {"classic": 1000.0, "pipelined": 20_000.0, "kafka-synced": 2000.0, "kafka": 5000.0}


@attrs.define(eq=False)
class FakeBroker:
    """A broker that does nothing; `log` records the calls on all of them."""

    name: str
    log: list
    host: str = "nowhere"
    port: int = 0

    def start(self):
        self.log.append(("start", self.name))
        return self

    def wait_ready(self):
        pass

    def terminate(self):
        self.log.append(("terminate", self.name))

    def stop(self):
        self.log.append(("stop", self.name))


class FakeDriver:
    """A driver that answers at the rate of the mode; `runs` records each run with its broker and its offer."""

    def __init__(self):
        self.runs = []
        self.warm = []
        self.connected = []
        self.prepared = set()

    def warm_up(self, broker, *, is_ours=True):
        self.warm.append((broker.name, is_ours))

    def prepare_topics(self, runs, broker):
        self.prepared |= {(broker.name, run.cell.client) for run in runs}

    def connect_clients(self, runs, brokers):
        self.connected = [run for run in runs if run.cell.uses_confluent]

    def disconnect_clients(self):
        self.connected = []

    def run(self, run, broker, folder, offered_per_s):
        assert not run.cell.uses_confluent or run in self.connected
        assert run.traced or (broker.name, run.cell.client) in self.prepared or not is_ours(run.side)
        self.runs.append((run, broker, offered_per_s))
        gap = round(1e9 / RATE_PER_S.get(run.side.mode, 1000.0))
        due = [None if offered_per_s is None else number * gap for number in range(30)]
        rows = [
            ClientRow(0, number, number, due[number], number * gap, (number + 1) * gap, 0, True) for number in range(30)
        ]
        return rows, Measured(0, 1, 0.5)


class Silent:
    def update(self, share, runs, left, title):
        pass


def carried_out(request, tmp_path):
    log, numbers = [], itertools.count(1)
    raw = RawFolder(tmp_path / "raw")
    raw.clear()
    groups = plan(request, 3)
    results = Results(request.modes, request.others)
    costs = Costs(0.3, 0.3)
    left = TimeLeft(costs.of(groups))
    driver = FakeDriver()
    with Fleet(lambda side, _group: FakeBroker(f"{side.mode}-{next(numbers)}", log)) as fleet:
        progress = ExperimentProgress(Silent(), 1, left)
        experiment = Experiment(
            raw, costs, Circumstances("always", 1, {"cores": 2}, 3), fleet, driver, results, progress
        )
        for group in groups:
            experiment.run_group(group)
    assert left.seconds(1e9) == 0 or left.done_s > left.total_s - 1e-6, "all that was estimated is done"
    described = [
        json.loads((tmp_path / "raw" / f"run-{run.number:05}" / "run.json").read_text()) for run, _, _ in driver.runs
    ]
    return driver, described, log


def test_our_brokers_restart_in_every_round_and_others_keep_running(tmp_path):
    driver, described, log = carried_out(Request(others=("kafka-synced", "kafka"), rounds=3), tmp_path)
    rounds_of = {}
    for (run, broker, _), row in zip(driver.runs, described, strict=True):
        rounds_of.setdefault(broker, set()).add((run.experiment == "ladder", run.round))
        assert row["settings"]["process"] > 0
    for broker, rounds in rounds_of.items():
        is_ours = not broker.name.startswith("kafka")
        assert (len(rounds) == 1) is is_ours
    processes = {(row["mode"], row["settings"]["process"]) for row in described}
    assert len(processes) == len(rounds_of) == len({process for _, process in processes})
    assert sum(mode == "kafka" for mode, _ in processes) == 1
    assert sorted(name for what, name in log if what == "start") == sorted(name for what, name in log if what == "stop")


def test_untraced_brokers_are_warmed_up_once_and_traced_brokers_serve_one_run(tmp_path):
    driver, _, _ = carried_out(Request(others=("kafka",), rounds=3), tmp_path)
    served = {}
    for run, broker, _ in driver.runs:
        served.setdefault(broker.name, []).append(run)
    assert len(driver.warm) == len({name for name, _ in driver.warm})
    for name, runs in served.items():
        if runs[0].traced:
            assert len(runs) == 1
            assert name not in dict(driver.warm)
        else:
            assert (name, not name.startswith("kafka")) in driver.warm


def test_brokers_are_warmed_up_in_the_drawn_order_of_their_sides(tmp_path):
    request = Request(rounds=8)
    driver, _, _ = carried_out(request, tmp_path)
    drawn = [[side.mode for side in group.sides] for group in plan(request, 3) if not group.traced]
    assert [name.rpartition("-")[0] for name, _ in driver.warm] == [mode for sides in drawn for mode in sides]
    assert {("classic", "pipelined"), ("pipelined", "classic")} <= {tuple(sides) for sides in drawn}


def test_both_sides_are_offered_a_share_of_the_closed_loops_rate(tmp_path):
    driver, described, _ = carried_out(Request(rounds=2), tmp_path)
    offered = {(run.cell.offer.share, run.cell.offer.of, per_s) for run, _, per_s in driver.runs if run.cell.offer}
    assert {(share, of): round(per_s) for share, of, per_s in offered} == {
        (0.35, "classic"): 350, (0.65, "classic"): 650, (0.8, "pipelined"): 16_000, (0.0, ""): 1_000,
    }  # fmt: skip
    assert all(per_s is None for run, _, per_s in driver.runs if not run.cell.offer)
    for row in described:
        assert (row["offered_per_s"] is None) is (row["experiment"] != "ladder" and row["client"] != PAIRS)
        if row["experiment"] == "ladder":
            assert row["variant"] == f"rate={row['offered_share'] * 100:g}%-of-{row['offered_of']}"
