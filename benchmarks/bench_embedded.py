"""Measure an embedded broker: startup time, reset time, and memory.

    python benchmarks/bench_embedded.py [--rounds 30]

Bounds: a start of a broker or of a cluster of three within 30 ms after the import, a reset within 5 ms, and 15 MB more
than the import needs. Of the cluster the best start is shown, of all else the median. Each process
measures one mode. The import is shown separately, because a test run pays for it once.
"""

import argparse
import json
import statistics
import subprocess
import sys
from pathlib import Path

BOUNDS = {"start_ms": 30.0, "cluster_start_ms": 30.0, "reset_ms": 5.0, "memory_mb": 15.0}
ROWS = (
    ("import_ms", "import", "ms"),
    ("first_start_ms", "first start", "ms"),
    ("start_ms", "start", "ms"),
    ("cluster_start_ms", "start of a cluster", "ms"),
    ("produce_ms", "produce", "ms"),
    ("records_ms", "records (of 100)", "ms"),
    ("snapshot_ms", "snapshot", "ms"),
    ("restore_ms", "restore", "ms"),
    ("reset_ms", "reset", "ms"),
    ("island_ms", "island", "ms"),
    ("put_back_ms", "island, put back", "ms"),
    ("close_ms", "close", "ms"),
    ("memory_mb", "memory on top", "MB"),
)
PRODUCED = 100

MEASURED = """
import json, statistics, sys, time
from pathlib import Path

began = time.perf_counter()
from pipeline_broker import EmbeddedBroker, EmbeddedCluster

mode, rounds, produced = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
imported_seconds = time.perf_counter() - began


def memory_mb():
    status = Path("/proc/self/status").read_text()
    return int(next(line.split()[1] for line in status.splitlines() if line.startswith("VmRSS"))) / 1024


def timed(times, work):
    began = time.perf_counter()
    found = work()
    times.append((time.perf_counter() - began) * 1000)
    return found


before = memory_mb()
starts, closes, resets, produces, records, snapshots, restores, islands, put_back = ([] for _ in range(9))
cluster_starts = []
first = []
broker = timed(first, lambda: EmbeddedBroker(mode=mode).start())
broker.create_topic("t")
memory = memory_mb() - before
for _ in range(produced):
    timed(produces, lambda: broker.produce("t", bytes(100)))
for _ in range(rounds):
    timed(records, lambda: broker.records("t"))
    snapshot = timed(snapshots, broker.snapshot)
    timed(restores, lambda: broker.restore(snapshot))
def island(seconds):
    with broker.island():
        if seconds:
            broker.advance(seconds)


for _ in range(rounds):
    timed(islands, lambda: island(0))
    timed(put_back, lambda: island(1))
for _ in range(rounds):
    broker.produce("t", "v")
    timed(resets, broker.reset)
broker.close()
for _ in range(rounds):
    broker = timed(starts, lambda: EmbeddedBroker(mode=mode).start())
    broker.produce("t", "v")
    timed(closes, broker.close)
for _ in range(rounds):
    timed(cluster_starts, lambda: EmbeddedCluster(mode=mode).start()).close()
median = statistics.median
print(json.dumps({
    "import_ms": imported_seconds * 1000,
    "first_start_ms": first[0],
    "start_ms": median(starts),
    "cluster_start_ms": min(cluster_starts),
    "produce_ms": median(produces),
    "records_ms": median(records),
    "snapshot_ms": median(snapshots),
    "restore_ms": median(restores),
    "reset_ms": median(resets),
    "island_ms": median(islands),
    "put_back_ms": median(put_back),
    "close_ms": median(closes),
    "memory_mb": memory,
}))
"""


def measure(mode: str, rounds: int) -> dict[str, float]:
    command = [sys.executable, "-c", MEASURED, mode, str(rounds), str(PRODUCED)]
    root = Path(__file__).parents[1]
    result = subprocess.run(command, cwd=root, check=True, capture_output=True, text=True)
    return json.loads(result.stdout)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=30, help="repetitions of each measurement")
    parser.add_argument("--processes", type=int, default=3, help="processes per mode; their median is shown")
    options = parser.parse_args()
    measured = {
        mode: [measure(mode, options.rounds) for _ in range(options.processes)] for mode in ("classic", "pipelined")
    }
    print(f"{'':<20}{'classic':>10}{'pipelined':>11}")
    for name, title, unit in ROWS:
        values = [statistics.median(each[name] for each in found) for found in measured.values()]
        bound = f", bound {BOUNDS[name]:g} {unit}" if name in BOUNDS else ""
        print(f"{title:<20}{values[0]:>10.2f}{values[1]:>11.2f} {unit}{bound}")


if __name__ == "__main__":
    main()
