"""Mutants of one room: each is made in a fork of a process that has everything imported, and looked for by its tests.

    python -m tests.mutants.campaign --room quotas --sample 60

Rules: the tests of a room run once, in forks, with every statement that has a mutant noting that it was run. A mutant
is a fork in which one function has other code; in it run the tests that ran the changed line, quickest first, until one
fails. A mutant that none kills survives, and is named; one that makes a test take far more of the processor than it
did, or wait for what never comes, counts as killed, one that is not decided when the time of the campaign is over
counts as nothing. Hypothesis draws the same examples for each mutant, and shrinks nothing. A room fails when fewer are
killed than its floor says; a sample, when so few would be killed once in a thousand samples of a room at its floor.
"""

import argparse
import math
import os
import random
import subprocess
import sys
import time
from collections import Counter, defaultdict
from importlib import import_module
from pathlib import Path

import attrs
import pytest

from tests.mutants.equivalents import EQUIVALENT
from tests.mutants.forks import Job, limit_processor, run_forked
from tests.mutants.operators import Mutation, Source
from tests.mutants.rooms import NOT_ITS_OWN, ROOMS, Room
from tests.mutants.swapping import codes_of, live_functions, note_lines, noting_codes, swap

ROOT = Path(__file__).parent.parent.parent
TESTS_SECONDS_MAX = 12.0
"""Of the tests that run a line, so many are tried, by what they took without a change, of the processor."""
SLOWER_MAX = 8.0
SECONDS_MIN = 4.0
"""A mutant of which one test takes so much more of the processor than without it, and at least so much, is stuck."""
CLOCK_SECONDS_MAX = 600.0
"""All tests of a mutant, however little of the processor it gets."""
COVER_SECONDS_MAX = 1800.0
CHANCE_MAX = 0.001


@attrs.frozen
class Covered:
    """What a test did without a change: the processor's seconds, the lines that it ran, and whether it failed."""

    seconds: float
    lines: frozenset[tuple[str, int]]
    has_failed: bool


@attrs.frozen
class Fate:
    """What became of a mutant: the test that killed it, or None."""

    mutation: Mutation
    killer: str | None
    seconds: float


