"""An experiment with `--rounds auto` stops once half of its intervals are narrow, or its budget is used up."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline_broker.measure.experiment.budget import Costs
from pipeline_broker.measure.experiment.intervals import Speedup
from pipeline_broker.measure.experiment.plan import AUTO_ROUNDS_MAX, Request, plan
from pipeline_broker.measure.experiment.runs import RAW, Cell
from pipeline_broker.measure.experiment.stopping import SELF_WIDTH_MAX, WIDTH_MAX, Stopping, due

COSTS = Costs(0.3, 0.3)
REQUEST = Request(budget_s=600.0, with_replay=False)
GROUPS = plan(REQUEST, 5)


class FakeResults:
    """Results with intervals of these widths, each starting at 1; None for an interval without bounds."""

    def __init__(self, widths, own=()):
        self._widths = {Cell(RAW, 1, number): width for number, width in enumerate(widths, start=1)}
        self._own = {Cell(RAW, 2, number, is_self=True): width for number, width in enumerate(own, start=1)}

    def compared(self):
        return list(self._widths)

    def selves(self):
        return list(self._own)

    def speedup(self, cell):
        width = {**self._widths, **self._own}[cell]
        return Speedup(1.0, None, None, 1) if width is None else Speedup(1.0, 1.0, width, 5)


def stopping(results, budget_s=math.inf):
    return Stopping(GROUPS, COSTS, results, budget_s)


@pytest.mark.parametrize(
    ("widths", "own", "is_enough"),
    [
        ([WIDTH_MAX, WIDTH_MAX, 9.0], [SELF_WIDTH_MAX], True),
        ([WIDTH_MAX, WIDTH_MAX + 0.01, 9.0], [SELF_WIDTH_MAX], False),
        ([1.1, 1.1, 1.1], [SELF_WIDTH_MAX + 0.01], False),
        ([1.1, 1.1], [], True),
        ([None, None, 1.1], [1.1], False),
        ([], [1.1], False),
    ],
)
def test_half_of_the_intervals_and_that_of_the_self_comparison_are_narrow(widths, own, is_enough):
    assert stopping(FakeResults(widths, own)).is_enough(3, 60.0) is is_enough
    assert not stopping(FakeResults(widths, own)).is_enough(2, 60.0), "two rounds have no interval"


def test_the_rule_stops_when_one_more_round_and_the_open_loops_exceed_the_budget():
    wide = FakeResults([9.0])
    closed = [group for group in GROUPS if not group.is_open]
    opened = [group for group in GROUPS if group.is_open]
    done_s = COSTS.of([group for group in closed if group.round <= 4])
    whole_s = COSTS.of([group for group in closed if group.round <= 5])
    whole_s += COSTS.of([group for group in opened if group.round <= 5])
    assert not stopping(wide, whole_s + 0.001).is_enough(4, done_s)
    assert stopping(wide, whole_s - 0.001).is_enough(4, done_s)
    assert stopping(wide, whole_s + 0.001).is_enough(4, done_s * 1.1), "rounds take longer than estimated"
    assert not stopping(wide, 0.0).is_enough(2, done_s)


@given(st.integers(1, AUTO_ROUNDS_MAX + 5))
def test_open_loops_have_the_rounds_of_the_closed_ones(enough):
    asked = []

    def is_enough(number):
        asked.append(number)
        return number >= enough

    run = list(due(GROUPS, is_enough))
    rounds = min(enough, AUTO_ROUNDS_MAX)
    assert asked == list(range(1, min(enough, AUTO_ROUNDS_MAX - 1) + 1))
    assert run == [group for group in GROUPS if group.round <= rounds]
    assert {group.is_open for group in run} == {True, False}
