"""One seed is one run: a failure can be replayed exactly, in this process and in any other."""

import os
import subprocess
import sys

import pytest

from tests.conftest import ROOT
from tests.simulation.campaign import fingerprints
from tests.simulation.scenario import SCHEDULES_PER_SCRIPT
from tests.simulation.simulation import simulate

SEEDS = 60
pytestmark = pytest.mark.simulation


def test_a_seed_gives_the_same_events_at_the_same_times_again():
    for seed in range(0, SEEDS, 3):
        first, again = simulate(seed), simulate(seed)
        assert first.events == again.events
        assert (first.answers, first.final, first.complaints) == (again.answers, again.final, again.complaints)


def of_another_process(seeds, *arguments):
    """What tells runs of the first seeds apart, with other addresses in memory and another hash of texts.

    These decide the order in sets.
    """
    command = [sys.executable, "-m", "tests.simulation.campaign", "--digests", "--seeds", str(seeds), *arguments]
    environment = {**os.environ, "PYTHONHASHSEED": "4711"}
    other = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True, timeout=120)
    return other.stdout.splitlines()


def test_a_seed_gives_the_same_events_in_another_process():
    assert of_another_process(SEEDS) == fingerprints(range(SEEDS))


def test_seeds_that_share_a_script_differ_in_their_schedule():
    """Scripts whose clients have several things to do at once; else there is but one order."""
    outcomes = [simulate(seed) for seed in range(SCHEDULES_PER_SCRIPT * 6)]
    scripts = {outcome.scenario.script_seed for outcome in outcomes}
    assert len(scripts) == 6
    assert len({outcome.fingerprint for outcome in outcomes}) > 2 * len(scripts)
