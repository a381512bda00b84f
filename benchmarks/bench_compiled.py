"""Compare the compiled package with the pure one: paired, interleaved rounds, with intervals.

    make compiled && python benchmarks/bench_compiled.py [--rounds 7] [--turns 3] [--seconds 1.0]

A round starts a broker of each kind and drives them in turn, TURNS times each; the median of each counts. Brokers are
started for each round, because two processes of the same kind differ by some percent for as long as they live. The load
is durable, with 100-byte records, acks=all, 4 partitions and the native load client.

The figures are ratios of compiled over pure: requests per second, processor time per answered request (all threads of
the broker, from the kernel's schedstat), the 99th percentile, and resident memory after the first 10,000 requests.
Memory grows with the number of records written, so a faster broker has more of it. On a busy machine, only the
processor time is reliable.
"""

import argparse
import contextlib
import os
import re
import signal
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import attrs
from processor_time import processor_ns

from pipeline_broker.measure.experiment.broker_process import READY_S_MAX, python_module, read_line
from pipeline_broker.measure.experiment.intervals import speedup
from pipeline_broker.measure.load.client import run_load
from pipeline_broker.measure.load.options import LoadOptions
from pipeline_broker.measure.load.statistics import RunFigures, figures, percentile_ms

ROOT = Path(__file__).parents[1]
READY = re.compile(r"listening on (?P<host>.+):(?P<port>\d+) mode=")
KINDS = ("pure", "compiled")
FIRST_SECONDS, FIRST_PER_SECOND = 0.5, 20_000
"""Duration and pace of the first requests of each broker."""


@attrs.frozen
class Cell:
    """A load, and the goal of the compiled package."""

    connections: int
    in_flight: int
    wanted: str
    batch_records: int = 1


CELLS = (
    Cell(16, 16, "rate at least 1.5, processor time at most 10 us"),
    Cell(1, 64, "99th percentile at most 1.0"),
    Cell(16, 16, "", batch_records=100),
)
FIGURES = {"requests/s": ",.0f", "us of CPU a request": ".2f", "p99 ms": ".2f", "resident MB": ".1f"}


@attrs.frozen
class Broker:
    host: str
    port: int
    pid: int

    def resident_mb(self) -> float:
        pages = int(Path(f"/proc/{self.pid}/statm").read_text(encoding="ascii").split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def environment(packages: Path) -> Mapping[str, str]:
    return {**os.environ, "PYTHONPATH": str(packages)}


def check_kind(kind: str, packages: Path) -> None:
    """Exit unless the packages of a folder are of this kind. Otherwise both sides could be equal and every ratio 1."""
    command = python_module("pipeline_broker", "--version")
    found = subprocess.run(command, env=environment(packages), check=True, capture_output=True, text=True).stdout
    if kind not in found:
        sys.exit(f"{packages} is not {kind}: {found.strip()}")


@contextlib.contextmanager
def broker(folder: Path, packages: Path) -> Iterator[Broker]:
    folder.mkdir()
    command = python_module("pipeline_broker", "serve", "--port", "0", "--data", str(folder / "data"))
    with (folder / "stderr").open("wb") as stderr:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=stderr, env=environment(packages)
        )
    assert process.stdout is not None
    try:
        ready = READY.match(read_line(process.stdout, READY_S_MAX))
        assert ready, (folder / "stderr").read_text(encoding="utf-8")
        yield Broker(ready["host"], int(ready["port"]), process.pid)
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait()
        process.stdout.close()


def load(broker: Broker, cell: Cell, seconds: float, rate_per_s: float | None = None) -> RunFigures:
    """Run a load at full speed or at a pace, and measure every request."""
    options = LoadOptions(
        broker.host,
        broker.port,
        cell.connections,
        cell.in_flight,
        seconds=seconds,
        warmup_s=0.0,
        rate_per_s=rate_per_s,
        batch_records=cell.batch_records,
    )
    return figures(run_load(options).rows)


def drive(broker: Broker, cell: Cell, seconds: float) -> tuple[float, ...]:
    """Run a load; return all of `FIGURES` except the last one, in their order."""
    before = processor_ns(broker.pid)
    found = load(broker, cell, seconds)
    spent_ns = processor_ns(broker.pid) - before
    if found.errors or found.order_violations:
        sys.exit(f"{found.errors} errors, {found.order_violations} answers out of order")
    p99 = percentile_ms(found.latencies_ns, 0.99)
    assert p99 is not None, "the run is too short for a p99"
    return found.requests_per_s, spent_ns / found.requests / 1e3, p99


def one_round(cell: Cell, packages: Mapping[str, Path], turns: int, seconds: float) -> list[tuple[float, float]]:
    """Drive a new pair of brokers in turn; return the medians of pure and compiled for each of `FIGURES`."""
    found: dict[str, list[tuple[float, ...]]] = {kind: [] for kind in KINDS}
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=ROOT, prefix=".bench-")))
        brokers = {kind: stack.enter_context(broker(folder / kind, packages[kind])) for kind in KINDS}
        resident = []
        for kind in KINDS:
            # The first requests import modules and fill caches. Both brokers get the same number, because memory grows
            # with the records written.
            load(brokers[kind], cell, FIRST_SECONDS, FIRST_PER_SECOND)
            resident.append(brokers[kind].resident_mb())
        for turn in range(turns):
            for kind in KINDS if turn % 2 else reversed(KINDS):
                found[kind].append(drive(brokers[kind], cell, seconds))
    medians = [[statistics.median(values) for values in zip(*found[kind], strict=True)] for kind in KINDS]
    return [*zip(*medians, strict=True), tuple(resident)]


def measure(cell: Cell, packages: Mapping[str, Path], rounds: int, turns: int, seconds: float) -> None:
    found = [one_round(cell, packages, turns, seconds) for _ in range(rounds)]
    records = f" with {cell.batch_records} records each" if cell.batch_records > 1 else ""
    wanted = f"; wanted: {cell.wanted}" if cell.wanted else ""
    print(f"{cell.connections} x {cell.in_flight}{records}, {rounds} rounds{wanted}")
    for (name, form), pairs in zip(FIGURES.items(), zip(*found, strict=True), strict=True):
        ratio = speedup(pairs)
        assert ratio is not None
        pure, compiled = (statistics.median(values) for values in zip(*pairs, strict=True))
        interval = "" if ratio.low is None else f"({ratio.low:.3f} to {ratio.high:.3f})"
        print(
            f"  {name:<22}{pure:>10{form}} pure {compiled:>10{form}} compiled {ratio.ratio:>8.3f} {interval}",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--compiled", type=Path, default=ROOT / "build" / "compiled", help="output of `make compiled`")
    options = parser.parse_args()
    if not options.compiled.is_dir():
        sys.exit(f"{options.compiled} does not exist: run make compiled")
    packages = {"pure": ROOT, "compiled": options.compiled.resolve()}
    for kind, folder in packages.items():
        check_kind(kind, folder)
    for cell in CELLS:
        measure(cell, packages, options.rounds, options.turns, options.seconds)


if __name__ == "__main__":
    main()
