"""The whole broker, simulated: drawn scenarios, drawn schedules, drawn faults; all invariants of
docs/evidence/invariants.md.

Most seeds are the same in every run, so that a change is compared with what it changes; others are drawn anew, so that
many runs see more than one does; with AT_LENGTH=1 there are four times as many. A failure names its seed, and how it is
replayed.
"""

import secrets

import pytest

from tests.crashes.lengths import AT_LENGTH
from tests.simulation.campaign import run_seeds

FIXED, DRAWN = (1040, 520) if AT_LENGTH else (260, 130)
CHUNKS = 10
SEEDS_MAX = 10**9

pytestmark = pytest.mark.simulation


def hold(first, count):
    tally = run_seeds(range(first, first + count))
    print(f"\nsimulation: seeds {first} to {first + count - 1}: {tally}")
    tally.check()


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_every_invariant_holds_in_every_scenario(chunk):
    count = FIXED // CHUNKS
    hold(chunk * count, count)


@pytest.mark.parametrize("chunk", range(CHUNKS // 2))
def test_every_invariant_holds_in_scenarios_that_no_run_had_before(chunk):
    hold(FIXED + secrets.randbelow(SEEDS_MAX), DRAWN // (CHUNKS // 2))
