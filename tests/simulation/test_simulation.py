"""The whole broker, simulated: drawn scenarios, drawn schedules, drawn faults; all invariants of docs/invariants.md."""

import pytest

from tests.simulation.campaign import run_seeds

SCENARIOS = 2080
CHUNKS = 20
SEEDS_PER_CHUNK = SCENARIOS // CHUNKS

pytestmark = pytest.mark.simulation


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_every_invariant_holds_in_every_scenario(chunk):
    first = chunk * SEEDS_PER_CHUNK
    tally = run_seeds(range(first, first + SEEDS_PER_CHUNK))
    print(f"\nsimulation: seeds {first} to {first + SEEDS_PER_CHUNK - 1}: {tally}")
    tally.check()
