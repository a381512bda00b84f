"""Several brokers that form a cluster, simulated: killed, cut off from each other, and with wrong clocks.

As `test_simulation`, with fewer scenarios; `make simulate CLUSTER=1` takes thousands. What is of interest is counted,
and a run that saw nothing of a kind fails.
"""

import secrets

import pytest

from tests.crashes.lengths import AT_LENGTH
from tests.simulation.campaign import WANTED, fingerprints, run_seeds
from tests.simulation.cluster_scenario import draw_cluster
from tests.simulation.scenario import SCHEDULES_PER_SCRIPT
from tests.simulation.simulation import simulate
from tests.simulation.test_determinism import other_process

STRIDE = SCHEDULES_PER_SCRIPT + 1
"""Few seeds are to have many scripts; some of them two schedules."""
FIXED, DRAWN = (400, 200) if AT_LENGTH else (24, 6)
SEEDS_MAX = 10**9
REPLAYED = 2

pytestmark = pytest.mark.simulation


def hold(first, count, wanted=()):
    tally = run_seeds(range(first, first + count * STRIDE, STRIDE), draw=draw_cluster)
    print(f"\nsimulation of clusters: seeds from {first}: {tally}")
    tally.check(wanted)


def test_every_invariant_holds_in_a_cluster_and_what_is_of_interest_was_seen():
    hold(0, FIXED, WANTED[draw_cluster])


def test_every_invariant_holds_in_a_cluster_in_scenarios_that_no_run_had_before():
    hold(FIXED * STRIDE + secrets.randbelow(SEEDS_MAX), DRAWN)


def test_a_seed_gives_the_same_run_again():
    for seed in range(0, REPLAYED * STRIDE, STRIDE):
        assert simulate(seed, draw=draw_cluster).digest == simulate(seed, draw=draw_cluster).digest


def test_a_seed_gives_the_same_run_in_another_process():
    with other_process(REPLAYED, "--cluster") as fingerprints_there:
        here = fingerprints(range(REPLAYED), draw_cluster)
        assert fingerprints_there() == here
