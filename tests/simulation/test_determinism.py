"""One seed is one run: a failure can be replayed exactly, in this process and in any other."""

import os
import subprocess
import sys
from contextlib import contextmanager

import pytest

from tests.conftest import ROOT
from tests.simulation.campaign import fingerprints
from tests.simulation.scenario import SCHEDULES_PER_SCRIPT
from tests.simulation.simulation import simulate

SEEDS = 24
SECONDS_MAX = 120
pytestmark = pytest.mark.simulation


def test_a_seed_gives_the_same_events_at_the_same_times_again():
    for seed in range(0, SEEDS, 3):
        first, again = simulate(seed), simulate(seed)
        assert first.events == again.events
        assert (first.answers, first.final, first.complaints) == (again.answers, again.final, again.complaints)


@contextmanager
def other_process(seeds, *arguments):
    """Gives what says, once the other process has ended, what tells runs of the first seeds apart there.

    It has other addresses in memory and another hash of texts: these decide the order in sets.
    """
    command = [sys.executable, "-m", "tests.simulation.campaign", "--digests", "--seeds", str(seeds), *arguments]
    environment = {**os.environ, "PYTHONHASHSEED": "4711"}
    pipe = subprocess.PIPE
    with subprocess.Popen(command, cwd=ROOT, env=environment, stdout=pipe, stderr=pipe, text=True) as other:

        def fingerprints_there():
            printed, errors = other.communicate(timeout=SECONDS_MAX)
            assert other.returncode == 0, errors
            return printed.splitlines()

        try:
            yield fingerprints_there
        finally:
            other.kill()


def test_a_seed_gives_the_same_events_in_another_process():
    with other_process(SEEDS) as fingerprints_there:  # both at once
        here = fingerprints(range(SEEDS))
        assert fingerprints_there() == here


def test_seeds_that_share_a_script_differ_in_their_schedule():
    """Scripts whose clients have several things to do at once; else there is but one order."""
    outcomes = [simulate(seed) for seed in range(SCHEDULES_PER_SCRIPT * 6)]
    scripts = {outcome.scenario.script_seed for outcome in outcomes}
    assert len(scripts) == 6
    assert len({outcome.fingerprint for outcome in outcomes}) > 2 * len(scripts)
