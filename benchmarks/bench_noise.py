"""Measure the error rate of the method: count how often `compare` reports a difference between a mode and itself.

    python benchmarks/bench_noise.py [--repeats 20] [--rounds 5] [--mode pipelined] [--out DIRECTORY]

Each repeat is an independent experiment: a sweep over 20 loads with the same mode on both sides and its own seed. The
true ratio of all rates and latencies is 1. At 95 %, about 19 of 20 intervals contain it. After the correction for 20
loads, at most one experiment in 20 may report any difference. All experiments run first, then their reports are
created.
A last measurement drives one classic broker with 5 and with 64 requests in flight, in turn. Because classic processes
one request of a connection at a time, this ratio should be 1 too. A repeat takes two minutes, and its report one. With
`--out` the experiments are kept, and existing ones are not repeated.
"""

import argparse
import json
import math
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

from pipeline_broker.measure.experiment.broker_process import BrokerSettings, RunningBroker, running
from pipeline_broker.measure.experiment.intervals import Speedup, speedup
from pipeline_broker.measure.load.client import run_load
from pipeline_broker.measure.load.options import LoadOptions
from pipeline_broker.measure.load.statistics import figures

REPEAT_SECONDS_MAX = 900.0
SWEEP = """
rounds = {rounds}
seed = {seed}
traced = 0
[factors]
mode = ["{mode}", "{mode}"]
connections = [1, 2, 4, 8, 16]
in_flight = [1, 4, 16, 64]
"""
QUANTITIES = ("rate", "p50", "p99", "p999")
SIGNIFICANT = 0.05
WARMUP_S = 0.05
RUN_S = 0.25
CLASSIC_IN_FLIGHT = (5, 64)
CLASSIC_ROUNDS = 15


def command(*arguments: str) -> None:
    full = [sys.executable, "-m", "pipeline_broker", *arguments]
    subprocess.run(full, check=True, stdout=subprocess.DEVNULL, timeout=REPEAT_SECONDS_MAX)


def measure(folder: Path, seed: int, mode: str, rounds: int) -> None:
    done = folder / "measured"
    if not done.exists():
        folder.mkdir(parents=True, exist_ok=True)
        sweep = folder.with_suffix(".toml")
        sweep.write_text(SWEEP.format(rounds=rounds, seed=seed, mode=mode))
        command("compare", "--out", str(folder), "--sweep", str(sweep), "--no-report")
        done.touch()


def ratios_of(folder: Path) -> dict[str, list[dict[str, Any]]]:
    """Return the ratios of each quantity of an experiment, one for each load with an interval."""
    summary = folder / "summary.json"
    if not summary.exists():
        command("report", str(folder))
    loads = json.loads(summary.read_text())["speedups"]
    found: dict[str, list[dict[str, Any]]] = {"rate": [{**load, "ratio": load["speedup"]} for load in loads]}
    found |= {name: [load[name] for load in loads if load[name]] for name in QUANTITIES[1:]}
    return {name: [ratio for ratio in ratios if ratio["low"] is not None] for name, ratios in found.items()}


def report(experiments: list[dict[str, list[dict[str, Any]]]]) -> None:
    different: Counter[int] = Counter()
    for name in QUANTITIES:
        ratios = [ratio for experiment in experiments for ratio in experiment[name]]
        if not ratios:
            continue
        held = sum(ratio["low"] <= 1 <= ratio["high"] for ratio in ratios)
        wrong = [
            number
            for number, experiment in enumerate(experiments)
            if any(ratio["corrected_p"] < SIGNIFICANT for ratio in experiment[name])
        ]
        different.update(wrong)
        middle = math.exp(sum(math.log(ratio["ratio"]) for ratio in ratios) / len(ratios))
        print(
            f"  {name}: {held} of {len(ratios)} intervals contain 1 ({held / len(ratios):.1%}), mean ratio {middle:.3f}"
        )
        print(f"    {len(experiments) - len(wrong)} of {len(experiments)} experiments report no difference")
    print(f"  in no quantity: {len(experiments) - len(different)} of {len(experiments)}")


def rate(broker: RunningBroker, connections: int, in_flight: int) -> float:
    options = LoadOptions(broker.host, broker.port, connections, in_flight, seconds=RUN_S, warmup_s=WARMUP_S)
    return figures(run_load(options).rows).requests_per_s


def windows_of_classic(folder: Path, rounds: int) -> Speedup | None:
    """Return the ratio of 64 requests in flight over 5, on one connection of a classic broker."""
    with running([BrokerSettings("classic", folder / "classic")]) as (broker,):
        rate(broker, 1, CLASSIC_IN_FLIGHT[0])
        pairs = []
        for number in range(rounds):
            order = CLASSIC_IN_FLIGHT if number % 2 else CLASSIC_IN_FLIGHT[::-1]
            found = {in_flight: rate(broker, 1, in_flight) for in_flight in order}
            pairs.append((found[CLASSIC_IN_FLIGHT[0]], found[CLASSIC_IN_FLIGHT[1]]))
    return speedup(pairs)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--classic-rounds", type=int, default=CLASSIC_ROUNDS)
    parser.add_argument("--mode", choices=("classic", "pipelined"), default="pipelined")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=Path.cwd(), prefix=".bench-") as temporary:
        out = options.out or Path(temporary)
        folders = [out / f"repeat-{number}" for number in range(options.repeats)]
        for number, folder in enumerate(folders):
            measure(folder, number, options.mode, options.rounds)
            print(f"experiment {number + 1} of {options.repeats} measured", file=sys.stderr, flush=True)
        print(f"{options.mode} with itself, {options.repeats} experiments of 20 loads and {options.rounds} rounds:")
        report([ratios_of(folder) for folder in folders])
        windows = windows_of_classic(Path(temporary), options.classic_rounds)
        if windows is not None:
            print(f"classic, 64 requests in flight over 5 on one connection: {windows.ratio:.3f}", end=" ")
            print(f"({windows.low or 0:.3f} to {windows.high or math.inf:.3f}, {windows.rounds} rounds)")


if __name__ == "__main__":
    main()
