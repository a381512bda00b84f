"""The end of `compare --rounds auto`: after the round that made intervals narrow enough, or used up the time.

Intervals are those of the rates in a closed loop, because an open loop has the same rounds, later. A rule that looks
at intervals after each round finds narrow ones a little too often. So it looks at the width of half of all intervals,
and never at the side of 1 on which one lies.
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
"""Upper end over lower end of half of all intervals."""
SELF_WIDTH_MAX = 1.2
"""The same of a mode beside itself: it lies within 0.9 and 1.1."""


@attrs.frozen
class Stopping:
    """The rule of one experiment.

    Attributes:
        groups: all that may be run.
        costs: of them.
        results: of the runs that have ended.
        budget_s: for the runs.
    """

    groups: Sequence[Group]
    costs: Costs
    results: Results
    budget_s: float

    def is_enough(self, round_number: int, elapsed_s: float) -> bool:
        """Return whether an experiment ends with this round of its closed loops, after `elapsed_s`."""
        if round_number < AUTO_ROUNDS_MIN:
            return False
        return self._is_narrow() or elapsed_s + self._one_more_s(round_number, elapsed_s) > self.budget_s

    def _is_narrow(self) -> bool:
        compared = [self.results.speedup(cell) for cell in self.results.compared() if not cell.is_open]
        selves = [self.results.speedup(cell) for cell in self.results.selves()]
        widths, own = ([_width(it.low, it.high) for it in found if it is not None] for found in (compared, selves))
        return statistics.median(widths or [math.inf]) <= WIDTH_MAX and max(own, default=1.0) <= SELF_WIDTH_MAX

    def _one_more_s(self, round_number: int, elapsed_s: float) -> float:
        """Return the seconds of one more round and of the open loops after it, at the pace so far."""
        closed, opened = ([group for group in self.groups if group.is_open is is_open] for is_open in (False, True))
        done_s = self.costs.of([group for group in closed if group.round <= round_number])
        next_s = self.costs.of([group for group in closed if group.round == round_number + 1])
        open_s = self.costs.of([group for group in opened if group.round <= round_number + 1])
        return (next_s + open_s) * elapsed_s / done_s


def _width(low: float | None, high: float | None) -> float:
    return math.inf if low is None or high is None else high / low


def due(groups: Sequence[Group], is_enough: Callable[[int], bool]) -> Iterator[Group]:
    """Yield groups in order, and after a round that is enough none of a later round.

    Args:
        groups: of closed loops by round, then those of open loops by round.
        is_enough: asked once after each round of closed loops.
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
