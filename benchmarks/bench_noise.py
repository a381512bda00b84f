"""Whether the method can be trusted: how often an interval holds what is true by construction.

    python benchmarks/bench_noise.py [--repeats 20] [--rounds 5] [--run-s 0.25] [--mode pipelined]

Every repeat is an experiment of its own, of two brokers of the same mode, whose true ratio is 1. At 95 % some 19 of 20
intervals hold it; where clearly fewer do, rounds are not independent on this machine, and intervals of `compare` are
too narrow. At last one broker of mode classic with 5 and with 64 requests in flight, in turn: a connection that is
muted until it is answered has one request in work either way, so that the ratio should be 1 too. It takes some two
minutes and never much more than ten.
"""

import argparse
import math
import statistics
import tempfile
import time
from pathlib import Path

from pipeline_broker.measure.experiment.broker_process import BrokerSettings, RunningBroker, running
from pipeline_broker.measure.experiment.intervals import Speedup, speedup
from pipeline_broker.measure.load.client import run_load
from pipeline_broker.measure.load.options import LoadOptions
from pipeline_broker.measure.load.statistics import figures

SECONDS_MAX = 600.0
LOADS = ((1, 64), (16, 16))  # connections, in flight
WARMUP_S = 0.05
CLASSIC_IN_FLIGHT = (5, 64)
CLASSIC_ROUNDS = 15


def rate(broker: RunningBroker, connections: int, in_flight: int, run_s: float) -> float:
    options = LoadOptions(broker.host, broker.port, connections, in_flight, seconds=run_s, warmup_s=WARMUP_S)
    return figures(run_load(options).rows).requests_per_s


def same_mode(folder: Path, mode: str, rounds: int, run_s: float) -> list[Speedup]:
    """The ratios of two brokers that differ in nothing, one for each load."""
    settings = [BrokerSettings(mode, folder / side) for side in ("a", "b")]
    with running(settings) as brokers:
        for broker in brokers:
            rate(broker, *LOADS[-1], run_s)
        pairs: dict[tuple[int, int], list[tuple[float, float]]] = {load: [] for load in LOADS}
        for number in range(rounds):
            for load in LOADS:
                order = (0, 1) if number % 2 else (1, 0)
                found = {side: rate(brokers[side], *load, run_s) for side in order}
                pairs[load].append((found[0], found[1]))
    return [it for it in map(speedup, pairs.values()) if it is not None]


def windows_of_classic(folder: Path, run_s: float) -> Speedup | None:
    """64 requests in flight over 5, of one classic broker and one connection."""
    with running([BrokerSettings("classic", folder / "classic")]) as (broker,):
        rate(broker, 1, CLASSIC_IN_FLIGHT[0], run_s)
        pairs = []
        for number in range(CLASSIC_ROUNDS):
            order = CLASSIC_IN_FLIGHT if number % 2 else CLASSIC_IN_FLIGHT[::-1]
            found = {in_flight: rate(broker, 1, in_flight, run_s) for in_flight in order}
            pairs.append((found[CLASSIC_IN_FLIGHT[0]], found[CLASSIC_IN_FLIGHT[1]]))
    return speedup(pairs)


def told(ratio: Speedup) -> str:
    return f"{ratio.ratio:.3f} ({ratio.low or 0:.3f} to {ratio.high or math.inf:.3f}, {ratio.rounds} rounds)"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--run-s", type=float, default=0.25)
    parser.add_argument("--mode", choices=("classic", "pipelined"), default="pipelined")
    options = parser.parse_args()
    began_s = time.monotonic()
    ratios: list[Speedup] = []
    repeats = 0
    with tempfile.TemporaryDirectory(dir=Path.cwd(), prefix=".bench-") as folder:
        for repeat in range(options.repeats):
            if time.monotonic() - began_s > SECONDS_MAX:
                break
            ratios += same_mode(Path(folder) / f"repeat-{repeat}", options.mode, options.rounds, options.run_s)
            repeats += 1
        held = sum(not ratio.is_above and not ratio.is_below for ratio in ratios)
        width = statistics.median((ratio.high or math.inf) / (ratio.low or 1.0) for ratio in ratios)
        farthest = max(ratios, key=lambda ratio: abs(math.log(ratio.ratio)))
        print(f"{options.mode} with itself, {repeats} experiments of {len(LOADS)} loads and {options.rounds} rounds:")
        print(f"  {held} of {len(ratios)} intervals hold 1 ({held / len(ratios):.0%}; 95% is what they promise)")
        print(f"  an interval reaches from its low end to {width:.2f} times that; farthest ratio {told(farthest)}")
        windows = windows_of_classic(Path(folder), options.run_s)
        if windows is not None:
            print(f"classic, 64 requests in flight over 5 on one connection: {told(windows)}")


if __name__ == "__main__":
    main()
