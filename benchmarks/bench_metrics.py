"""Measure the cost of metrics: requests/s with `--metrics` over requests/s without, in paired, interleaved rounds.

    python benchmarks/bench_metrics.py [--rounds 15] [--seconds 0.5] [--rounds-max 80]
                                       [--request-log | --timelines | --faults]

A round starts two brokers, one with metrics and one without, and drives them in turn, TURNS times each; the median of
each counts. Brokers are started for each round: two processes of the same kind differ by some percent for as long as
they live, which more turns would not show. The bounds are a cost of 8 % at 16 connections with 16 requests in flight,
and of 2 % at 1 x 1, both durable.
Rounds are added, up to `--rounds-max`, until the interval is as narrow as the bound. Only its width decides, because a
rule based on the ratio would invalidate the 95 %. Then a line says whether the bound holds, is broken, or cannot be
distinguished from the cost. If the interval stayed too wide, as it may on a busy machine, the line says only that.
`--request-log` measures the request log instead, `--timelines` published timelines. `--faults` measures a fault rule
for another API, which is checked for each request.

The line ends with the same ratio for processor time per request, of all threads of a broker. On a busy machine, only
this figure is reliable.
"""

import argparse
import contextlib
import os
import statistics
import tempfile
from collections.abc import Iterator
from pathlib import Path

import attrs

from pipeline_broker.measure.experiment.broker_process import BrokerSettings, running
from pipeline_broker.measure.experiment.intervals import Speedup, speedup
from pipeline_broker.measure.load.client import run_load
from pipeline_broker.measure.load.options import LoadOptions
from pipeline_broker.measure.load.statistics import figures

ROUNDS_MIN = 7
WARMUP_SECONDS = 0.2


@attrs.frozen
class Cell:
    """A load and its maximum cost, as a share of the requests per second."""

    connections: int
    in_flight: int
    cost_max: float

    def is_too_wide(self, ratio: Speedup) -> bool:
        """Return whether the interval of measured over unmeasured is wider than the bound."""
        assert ratio.low is not None
        assert ratio.high is not None
        return ratio.high - ratio.low > self.cost_max

    def verdict(self, ratio: Speedup) -> str:
        assert ratio.low is not None
        assert ratio.high is not None
        at_least = 1 - self.cost_max
        if self.is_too_wide(ratio):
            return "the interval is TOO WIDE to tell: more rounds, or a quieter machine"
        if ratio.low >= at_least:
            return "holds"
        return "BROKEN" if ratio.high < at_least else "the bound is within the interval"


TURNS = 4
RULE = '[[rule]]\napi = "DescribeCluster"\ndrop = true\n'
CELLS = (Cell(16, 16, 0.08), Cell(1, 1, 0.02))


@attrs.frozen
class Broker:
    host: str
    port: int
    pid: int

    def cpu_seconds(self) -> float:
        # Fields 14 and 15 of /proc/PID/stat (proc(5)), after the name in parentheses, which may contain blanks.
        fields = Path(f"/proc/{self.pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextlib.contextmanager
def broker(data: Path, mode: str, flush: str, *options: str) -> Iterator[Broker]:
    with running([BrokerSettings(mode, data, flush=flush, options=options)]) as (started,):
        yield Broker(started.host, started.port, started.pid)


def drive(broker: Broker, cell: Cell, seconds: float) -> tuple[float, float]:
    """Return requests per second of one round, and requests per second of processor time including the warm-up."""
    load = LoadOptions(
        broker.host, broker.port, cell.connections, cell.in_flight, seconds=seconds, warmup_s=WARMUP_SECONDS
    )
    before = broker.cpu_seconds()
    found = figures(run_load(load).rows)
    spent = broker.cpu_seconds() - before
    requests = found.requests_per_s * (seconds + WARMUP_SECONDS)
    return found.requests_per_s, requests / spent


@attrs.frozen
class Comparison:
    folder: Path
    mode: str
    flush: str
    observed: tuple[str, ...]

    @contextlib.contextmanager
    def pair(self) -> Iterator[tuple[Broker, Broker]]:
        """Run a new broker of each kind: unmeasured, measured."""
        with contextlib.ExitStack() as stack:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=self.folder)))
            off = stack.enter_context(broker(folder / "off", self.mode, self.flush))
            yield off, stack.enter_context(broker(folder / "on", self.mode, self.flush, *self.observed))


