"""Fuzz the edges at length: `python -m tests.fuzz.campaign --edge registry --seconds 3600`.

An edge is a module of this folder: `run_one` tries one input, `fuzz` is a test by Hypothesis that draws inputs for it,
and `CORPUS` has known faults by their names. The campaign runs `fuzz` until the time is over, and ends with 1 at the
first finding, whose smallest input it prints. An ordinary run of the tests tries the corpus and a few new inputs.
"""

import argparse
import importlib
import time
import tracemalloc
from pathlib import Path

OTHERS = {"campaign", "watchdog"}


def edges():
    """The names of all edges that have a fuzzer."""
    names = {path.stem for path in Path(__file__).parent.glob("*.py")}
    return sorted(name for name in names - OTHERS if not name.startswith(("test_", "conftest", "_")))


def fuzz(edge, seconds):
    """Return how many inputs passed; raises what a finding raises."""
    function = importlib.import_module(f"tests.fuzz.{edge}").fuzz
    rounds, end = 0, time.monotonic() + seconds
    while time.monotonic() < end:
        function()  # with a new seed each time
        rounds += 1
    return rounds * function._hypothesis_internal_use_settings.max_examples


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--edge", choices=[*edges(), "all"], default="all")
    parser.add_argument("--seconds", type=float, default=600.0)
    arguments = parser.parse_args()
    tracemalloc.start()  # once: to start it at every step takes 10 KB each time, and gigabytes in an hour
    for edge in edges() if arguments.edge == "all" else [arguments.edge]:
        print(f"{edge}: {fuzz(edge, arguments.seconds)} inputs, no finding", flush=True)


if __name__ == "__main__":
    main()
