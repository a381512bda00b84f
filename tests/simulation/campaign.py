"""Many seeds, one after the other or on all cores: for tests, and as `make simulate` for whoever wants more.

Rules of this file: it counts and prints; what is right is decided in `simulation`. A failure names its seed and the one
command that replays it.
"""

import argparse
import os
import sys
import time
import traceback
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from functools import partial

import attrs

from stages.testing.schedules import DISTINCT_SHARE_MIN
from tests.simulation import cluster_faults, store_faults
from tests.simulation.cluster_scenario import draw_cluster
from tests.simulation.scenario import SCHEDULES_PER_SCRIPT, draw
from tests.simulation.simulation import simulate
from tests.simulation.store_scenario import draw_on_store

OPTIONS = {draw: "", draw_on_store: " STORE=1", draw_cluster: " CLUSTER=1"}
WANTED = {draw_on_store: store_faults.WANTED, draw_cluster: cluster_faults.WANTED}
SEEDS_AT_ONCE = 25 * SCHEDULES_PER_SCRIPT
FAILURES_SHOWN_MAX = 10
COMPLAINTS_SHOWN_MAX = 8


@attrs.define
class Tally:
    """What became of some seeds.

    Attributes:
        kinds: how many scenarios there were of each kind.
        fingerprints: of the schedules.
        requests: that clients sent.
        requests_in_turns: how many took several turns.
        with_threads: scenarios whose commits run as several threads would run them.
        seen: in how many scenarios what is of interest happened, on a store.
        failures: seed -> what was wrong.
        options: how `make simulate` is asked for such scenarios.
    """

    kinds: Counter = attrs.field(factory=Counter)
    fingerprints: set = attrs.field(factory=set)
    requests: int = 0
    requests_in_turns: int = 0
    with_threads: int = 0
    seen: Counter = attrs.field(factory=Counter)
    failures: dict = attrs.field(factory=dict)
    options: str = ""

    @property
    def scenarios(self):
        return self.kinds.total()

    def add(self, other):
        self.kinds += other.kinds
        self.fingerprints |= other.fingerprints
        self.requests += other.requests
        self.requests_in_turns += other.requests_in_turns
        self.with_threads += other.with_threads
        self.seen += other.seen
        self.failures |= other.failures

    def check(self, wanted=()):
        """Raise AssertionError for a failure, for too few distinct schedules, or where nothing wanted was seen."""
        assert not self.failures, "\n\n".join(
            describe(seed, complaints, self.options)
            for seed, complaints in list(self.failures.items())[:FAILURES_SHOWN_MAX]
        )
        assert len(self.fingerprints) >= DISTINCT_SHARE_MIN * self.scenarios, f"too few schedules: {self}"
        blind = [what for what in wanted if not self.seen[what]]
        assert not blind, f"no scenario has {', '.join(blind)}: {self}"

    def __str__(self):
        kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(self.kinds.items()))
        seen = "".join(f"; {what}: {count}" for what, count in sorted(self.seen.items()))
        return (
            f"{self.scenarios} scenarios ({kinds}; {self.with_threads} with threads of commits), "
            f"{len(self.fingerprints)} distinct schedules, "
            f"{self.requests} requests ({self.requests_in_turns} in several turns), {len(self.failures)} failures{seen}"
        )


def describe(seed, complaints, options=""):
    """A failure, with how to see it again."""
    lines = [f"seed {seed} fails; replay it by: make simulate SEED={seed}{options}", *complaints[:COMPLAINTS_SHOWN_MAX]]
    return "\n    ".join(lines)


def run_seeds(seeds, parts=None, draw=draw):
    """The tally of some seeds."""
    tally = Tally(options=OPTIONS[draw])
    for seed in seeds:
        try:
            outcome = simulate(seed, parts, draw)
        except Exception:  # noqa: BLE001 - what ends a scenario is a failure of its seed, whatever it is
            tally.kinds["broken"] += 1
            tally.failures[seed] = traceback.format_exc().splitlines()[-30:]
            continue
        tally.kinds[outcome.scenario.kind] += 1
        tally.fingerprints.add(outcome.fingerprint)
        tally.requests += outcome.requests
        tally.requests_in_turns += outcome.requests_in_turns
        tally.with_threads += outcome.scenario.has_threads
        tally.seen.update(dict.fromkeys(outcome.seen, 1))
        if outcome.complaints:
            tally.failures[seed] = outcome.complaints
    return tally


def fingerprints(seeds, draw=draw):
    """Of the whole traces, with times: equal in every process that replays the seeds exactly."""
    return [f"{seed} {simulate(seed, draw=draw).digest}" for seed in seeds]


def replay(seed, draw):
    """Show all that happens in the scenario of a seed."""
    outcome = simulate(seed, draw=draw)
    for field, value in attrs.asdict(outcome.scenario, recurse=False).items():
        for line in value if field in {"clients", "faults"} else (value,):
            print(f"{field}: {line}")
    for at, *event in outcome.events:
        print(f"{at / 1000:10.3f} ms  {' '.join(map(str, event))}")
    print(describe(seed, outcome.complaints, OPTIONS[draw]) if outcome.complaints else f"seed {seed} holds")
    return not outcome.complaints


def campaign(first, count, workers, draw):
    """Run seeds on several cores; prints progress and totals."""
    began, total = time.monotonic(), Tally(options=OPTIONS[draw])
    starts = range(first, first + count, SEEDS_AT_ONCE)
    with ProcessPoolExecutor(workers) as executor:
        for tally in executor.map(
            partial(run_seeds, draw=draw),
            [range(start, min(start + SEEDS_AT_ONCE, first + count)) for start in starts],
        ):
            total.add(tally)
            for seed, complaints in tally.failures.items():
                print(describe(seed, complaints, total.options), flush=True)
            if total.scenarios % (10 * SEEDS_AT_ONCE) == 0:
                print(f"{time.monotonic() - began:6.0f} s: {total}", flush=True)
    print(f"in {time.monotonic() - began:.0f} s, seeds {first} to {first + count - 1}: {total}")
    total.check(WANTED.get(draw, ()))


def main():
    parser = argparse.ArgumentParser(description="Simulate a whole broker, deterministically.")
    parser.add_argument("--seeds", type=int, default=10_000, help="how many")
    parser.add_argument("--first", type=int, default=0, help="the first of them")
    parser.add_argument("--seed", type=int, help="replay this one, and show all that happens")
    parser.add_argument("--workers", type=int, default=os.cpu_count(), help="processes")
    parser.add_argument("--store", action="store_true", help="brokers on a store of objects, in place of a disk")
    parser.add_argument("--cluster", action="store_true", help="several brokers that form a cluster")
    parser.add_argument("--digests", action="store_true", help="print what tells whether two runs of a seed were equal")
    options = parser.parse_args()
    drawn = draw_on_store if options.store else draw_cluster if options.cluster else draw
    if options.seed is not None:
        return 0 if replay(options.seed, drawn) else 1
    if options.digests:
        print("\n".join(fingerprints(range(options.first, options.first + options.seeds), drawn)))
        return 0
    try:
        campaign(options.first, options.seeds, options.workers, drawn)
    except AssertionError as failure:
        print(str(failure).splitlines()[0], file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
