"""The stopping rule of `compare --rounds auto`: stop once intervals are narrow, or when the time is used up.

The rule considers intervals of rates in closed loops. Open loops have the same rounds, later. A rule that checks
intervals after each round finds narrow ones a little too often. It therefore uses the median width, and never
the position of an interval relative to 1.
"""

import math
import statistics
from collections.abc import Callable, Iterator, Sequence

import attrs

from pipeline_broker.measure.experiment.budget import Costs
from pipeline_broker.measure.experiment.results import Results
from pipeline_broker.measure.experiment.runs import Group

AUTO_ROUNDS_MIN = 3
WIDTH_MAX = 1.3
"""Maximum width, upper over lower end, of the median interval."""
SELF_WIDTH_MAX = 1.2
"""Maximum width for a mode compared with itself: its interval then lies between about 0.9 and 1.1."""


@attrs.frozen
class Stopping:
    """The stopping rule of one experiment.

    Attributes:
        groups: all groups that may be run.
        costs: their durations.
        results: results so far.
        budget_s: time limit of all runs.
    """

    groups: Sequence[Group]
    costs: Costs
    results: Results
    budget_s: float

    def is_enough(self, round_number: int, elapsed_s: float) -> bool:
        """Return whether an experiment stops after this round of closed loops.

        After at least AUTO_ROUNDS_MIN rounds, it stops if its intervals are narrow, or if another round would exceed
        the budget.

        Args:
            elapsed_s: seconds since the experiment began.
        """
        if round_number < AUTO_ROUNDS_MIN:
            return False
        return self._is_narrow() or elapsed_s + self._one_more_s(round_number, elapsed_s) > self.budget_s

    def _is_narrow(self) -> bool:
        compared = [self.results.speedup(cell) for cell in self.results.compared() if not cell.is_open]
        selves = [self.results.speedup(cell) for cell in self.results.selves()]
        widths, own = ([_width(it.low, it.high) for it in found if it is not None] for found in (compared, selves))
        return statistics.median(widths or [math.inf]) <= WIDTH_MAX and max(own, default=1.0) <= SELF_WIDTH_MAX

    def _one_more_s(self, round_number: int, elapsed_s: float) -> float:
        closed, opened = ([group for group in self.groups if group.is_open is is_open] for is_open in (False, True))
        done_s = self.costs.of([group for group in closed if group.round <= round_number])
        next_s = self.costs.of([group for group in closed if group.round == round_number + 1])
        # Each closed round implies a round of the open loops, which run at the end and must fit into the budget too.
        open_s = self.costs.of([group for group in opened if group.round <= round_number + 1])
        return (next_s + open_s) * elapsed_s / done_s


def _width(low: float | None, high: float | None) -> float:
    return math.inf if low is None or high is None else high / low


def due(groups: Sequence[Group], is_enough: Callable[[int], bool]) -> Iterator[Group]:
    """Yield groups in order, and skip later rounds once `is_enough` has returned True.

    Args:
        groups: closed loops by round, then open loops by round.
        is_enough: called once after each round of closed loops.
    """
    rounds, limit = 0, math.inf
    for group in groups:
        if group.round > rounds and not group.is_open and rounds < limit:
            if rounds and is_enough(rounds):
                limit = rounds
            else:
                rounds = group.round
        if group.round <= limit:
            yield group