class Campaign:
    """The plugin that takes the place of pytest's loop over the tests.

    Args:
        room: whose mutants.
        sample: how many are drawn; None for all.
        seed: of the draw.
        only: a text that the names of mutants must have.
        workers: forks at a time.
        seconds_max: after so long it ends; mutants that are not decided by then do not count.
    """

    def __init__(
        self,
        room: Room,
        *,
        sample: int | None,
        seed: str,
        only: str = "",
        workers: int = 2,
        seconds_max: float = math.inf,
    ) -> None:
        self.room = room
        self._latest = time.monotonic() + seconds_max
        self.sources = {path: Source(ROOT, path) for path in room.source_paths(ROOT)}
        mutations = [it for source in self.sources.values() for it in source.mutations]
        self.total = len(mutations)
        names = {it.name for it in mutations}
        self.unknown = [it for it in EQUIVALENT if it.split(" ", 1)[0] in self.sources and it not in names]
        mutations = [it for it in mutations if it.name not in EQUIVALENT and only in it.name]
        self.equivalent = sum(it in names for it in EQUIVALENT)
        if sample is not None and sample < len(mutations):
            mutations = random.Random(f"{seed} {room.name}").sample(mutations, sample)
        self.mutations = mutations
        self.workers = workers
        self.covered: dict[str, Covered] = {}
        self.fates: list[Fate] = []
        self._failed: str | None = None

    # Hooks of pytest

    def pytest_configure(self):
        """Has Hypothesis draw the same for every mutant."""
        from hypothesis import HealthCheck, Phase, settings

        settings.register_profile(
            "mutants",
            deadline=None,
            derandomize=True,
            database=None,
            phases=[Phase.explicit, Phase.generate],
            report_multiple_bugs=False,
            suppress_health_check=list(HealthCheck),
        )
        settings.load_profile("mutants")

    def pytest_runtest_logreport(self, report):
        if report.failed:
            self._failed = report.nodeid

    def pytest_runtestloop(self, session):
        for path in self.sources:
            import_module(path.removesuffix(".py").replace("/", "."))
        functions = live_functions(source.file for source in self.sources.values())
        self._cover(session.items, functions)
        say(f"{len(self.covered)} tests: {processor_seconds():.0f} s of the processor so far")
        self._kill(session.items, functions)
        return True

    # In forks

    def _runs(self, items, folder):
        """Runs tests one after the other; says of each whether it failed."""
        for item in items:
            item.config._tmp_path_factory._basetemp = folder  # each fork has one of its own
        for place, item in enumerate(items):
            self._failed = None
            if item.nodeid in self.covered:
                limit_processor(max(SECONDS_MIN, SLOWER_MAX * self.covered[item.nodeid].seconds))
            following = items[place + 1] if place + 1 < len(items) else None
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            yield item, self._failed is not None

    def _note_all(self, items, codes, functions, folder):
        hits = note_lines(codes, functions)
        covered, started = {}, processor_seconds()
        for item, has_failed in self._runs(items, folder):
            seconds = processor_seconds() - started
            started += seconds
            covered[item.nodeid] = Covered(seconds, frozenset(hits), has_failed)
            hits.clear()
        return covered

    def _noting_codes(self):
        """Of what has a mutant here: to note other lines costs time, and tells nothing."""
        drawn = {self._key_of(mutation) for mutation in self.mutations}
        lines_of = defaultdict(set)
        for mutation in self.mutations:
            lines_of[self.sources[mutation.path]].add(mutation.line)
        codes = noting_codes(lines_of)
        return {key: code for key, code in codes.items() if key in drawn}

    def _key_of(self, mutation):
        return self.sources[mutation.path].file, mutation.function, mutation.first_line

    def _killer(self, mutation, items, functions, folder):
        codes = codes_of(self.sources[mutation.path].compile_mutated(mutation))
        key = self._key_of(mutation)
        if not swap({key: codes[key]}, functions):
            return "no function has this code", False
        for item, has_failed in self._runs(items, folder):
            if has_failed:
                return item.nodeid, True
        return None, True

    # In this process

    def _cover(self, items, functions):
        by_module, codes = defaultdict(list), self._noting_codes()
        for item in items:
            by_module[item.nodeid.split("::")[0]].append(item)
        jobs = [
            Job(module, lambda folder, those=those: self._note_all(those, codes, functions, folder), COVER_SECONDS_MAX)
            for module, those in by_module.items()
        ]
        for job, covered, seconds in run_forked(jobs, self.workers):
            say(f"{job.name}: {'stuck' if covered is None else f'{len(covered)} tests'} in {seconds:.1f} s")
            self.covered.update(covered or {})
        for name, found in self.covered.items():
            if found.has_failed:
                say(f"{name} fails without a change, and is left out")

    def _tests_of(self, mutation, items):
        place = (mutation.path, mutation.line)
        able = [it for it in items if (found := self.covered.get(it.nodeid)) and place in found.lines]
        able = [it for it in able if not self.covered[it.nodeid].has_failed]
        chosen, seconds = [], 0.0
        for item in sorted(able, key=lambda it: self.covered[it.nodeid].seconds):
            if chosen and seconds > TESTS_SECONDS_MAX:
                break
            chosen.append(item)
            seconds += self.covered[item.nodeid].seconds
        return chosen

    def _jobs(self, items, functions):
        """A job for each mutant, made when its turn comes: none is begun, and none goes on, after the end."""
        for mutation in self.mutations:
            if (left := self._latest - time.monotonic()) <= 0:
                return
            chosen = self._tests_of(mutation, items)

            def work(folder, mutation=mutation, chosen=chosen):
                return self._killer(mutation, chosen, functions, folder)

            yield Job((mutation, len(chosen)), work, min(CLOCK_SECONDS_MAX, left))

    def _kill(self, items, functions):
        for place, (job, result, seconds) in enumerate(run_forked(self._jobs(items, functions), self.workers)):
            mutation, tests = job.name
            if result is None and seconds >= job.seconds_max:
                say(f"not decided, the time is over: {mutation.name}")
                continue
            killer, is_made = result or ("out of time", True)
            if not is_made:
                say(f"not made: {mutation.name} ({killer})")
                continue
            self.fates.append(Fate(mutation, killer, seconds))
            if killer is None:
                say(f"SURVIVES {mutation.path}:{mutation.line} [{tests} tests] {mutation.name}")
            elif place % 50 == 49:
                say(f"{place + 1} of {len(self.mutations)} mutants")

    @property
    def killed(self) -> int:
        return sum(fate.killer is not None for fate in self.fates)

    def has_passed(self, *, is_sample: bool) -> bool:
        """Whether the floor holds."""
        made = len(self.fates)
        if self.unknown or not made:
            return False
        if is_sample:
            return chance_of_so_few(self.killed, made, self.room.floor) >= CHANCE_MAX
        return self.killed >= self.room.floor * made


