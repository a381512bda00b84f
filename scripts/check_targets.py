"""Run all targets that measure or test for long, and all benchmarks, at their smallest size.

Run from the repository's root: `python scripts/check_targets.py [NAME ...]`. Without this, a rarely run target breaks
unnoticed. A test compares the tables below with the Makefile and with `benchmarks/`.
"""

import argparse
import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).parents[1]
SECONDS_MAX = 240
"""Time limit of one target."""
TARGETS: dict[str, dict[str, str]] = {
    "cluster": {"PYTEST": "-k session_of_ours"},
    "compare": {"COMPARE": "--rounds 1 --in-flight 1 --connections 1 --commit-delay 0"},
    "connector": {"PYTEST": "-k documented"},
    "exactly-once": {"SECONDS": "5"},
    "faults": {"CYCLES": "1", "POINTS": "2", "SECONDS": "10", "PYTEST": "-k test_kill.py"},
    "hostile": {"PYTEST": "-k no_turns"},
    "kill": {"CYCLES": "1"},
    "kill-points": {"POINTS": "2"},
    "live": {"LIVE_SECONDS": "25"},
    "live-kill": {},
    "mutants": {"ROOM": "quotas", "SAMPLE": "2"},
    "object-faults": {"CYCLES": "1"},
    "plugin-runs": {"RUNS": "1"},
    "power-cuts": {"CYCLES": "1"},
    "properties": {"EXAMPLES": "10", "PYTEST": "-k test_8_reading"},
    "simulate": {"SEEDS": "5"},
    "soak": {"SECONDS": "20"},
    "streams": {"SECONDS": "5"},
}
"""The variables of each target."""
NOT_RUN = {
    "bench": "runs the benchmarks, which are listed below",
    "bench_compiled.py": "needs `make compiled`",
    "results": "takes half an hour, and is `compare` with more runs",
    "suites": "needs the test suites of other projects",
}
"""The targets and benchmarks that are not run, with the reason."""
BENCHMARKS = {
    "bench_analysis.py": "3000",
    "bench_archive.py": "--rounds 2 --seconds 3",
    "bench_archive_read.py": "--repeats 1 --size-mib 4",
    "bench_bulk.py": "--rounds 2 --seconds 0.3 --only fetch",
    "bench_cluster.py": "--rounds 3 --seconds 0.3 --kills 1",
    "bench_codec.py": "1",
    "bench_commit_place.py": "--rounds 2 --seconds 0.2 --slower-us 0",
    "bench_compaction.py": "--repeats 1 --only small",
    "bench_connections.py": "--idle 100 --active-seconds 0.5 --storm-rate 50 --storm-seconds 1 --readers 5",
    "bench_dashboard.py": "--rounds 2 --rounds-max 2 --seconds 0.5",
    "bench_embedded.py": "--rounds 2 --processes 1",
    "bench_groups.py": "--members 10 --rounds 1",
    "bench_hostile.py": "--mode pipelined --only ListGroups",
    "bench_isolation.py": "--rounds 2 --seconds 0.1",
    "bench_journal.py": "--repeats 1",
    "bench_load.py": "--rounds 2 --seconds 0.3",
    "bench_memory.py": "--seconds 3 --every 1",
    "bench_metrics.py": "--rounds 2 --rounds-max 2 --seconds 0.5",
    "bench_modes.py": "--rounds 2 --seconds 0.5",
    "bench_noise.py": "--repeats 1 --rounds 2 --classic-rounds 2",
    "bench_object_wal.py": "--rounds 2 --seconds 1 --only latency",
    "bench_recovery.py": "--repeats 1 --gigabytes 20 --huge-gigabytes 20 --only large",
    "bench_spark.py": "--rounds 1 --rows 1000",
    "bench_start.py": "--rounds 2",
    "bench_storage.py": "--only fetch",
    "bench_trace.py": "",
    "bench_transactions.py": "--seconds 0.3 --producers 1 --rounds 2",
    "bench_turns.py": "--only DeleteGroups --members 20",
    "bench_write_once.py": "--rounds 2 --seconds 0.2 --batch-kib 64 --partitions 1",
}
"""The arguments of each benchmark."""
JUDGING = frozenset({"bench_isolation.py"})
"""Benchmarks that exit with 1 if a figure misses its goal, which means nothing at the smallest size."""
AT_ONCE = 2


def commands() -> dict[str, list[str]]:
    """Return the command of each target and benchmark."""
    targets = {
        name: ["make", name, *(f"{variable}={value}" for variable, value in variables.items())]
        for name, variables in TARGETS.items()
    }
    benchmarks = {name: [sys.executable, f"benchmarks/{name}", *given.split()] for name, given in BENCHMARKS.items()}
    return targets | benchmarks


def run(name: str, command: list[str]) -> bool:
    """Run a command and print its result; return whether it succeeded."""
    started = time.monotonic()
    with subprocess.Popen(
        command,
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,
    ) as process:
        try:
            output, _ = process.communicate(timeout=SECONDS_MAX)
            failed = process.returncode != 0 and not (name in JUDGING and "Traceback" not in output)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)  # includes its children
            failed, output = True, f"it took longer than {SECONDS_MAX} s"
    lines = [f"{name:24} {'FAILED' if failed else 'ok':6} {time.monotonic() - started:5.0f} s"]
    print("\n".join([*lines, *(output.splitlines()[-15:] if failed else [])]), flush=True)
    return not failed


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", choices=[*commands(), []], help="targets and benchmarks; default: all")
    wanted = parser.parse_args().names or list(commands())
    with ThreadPoolExecutor(AT_ONCE) as executor:
        results = list(executor.map(lambda name: run(name, commands()[name]), wanted))
    sys.exit(not all(results))


if __name__ == "__main__":
    main()
