"""What fault rules cost: requests/s and processor time, in paired, interleaved rounds.

    python benchmarks/bench_faults.py [--rounds 7] [--seconds 0.5] [--before PATH]

A round starts new brokers and drives them in turn, TURNS times each; what counts is the median of each. Compared with a
broker without rules are one with a rule about another API (each request is held against it), and, with `--before`, one
of the source tree at PATH, such as an unpacked commit from before there were rules. Behind each ratio of requests per
second stands that of requests per second of processor time, which is what is left to look at on a busy machine.
"""

import argparse
import contextlib
import os
import signal
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from bench_metrics import READY, Broker, Cell, drive

from pipeline_broker.measure.experiment.broker_process import READY_S_MAX, read_line
from pipeline_broker.measure.experiment.intervals import speedup

ROOT = Path(__file__).parents[1]
TURNS = 4
CELLS = (("os", Cell(16, 16, 0.02)), ("always", Cell(16, 16, 0.02)), ("always", Cell(1, 1, 0.02)))
RULE = '[[rule]]\napi = "DescribeCluster"\ndrop = true\n'
PLAIN = "without rules"


@contextlib.contextmanager
def broker(folder: Path, tree: Path, flush: str, *options: str) -> Iterator[Broker]:
    """A broker of a source tree, in a process of its own."""
    folder.mkdir()
    command = [sys.executable, "-P", "-m", "pipeline_broker", "serve", "--port", "0", "--flush", flush]
    with (folder / "stderr").open("wb") as stderr:
        process = subprocess.Popen(
            [*command, "--data", str(folder / "data"), *options],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=stderr,
            env={**os.environ, "PYTHONPATH": str(tree)},
        )
    try:
        assert process.stdout is not None
        ready = READY.match(read_line(process.stdout, READY_S_MAX))
        assert ready, (folder / "stderr").read_text(encoding="utf-8")
        yield Broker(ready["host"], int(ready["port"]), process.pid)
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait()
        if process.stdout is not None:
            process.stdout.close()


def play_round(
    folder: Path, sides: dict[str, tuple[Path, tuple[str, ...]]], flush: str, cell: Cell, seconds: float
) -> dict[str, tuple[float, float]]:
    """The median rates of each side: requests per second, and per second of processor time."""
    with contextlib.ExitStack() as stack:
        brokers = {
            name: stack.enter_context(broker(folder / name.replace(" ", "-"), tree, flush, *options))
            for name, (tree, options) in sides.items()
        }
        found: dict[str, list[tuple[float, float]]] = {name: [] for name in sides}
        for turn in range(TURNS):
            for name in sorted(sides, reverse=turn % 2 == 1):
                found[name].append(drive(brokers[name], cell, seconds))
    return {
        name: (statistics.median(rate for rate, _ in rates), statistics.median(rate for _, rate in rates))
        for name, rates in found.items()
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=0.5)
    parser.add_argument("--before", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=Path.cwd(), prefix=".bench-") as name:
        folder = Path(name)
        (folder / "faults.toml").write_text(RULE, encoding="utf-8")
        sides = {PLAIN: (ROOT, ()), "with a rule": (ROOT, ("--faults", str(folder / "faults.toml")))}
        if options.before is not None:
            sides["before"] = (options.before.resolve(), ())
        for place, (flush, cell) in enumerate(CELLS):
            rounds = []
            for number in range(options.rounds):
                directory = folder / f"{place}-{number}"
                directory.mkdir()
                rounds.append(play_round(directory, sides, flush, cell, options.seconds))
            for other in sorted(sides.keys() - {PLAIN}):
                ratios = []
                for kind in (0, 1):
                    over = (PLAIN, other) if other == "with a rule" else (other, PLAIN)
                    ratio = speedup([(found[over[0]][kind], found[over[1]][kind]) for found in rounds])
                    assert ratio is not None
                    ratios.append(f"{ratio.ratio:.3f} ({ratio.low:.3f} to {ratio.high:.3f})")
                print(
                    f"flush={flush} {cell.connections} x {cell.in_flight}: {over[1]} over {over[0]} "
                    f"{ratios[0]}, by processor time {ratios[1]}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
