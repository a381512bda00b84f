"""Compare both modes: paired, interleaved rounds in one run, with intervals.

    python benchmarks/bench_modes.py [--rounds 7] [--seconds 1.0]

Each line is a ratio of two brokers that were driven in turn, round by round; requests/s are medians. The load has
100-byte records, acks=all and 4 partitions, from the native load client on the same machine. Only a ratio with a narrow
interval is meaningful, never a single figure. `pipeline-broker compare --with-kafka` adds Apache Kafka to both.
"""

import argparse
import contextlib
import statistics
import tempfile
from pathlib import Path

import attrs

from pipeline_broker.measure.experiment.broker_process import BrokerProcess, BrokerSettings, running
from pipeline_broker.measure.experiment.intervals import speedup
from pipeline_broker.measure.load.client import run_load
from pipeline_broker.measure.load.options import LoadOptions
from pipeline_broker.measure.load.statistics import figures


@attrs.frozen
class Side:
    name: str
    connections: int
    in_flight: int


@attrs.frozen
class Comparison:
    """The ratio of B over A, and its goal."""

    a: Side
    b: Side
    target: str


GRID = (
    Comparison(Side("classic", 1, 1), Side("pipelined", 1, 1), ">= 0.95"),
    Comparison(Side("classic", 1, 5), Side("pipelined", 1, 5), ">= 3.5"),
    Comparison(Side("classic", 1, 64), Side("pipelined", 1, 64), ">= 15"),
    Comparison(Side("classic", 16, 16), Side("pipelined", 16, 16), ">= 6; pipelined >= 53,000/s"),
    Comparison(Side("classic", 1, 1), Side("classic", 1, 5), "0.9 to 1.3"),
    Comparison(Side("classic", 1, 64), Side("classic", 1, 5), "0.9 to 1.1"),
    Comparison(Side("pipelined", 16, 16), Side("pipelined flush=os", 16, 16), "flush=os >= 60,000/s"),
    Comparison(Side("classic delay=10ms", 1, 64), Side("pipelined delay=10ms", 1, 64), ">= 57"),
    Comparison(Side("pipelined delay=10ms commits=1", 1, 64), Side("pipelined delay=10ms", 1, 64), ">= 1.5"),
    Comparison(Side("pipelined delay=10ms commits=1", 16, 16), Side("pipelined delay=10ms", 16, 16), ">= 1.5"),
)


def settings(folder: Path) -> dict[str, BrokerSettings]:
    """Return the settings of our brokers, by their names in `GRID`."""
    return {
        "classic": BrokerSettings("classic", folder / "classic"),
        "pipelined": BrokerSettings("pipelined", folder / "pipelined"),
        "pipelined flush=os": BrokerSettings("pipelined", folder / "os", flush="os"),
        "classic delay=10ms": BrokerSettings("classic", folder / "classic-delay", commit_delay_ms=10),
        "pipelined delay=10ms": BrokerSettings("pipelined", folder / "pipelined-delay", commit_delay_ms=10),
        "pipelined delay=10ms commits=1": BrokerSettings(
            "pipelined", folder / "pipelined-delay-1", commit_delay_ms=10, commits_in_flight=1
        ),
    }


def rate(broker: BrokerProcess, side: Side, seconds: float) -> float:
    load = LoadOptions(broker.host, broker.port, side.connections, side.in_flight, seconds=seconds, warmup_s=0.2)
    return figures(run_load(load).rows).requests_per_s


def compare(comparison: Comparison, brokers: dict[str, BrokerProcess], rounds: int, seconds: float) -> None:
    pairs = []
    for number in range(rounds):
        order = (comparison.a, comparison.b) if number % 2 else (comparison.b, comparison.a)
        rates = {side: rate(brokers[side.name], side, seconds) for side in order}
        pairs.append((rates[comparison.a], rates[comparison.b]))
    ratio = speedup(pairs)
    assert ratio is not None
    a, b = (statistics.median(values) for values in zip(*pairs, strict=True))
    names = [f"{side.name} {side.connections}x{side.in_flight}" for side in (comparison.b, comparison.a)]
    interval = f"{ratio.ratio:6.2f} ({ratio.low:.2f} to {ratio.high:.2f})"
    print(
        f"{names[0]:>38} {b:>9,.0f}/s over {names[1]:>24} {a:>9,.0f}/s = {interval:<24} {comparison.target}", flush=True
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=1.0)
    options = parser.parse_args()
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=Path.cwd(), prefix=".bench-")))
        ours = settings(folder)
        started = stack.enter_context(running(list(ours.values())))
        brokers = dict(zip(ours, started, strict=True))
        for comparison in GRID:
            compare(comparison, brokers, options.rounds, options.seconds)


if __name__ == "__main__":
    main()
