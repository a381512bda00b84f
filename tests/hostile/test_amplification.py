"""Whatever one client asks for, others are served meanwhile, memory is bounded, and the broker stops and starts."""

import pytest

from pipeline_broker.apis.registry import SERVED
from tests.conftest import CAMPAIGN
from tests.crashes.broker_under_test import VARIANTS
from tests.hostile.campaign import faults_of, plans
from tests.hostile.handmade import HANDMADE
from tests.hostile.harness import WAIT_MS_MAX, Life, in_memory

MODES = ("classic", "pipelined")
LIVES = [(mode, plan) for mode in MODES for plan in plans(mode)]

pytestmark = [pytest.mark.faults, pytest.mark.timeout(0)]


@pytest.mark.parametrize(("mode", "plan"), LIVES, ids=[f"{mode}-{plan.name.replace(' ', '-')}" for mode, plan in LIVES])
def test_nobody_else_waits_for_what_one_client_asks(mode, plan, filled, record_property):
    rows = []
    faults = faults_of(plan, mode, filled, rows.append)
    record_property(CAMPAIGN, f"{mode} {plan.name}: {len(rows)} cases, worst {max(rows).strip()}")
    assert not faults, "\n".join(["", *faults])


def test_the_lowest_and_the_highest_version_of_an_api_are_attacked():
    attacked = {(case.key, case.version) for _, plan in LIVES for case in plan.cases}
    for key, served in SERVED.items():
        assert {(key, served.versions[0]), (key, served.versions[-1])} <= attacked, served.name


def test_a_broker_that_takes_no_turns_is_found(filled):
    source, world = filled
    case = next(case for case in HANDMADE if case.what == "topics created by their names")
    with in_memory(source) as folder:
        life = Life(folder, source, "pipelined", program=(str(VARIANTS), "takes-no-turns"))
        try:
            cost = life.attack(case, world)
        finally:
            life.end_amid(case, world)
    assert cost.waits.worst_ms > WAIT_MS_MAX
    assert cost.faults
