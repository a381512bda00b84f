"""Whatever one client asks for, others are served meanwhile, memory is bounded, and the broker stops and starts."""

import pytest

from tests.conftest import CAMPAIGN
from tests.hostile.campaign import plans
from tests.hostile.harness import HEAD, STOP_SECONDS_MAX, Life, in_memory, row

LIVES = [(mode, plan) for mode in ("classic", "pipelined") for plan in plans(mode)]

pytestmark = [pytest.mark.faults, pytest.mark.timeout(0)]


@pytest.mark.parametrize(("mode", "plan"), LIVES, ids=[f"{mode}-{plan.name.replace(' ', '-')}" for mode, plan in LIVES])
def test_nobody_else_waits_for_what_one_client_asks(mode, plan, filled, folder, record_property):
    source, world = filled
    faults, rows = [], []
    life = Life(folder, source, mode, plan.guard)
    try:
        for case in plan.cases:
            cost = life.attack(case, world)
            if cost.is_narrow:
                cost = measured_alone(case, filled, mode, plan.guard)
            rows.append(row(mode, case, cost))
            faults += [f"{fault}: {rows[-1]}" for fault in cost.faults]
            if cost.waits.error or cost.unanswered:
                break
        stderr = life.process.stderr
    finally:
        seconds = life.end_amid(plan.cases[-1], world)
    worst = max(rows)
    record_property(CAMPAIGN, f"{mode} {plan.name}: {len(rows)} cases, worst {worst.strip()}")
    if seconds > STOP_SECONDS_MAX:
        faults.append(f"it ended {seconds:.1f} s after SIGTERM")
    if stderr:
        faults.append(f"it wrote {stderr[:2000]!r}")
    assert not faults, "\n".join(["", HEAD, *faults, f"the innocent client alone: {life.baseline}"])
    life.serves_again()


def measured_alone(case, filled, mode, guard):
    """The cost in a life in which nothing else was asked."""
    source, world = filled
    with in_memory(source) as folder:
        life = Life(folder, source, mode, guard)
        try:
            return life.attack(case, world)
        finally:
            life.end_amid(case, world)
