"""Leaders of an embedded cluster change: nothing is lost, doubled or out of order."""

from collections import Counter

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from pipeline_broker import EmbeddedCluster
from tests.crashes.lengths import examples
from tests.embedded.election_machine import ElectionMachine

EXAMPLES, STEPS = examples(60), 25
ABOUT = {
    "an election": 0.4,
    "an election with an open transaction": 0.1,
    "a stop without a controller": 0.05,
    "a move": 0.2,
    "a return to a former leader": 0.2,
    "a duplicate after an election": 0.2,
    "an end of a transaction after an election": 0.05,
}


@pytest.fixture(scope="module")
def machine_cluster():
    with EmbeddedCluster() as cluster:
        yield cluster


def test_whatever_stops_and_moves_clients_see_the_same_records(machine_cluster):
    counts, of_all = Counter(), Counter()

    class Machine(ElectionMachine):
        cluster = machine_cluster

        def __init__(self):
            super().__init__()
            self.seen = set()
            self.about = self.seen.add

        def teardown(self):
            super().teardown()
            counts.update(self.seen)
            of_all["examples"] += 1

    run_state_machine_as_test(
        Machine,
        settings=settings(
            max_examples=EXAMPLES,
            stateful_step_count=STEPS,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
    shares = {name: counts[name] / of_all["examples"] for name in ABOUT}
    print(of_all, shares)
    assert {name: share for name, share in shares.items() if share < ABOUT[name]} == {}
