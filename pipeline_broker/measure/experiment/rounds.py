"""Rounds of an experiment: new brokers, and each load on each side, in random order.

The order depends on the seed only, so the same seed gives the same plan. Its rules:

* Loads with equal broker settings share brokers within a round, but never beyond it: two processes of the same kind
  differ for as long as they live.
* Each round has its own random order of loads, so that drift and disturbances hit loads at random.
* The sides of a load are driven back to back. The first one is random in round 1, and alternates after that.
* Within a round, each side is driven several times, forwards and backwards. The speed of disk and machine changes
  within seconds, so longer runs would not average it out.
"""

import itertools
import random
from collections.abc import Callable, Iterable, Iterator, Sequence

import attrs

from pipeline_broker.measure.experiment.runs import COMMAND, READER, Cell, Group, Run, Side


@attrs.frozen(slots=True)
class Part:
    """A load of an experiment, driven on `sides` back to back in the first `rounds` rounds.

    Attributes:
        turns: runs of each side in a round.
    """

    experiment: str
    cell: Cell
    sides: tuple[Side, ...]
    rounds: int
    traced: bool = False
    turns: int = 1


Phase = Sequence[Part]
"""Parts that share rounds. A phase begins after the last round of the previous one."""


def plan_rounds(phases: Iterable[Phase], seed: int) -> list[Group]:
    """Return the groups of runs in the order to execute; runs are numbered from 1. Equal seeds give equal plans."""
    order = random.Random(seed)  # noqa: S311 - the order of runs
    numbers = itertools.count(1)
    groups: list[Group] = []
    for parts in phases:
        begins_reversed = {part: order.random() < 1 / 2 for part in parts}
        for round_number in range(1, max((part.rounds for part in parts), default=0) + 1):
            due = [part for part in parts if round_number <= part.rounds]
            blocks = _started_alike(due)
            for block in order.sample(blocks, len(blocks)):
                runs = [
                    Run(next(numbers), round_number, part.traced, side, part.cell, part.experiment)
                    for part in order.sample(block, len(block))
                    for turn in range(part.turns)
                    for side in _sides(
                        part.sides, round_number, is_reversed=begins_reversed[part] is not bool(turn % 2)
                    )
                ]
                groups.append(Group(tuple(runs)))
    return groups


def _started_alike(parts: Iterable[Part]) -> list[list[Part]]:
    """Return the parts in blocks; the parts of a block can share broker processes."""
    blocks: dict[object, list[Part]] = {}
    for part in parts:
        alike = (part.cell.commit_delay_ms, part.cell.broker, part.cell.is_self, part.cell.client == READER)
        # A mode compared with itself shares its brokers with no other load (`is_self`). A broker still archives records
        # of an earlier load, which costs a tenth of its rate. Readers share no brokers with loads that write: the
        # faster side would write more, so its tail cache would no longer hold the records of the readers.
        # A trace file must contain one run only, and the requests of a user's command are found in one.
        is_alone = part.traced or part.cell.client == COMMAND
        blocks.setdefault(part if is_alone else alike, []).append(part)
    return list(blocks.values())


def _sides(sides: Sequence[Side], round_number: int, *, is_reversed: bool) -> list[Side]:
    """Return the sides of a round, reversed in every other round.

    With more than two sides, the first one varies, so that no side always follows the same other one.
    """
    first = (round_number - 1) // 2 % max(1, len(sides) - 1)
    order = [*sides[first:], *sides[:first]]
    if is_reversed is bool(round_number % 2):
        order.reverse()
    return order


def pairs(group: Group) -> Iterator[tuple[Run, ...]]:
    """Yield the runs that are compared with each other: those of one part in one round."""
    for _, runs in itertools.groupby(group.runs, key=lambda run: (run.experiment, run.cell)):
        yield tuple(runs)


def remaining(groups: Iterable[Group], is_done: Callable[[Run], bool]) -> list[Group]:
    """Return the groups without complete pairs. A pair with an incomplete run is repeated as a whole."""
    left = []
    for group in groups:
        runs = tuple(run for pair in pairs(group) if not all(map(is_done, pair)) for run in pair)
        if runs:
            left.append(Group(runs))
    return left
