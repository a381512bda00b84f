"""Measure the cost of the largest requests: `python benchmarks/bench_hostile.py [--only TEXT]`.

For each case of tests/hostile, prints one line with:

* the longest wait of a client that produces every 20 ms, without the time for which the machine gave the broker no
  processor, and by the clock,
* the processor time of the broker,
* the growth of its memory beyond the request,
* the bytes of requests and answers.

AT_LENGTH=1 in the environment runs all versions of all APIs. The exit code is 1 if a bound of tests/hostile/harness.py
is exceeded.
"""

import argparse
import sys
import tempfile
from functools import partial
from pathlib import Path

import attrs

sys.path.insert(0, str(Path(__file__).parent.parent))  # the cases are part of the tests

from tests.crashes.lengths import AT_LENGTH
from tests.hostile import prepared
from tests.hostile.campaign import faults_of, plans
from tests.hostile.harness import HEAD, in_memory


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mode", choices=("classic", "pipelined"), action="append", help="default: both")
    parser.add_argument("--only", default="", help="only cases whose API, version and name contain this")
    options = parser.parse_args()
    faults: list[str] = []
    print(HEAD, flush=True)
    with in_memory(Path(tempfile.gettempdir())) as folder:
        filled = folder, prepared.prepare(folder, prepared.LARGE if AT_LENGTH else prepared.ORDINARY)
        for mode in options.mode or ("classic", "pipelined"):
            for plan in plans(mode):
                cases = [case for case in plan.cases if options.only in case.name]
                if cases:
                    faults += faults_of(attrs.evolve(plan, cases=cases), mode, filled, partial(print, flush=True))
    print(*faults, sep="\n")
    sys.exit(bool(faults))


if __name__ == "__main__":
    main()
