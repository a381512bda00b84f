"""Runs every target that measures or campaigns, and every benchmark, at its smallest size. Run from the repository's root:

    python scripts/check_targets.py [NAME ...]

A target that nobody runs for weeks rots unseen. Each row says how small its target can be; a test compares the rows
with the targets of the Makefile and with `benchmarks/`.
"""

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
SECONDS_MAX = 240
"""Of one target."""
TARGETS: dict[str, dict[str, str]] = {
    "cluster": {"PYTEST": "-k session_of_ours"},
    "compare": {"COMPARE": "--rounds 1 --in-flight 1 --connections 1 --commit-delay 0"},
    "exactly-once": {"SECONDS": "10"},
    "faults": {"CYCLES": "1", "POINTS": "2", "SECONDS": "10", "PYTEST": "-k test_kill.py"},
    "hostile": {"PYTEST": "-k strangers"},
    "kill": {"CYCLES": "1"},
    "kill-points": {"POINTS": "2"},
    "live": {"LIVE_SECONDS": "25"},
    "live-kill": {},
    "mutants": {"ROOM": "quotas", "SAMPLE": "2"},
    "object-faults": {"CYCLES": "1"},
    "plugin-runs": {"RUNS": "1"},
    "power-cuts": {"CYCLES": "1"},
    "properties": {"EXAMPLES": "2"},
    "simulate": {"SEEDS": "5"},
    "soak": {"SECONDS": "20"},
}
"""The variables of each target."""
NOT_RUN = {
    "results": "takes half an hour, and is `compare` with more runs",
    "suites": "needs the suites of other projects",
    "bench": "runs the benchmarks, which are below one by one",
}
BENCHMARKS: dict[str, str] = {}
"""The arguments of each benchmark."""
