"""Whatever one client asks for, others are served meanwhile, memory is bounded, and the broker stops and starts."""

import attrs
import pytest

from pipeline_broker.apis.registry import SERVED
from pipeline_broker.wire.registry import ApiKey
from tests.bad_input.raw_client import frame_of
from tests.conftest import CAMPAIGN
from tests.crashes.broker_under_test import VARIANTS
from tests.hostile.amplified import Case
from tests.hostile.campaign import faults_of, plans
from tests.hostile.handmade import create_request
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


@pytest.mark.parametrize("mode", MODES)
def test_every_served_api_is_attacked(mode):
    assert {case.key for plan in plans(mode) for case in plan.cases} == set(SERVED)


def test_the_lowest_and_the_highest_version_of_an_api_are_attacked():
    attacked = {(case.key, case.version) for _, plan in LIVES for case in plan.cases}
    for key, served in SERVED.items():
        assert {(key, served.versions[0]), (key, served.versions[-1])} <= attacked, served.name


def test_a_broker_that_takes_no_turns_is_found(filled):
    source, world = filled
    request = attrs.evolve(create_request("narrow", 10_000, 1), validate_only=True)
    case = Case(ApiKey.CREATE_TOPICS, 7, "10,000 topics, checked only", lambda _: [frame_of(request, 7)])
    with in_memory(source) as folder:
        life = Life(folder, source, "pipelined", program=(str(VARIANTS), "takes-no-turns"))
        try:
            cost = life.attack(case, world)
        finally:
            life.end_amid(case, world)
    assert cost.waits.worst_ms > WAIT_MS_MAX
    assert cost.faults
