"""Fuzz the edges at length: `python -m tests.fuzz.campaign --edge registry --seconds 3600`.

An edge is a module of this folder with a function `fuzz`, a test by Hypothesis. The campaign runs it with new examples
until the time is over, and ends with 1 at the first finding, whose smallest example it prints. An ordinary run of the
tests runs the same function with few examples, after a corpus of known faults (tests/fuzz/test_corpus.py).
"""

import argparse
import importlib
import time
from pathlib import Path

from hypothesis import HealthCheck, Phase, settings

EXAMPLES_PER_ROUND = 200
OTHERS = {"campaign", "watchdog"}


def edges():
    """The names of all edges that have a fuzzer."""
    names = {path.stem for path in Path(__file__).parent.glob("*.py")}
    return sorted(name for name in names - OTHERS if not name.startswith(("test_", "conftest", "_")))


def fuzz(edge, seconds):
    """Return how many rounds passed; raises what a finding raises."""
    settings.register_profile(
        "fuzz",
        max_examples=EXAMPLES_PER_ROUND,
        deadline=None,
        database=None,
        derandomize=False,
        phases=(Phase.explicit, Phase.generate, Phase.target, Phase.shrink),
        suppress_health_check=list(HealthCheck),
    )
    settings.load_profile("fuzz")  # counts for tests that are imported after it
    function = importlib.import_module(f"tests.fuzz.{edge}").fuzz
    rounds, end = 0, time.monotonic() + seconds
    while time.monotonic() < end:
        function()  # with a new seed each time
        rounds += 1
    return rounds


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--edge", choices=[*edges(), "all"], default="all")
    parser.add_argument("--seconds", type=float, default=600.0)
    arguments = parser.parse_args()
    for edge in edges() if arguments.edge == "all" else [arguments.edge]:
        rounds = fuzz(edge, arguments.seconds)
        print(f"{edge}: {rounds * EXAMPLES_PER_ROUND} examples, no finding", flush=True)


if __name__ == "__main__":
    main()
