"""The whole broker on a store of objects, simulated: drawn delays, lost, late and doubled requests, outages, takeovers.

As `test_simulation`, with fewer scenarios, because each has several processes and their threads;
`make simulate STORE=1` takes thousands. What is of interest is counted, and a run that saw nothing of a kind fails.
"""

import secrets
import time
from contextlib import ExitStack

import attrs
import pytest

from tests.crashes.lengths import AT_LENGTH
from tests.simulation import threads
from tests.simulation.campaign import WANTED, fingerprints, run_seeds
from tests.simulation.scenario import SCHEDULES_PER_SCRIPT, Fault
from tests.simulation.simulation import run, simulate
from tests.simulation.store_scenario import draw_on_store
from tests.simulation.test_determinism import other_process
from tests.stages.sabotage import replaced

STRIDE = SCHEDULES_PER_SCRIPT + 1
"""Few seeds are to have many scripts; some of them two schedules."""
FIXED, DRAWN = (400, 200) if AT_LENGTH else (56, 8)
SEEDS_MAX = 10**9
REPLAYED, LOOKED_AT = 4, 2
OUTAGE_SECONDS = 180
CLOCKS = [f"{name}{unit}" for name in ("time", "monotonic", "process_time", "thread_time") for unit in ("", "_ns")]
"""All but the one that Trio's virtual clock looks at, of which nothing comes."""
MODES = ("classic", "pipelined")

pytestmark = pytest.mark.simulation


def hold(first, count, wanted=()):
    tally = run_seeds(range(first, first + count * STRIDE, STRIDE), draw=draw_on_store)
    print(f"\nsimulation on a store: seeds from {first}: {tally}")
    tally.check(wanted)


def test_every_invariant_holds_on_a_store_and_what_is_of_interest_was_seen():
    hold(0, FIXED, WANTED[draw_on_store])


def test_every_invariant_holds_on_a_store_in_scenarios_that_no_run_had_before():
    hold(FIXED * STRIDE + secrets.randbelow(SEEDS_MAX), DRAWN)


def test_a_seed_gives_the_same_run_again():
    for seed in range(0, REPLAYED * STRIDE, STRIDE):
        assert simulate(seed, draw=draw_on_store).digest == simulate(seed, draw=draw_on_store).digest


def test_a_seed_gives_the_same_run_in_another_process():
    with other_process(REPLAYED, "--store") as fingerprints_there:
        here = fingerprints(range(REPLAYED), draw_on_store)
        assert fingerprints_there() == here


def test_no_thread_of_a_simulated_broker_looks_at_a_clock_of_the_machine():
    """What its work really takes would decide what comes of it: one seed in sixty gave another run now and then."""

    def for_the_loop(clock):
        def look():
            assert threads.running() is None
            return clock()

        return look

    with ExitStack() as stack:
        for name in CLOCKS:
            stack.enter_context(replaced(time, name, for_the_loop(getattr(time, name))))
        run_seeds(range(0, LOOKED_AT * STRIDE, STRIDE), draw=draw_on_store).check()


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kind", ["outage", "silent outage"])
def test_a_store_that_is_away_for_minutes_loses_nothing_and_the_broker_goes_on(mode, kind):
    """Producers are told to try again, or wait; one process is there from the beginning to the end."""
    scenario = next(one for one in map(draw_on_store, range(1000)) if one.clients[0].kind == "idempotent")
    outage = Fault(kind, 0.05, OUTAGE_SECONDS * 1000)
    outcome = run(attrs.evolve(scenario, mode=mode, faults=(outage,), restarts=False))
    assert outcome.complaints == ()
    assert outcome.seen["writes were refused"]
    assert [event for _, event, *_ in outcome.events].count("life") == 1
    assert outcome.events[-1][0] > OUTAGE_SECONDS * 1_000_000
