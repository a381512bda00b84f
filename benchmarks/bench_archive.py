"""What the archiver costs those who produce: requests/s with it over requests/s without, in paired, interleaved rounds.

    python benchmarks/bench_archive.py [--rounds 7] [--seconds 8] [--mode pipelined]

16 connections with 16 requests of one 100-byte record in flight, durable. A round starts two brokers, one of which
archives nothing, and drives them in turn; it is long enough for a journal segment (64 MB) or more to be archived, and
the line says how many bytes were. The bound is a cost of 20 %.
"""

import argparse
import contextlib
import signal
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import trio

from pipeline_broker import server
from pipeline_broker.cli import main as command_line
from pipeline_broker.experiment.broker_process import python_environment
from pipeline_broker.experiment.intervals import speedup
from pipeline_broker.load.client import LoadOptions, run_load
from pipeline_broker.load.statistics import figures
from pipeline_broker.upkeep import Upkeep

CONNECTIONS = DEPTH = 16
COST_MAX = 0.2
HOARDING = "hoarding"


class NoUpkeep(Upkeep):
    """Archives nothing, so that everything stays in the journal."""

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """See Upkeep."""
        task_status.started()


@contextlib.contextmanager
def broker(folder: Path, mode: str, kind: str) -> Iterator[int]:
    """A broker in a process of its own: its port."""
    command = [sys.executable, __file__, kind, "serve", "--mode", mode, "--port", "0", "--data", str(folder)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=python_environment()) as process:
        assert process.stdout is not None
        try:
            yield int(process.stdout.readline().split()[2].rpartition(":")[2])
        finally:
            process.send_signal(signal.SIGTERM)


def rate(port: int, seconds: float) -> float:
    load = LoadOptions("127.0.0.1", port, CONNECTIONS, DEPTH, seconds=seconds, warmup_s=1.0)
    return figures(run_load(load).rows).requests_per_s


def archived_bytes(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.glob("archive/*/*.log"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=8.0)
    parser.add_argument("--mode", choices=("classic", "pipelined"), default="pipelined")
    options = parser.parse_args()
    pairs, archived = [], []
    for number in range(options.rounds):
        found = {}
        with tempfile.TemporaryDirectory(dir=Path.cwd(), prefix=".bench-") as folder:
            kinds = (HOARDING, "archiving")
            for kind in kinds if number % 2 else reversed(kinds):
                data = Path(folder) / kind
                with broker(data, options.mode, kind) as port:
                    found[kind] = rate(port, options.seconds)
                if kind != HOARDING:
                    archived.append(archived_bytes(data))
        pairs.append((found[HOARDING], found["archiving"]))
    ratio = speedup(pairs)
    assert ratio is not None
    assert ratio.low is not None
    without, with_ = (statistics.median(values) for values in zip(*pairs, strict=True))
    verdict = "holds" if ratio.ratio >= 1 - COST_MAX else "BROKEN"
    print(
        f"{CONNECTIONS} x {DEPTH}: {with_:,.0f}/s with the archiver over {without:,.0f}/s without = {ratio.ratio:.3f} "
        f"({ratio.low:.3f} to {ratio.high:.3f}, {len(pairs)} rounds); cost <= {COST_MAX:.0%}: {verdict}; "
        f"{statistics.median(archived) / 1e6:,.0f} MB archived a round"
    )


if __name__ == "__main__":
    if sys.argv[1:2] == [HOARDING]:
        server.Upkeep = NoUpkeep  # type: ignore[misc]  # in this process alone
        command_line(sys.argv[2:])
    elif sys.argv[1:2] == ["archiving"]:
        command_line(sys.argv[2:])
    else:
        main()