def one_round(cell: Cell, comparison: Comparison, number: int, seconds: float) -> dict[str, tuple[float, float]]:
    """Drive a new pair in turn; return the medians of both."""
    found: dict[int, list[tuple[float, float]]] = {}
    with comparison.pair() as (off, on):
        for turn in range(number, number + TURNS):
            for one in (off, on) if turn % 2 else (on, off):
                found.setdefault(one.pid, []).append(drive(one, cell, seconds))
        without, with_ = (
            [statistics.median(values) for values in zip(*found[one.pid], strict=True)] for one in (off, on)
        )
    return {"rate": (without[0], with_[0]), "cpu": (without[1], with_[1])}


def measure(cell: Cell, comparison: Comparison, *, rounds: int, rounds_max: int, seconds: float) -> None:
    """Run rounds until the interval is narrow enough, and print a line."""
    pairs: list[tuple[float, float]] = []
    cpu_pairs: list[tuple[float, float]] = []
    while True:
        found = one_round(cell, comparison, len(pairs), seconds)
        pairs.append(found["rate"])
        cpu_pairs.append(found["cpu"])
        if len(pairs) < rounds:
            continue
        ratio, cpu = speedup(pairs), speedup(cpu_pairs)
        assert ratio is not None
        assert cpu is not None
        if len(pairs) >= rounds_max or not cell.is_too_wide(ratio):
            break
    interval = f"({ratio.low:.3f} to {ratio.high:.3f}, {len(pairs)} rounds)"
    without, with_ = (statistics.median(values) for values in zip(*pairs, strict=True))
    print(
        f"{cell.connections:>3} x {cell.in_flight:<3} {with_:>9,.0f}/s over {without:>9,.0f}/s = {ratio.ratio:.3f} "
        f"{interval:<32} cost <= {cell.cost_max:.0%}: {cell.verdict(ratio)}; "
        f"by processor time {cpu.ratio:.3f} ({cpu.low:.3f} to {cpu.high:.3f})",
        flush=True,
    )


def arguments(description: str | None) -> argparse.ArgumentParser:
    """Return a parser with the common options of all comparisons of two kinds of brokers."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--rounds-max", type=int, default=80)
    parser.add_argument("--seconds", type=float, default=0.5)
    parser.add_argument("--mode", choices=("classic", "pipelined"), default="pipelined")
    parser.add_argument("--flush", choices=("always", "os"), default="always")
    return parser


def main() -> None:
    parser = arguments(__doc__)
    for name in ("--request-log", "--timelines", "--faults"):
        parser.add_argument(name, action="store_true")
    options = parser.parse_args()
    rounds = max(options.rounds, ROUNDS_MIN)
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=Path.cwd(), prefix=".bench-")))
        observed = ("--request-log", str(folder / "requests.jsonl")) if options.request_log else ("--metrics", "0")
        if options.timelines:
            observed = ("--set", "pipeline.timelines=true")
        if options.faults:
            observed = ("--faults", str(folder / "faults.toml"))
            (folder / "faults.toml").write_text(RULE, encoding="utf-8")
        comparison = Comparison(folder, options.mode, options.flush, observed)
        for cell in CELLS:
            has_bound = not (options.request_log or options.timelines or options.faults)
            rounds_max = max(rounds, options.rounds_max) if has_bound else rounds
            measure(cell, comparison, rounds=rounds, rounds_max=rounds_max, seconds=options.seconds)


if __name__ == "__main__":
    main()