def chance_of_so_few(killed: int, made: int, floor: float) -> float:
    """How probable it is that of `made` mutants at most `killed` are, where each is with the probability `floor`."""
    return math.fsum(math.comb(made, k) * floor**k * (1 - floor) ** (made - k) for k in range(killed + 1))


def processor_seconds() -> float:
    """What this process, and those that it started, have taken of the processor."""
    return sum(os.times()[:4])


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def commit() -> str:
    """What is drawn is another sample for each commit, and the same for each run of one."""
    return subprocess.run(
        ["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.strip()


def run_room(room: Room, arguments: argparse.Namespace) -> int:
    is_sample = arguments.sample is not None or bool(arguments.only)
    started = time.monotonic()
    campaign = Campaign(
        room,
        sample=arguments.sample,
        seed=arguments.seed,
        only=arguments.only,
        workers=arguments.workers,
        seconds_max=arguments.seconds_max,
    )
    options = ["-qq", "-s", "-n0", "-p", "no:cacheprovider", "-m", NOT_ITS_OWN]
    code = pytest.main([*options, *(str(ROOT / it) for it in room.tests)], plugins=[campaign])
    for name in campaign.unknown:
        say(f"listed as equivalent, and there is no such mutant: {name}")
    killers = Counter(fate.killer.split("::")[0] for fate in campaign.fates if fate.killer)
    for path, count in killers.most_common(arguments.killers):
        print(f"    {count:5} by {path}")
    share = campaign.killed / max(len(campaign.fates), 1)
    print(
        f"{room.name}: {campaign.killed} of {len(campaign.fates)} killed = {share:.1%} (floor {room.floor:.0%}), "
        f"{len(campaign.mutations)} drawn of {campaign.total}, {campaign.equivalent} listed as equivalent, "
        f"{time.monotonic() - started:.0f} s, {processor_seconds():.0f} s of the processor",
        flush=True,
    )
    return 0 if not code and campaign.has_passed(is_sample=is_sample) else 1


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants.campaign", description=__doc__.split("\n", 1)[0])
    parser.add_argument("--room", choices=["all", "drawn", *ROOMS], default="all")
    parser.add_argument("--sample", type=int, help="mutants of each room; all unless given")
    parser.add_argument("--seed", help="of the draw; the commit unless given")
    parser.add_argument("--only", default="", help="mutants whose names have this text")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument(
        "--seconds-max", type=float, default=math.inf, help="it ends then, with the mutants that are decided"
    )
    parser.add_argument("--killers", type=int, default=0, help="so many files of tests are listed with what they kill")
    arguments = parser.parse_args()
    arguments.seed = arguments.seed or commit()
    if arguments.room == "drawn":
        arguments.room = random.Random(arguments.seed).choice(sorted(ROOMS))
    if arguments.room != "all":
        return run_room(ROOMS[arguments.room], arguments)
    own = [it for it in sys.argv[1:] if it != "all" and not it.startswith("--room")]
    codes = [subprocess.run([sys.executable, "-m", __spec__.name, "--room", it, *own], check=False) for it in ROOMS]
    return max(it.returncode for it in codes)


if __name__ == "__main__":
    sys.exit(main())
