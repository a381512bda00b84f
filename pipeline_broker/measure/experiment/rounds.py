"""Rounds, each an experiment of its own: new brokers, every load on every side, in drawn order.

Rules of this file: no I/O; the order is drawn from a seed and from nothing else, so that the same seed gives the same
plan. Loads whose brokers are started alike share them within a round and never beyond it, because two processes of the
same kind differ as long as they live. In which order loads come is drawn anew for each round, so that what drifts or
disturbs for a while hits loads at random. The sides of a load are driven back to back; which goes first is drawn for
the first round and alternates from then on. Within a round they take several turns, forwards and backwards: disk and
machine change their speed within seconds, which long runs meet as much as short ones. A traced run has a broker of its
own, whose files hold this run only; so has a command of the user, whose requests are found in them. A mode beside
itself has two that nothing else is driven on: what one was sent before it still archives, for a tenth of its rate.
"""

import itertools
import random
from collections.abc import Callable, Iterable, Iterator, Sequence

import attrs

from pipeline_broker.measure.experiment.runs import COMMAND, Cell, Group, Run, Side


@attrs.frozen(slots=True)
class Part:
    """A load of an experiment: driven on `sides`, back to back, in the first `rounds` rounds.

    Attributes:
        turns: of each side in a round.
    """

    experiment: str
    cell: Cell
    sides: tuple[Side, ...]
    rounds: int
    traced: bool = False
    turns: int = 1


Phase = Sequence[Part]
"""Parts whose rounds are the same; a phase begins when the rounds of the one before it have ended."""


def plan_rounds(phases: Iterable[Phase], seed: int) -> list[Group]:
    """Everything that is to be run, in order, numbered from 1."""
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
    """The parts in blocks: those of a block can be driven on the same processes."""
    blocks: dict[object, list[Part]] = {}
    for part in parts:
        alike = (part.cell.commit_delay_ms, part.cell.broker, part.cell.is_self)
        is_alone = part.traced or part.cell.client == COMMAND
        blocks.setdefault(part if is_alone else alike, []).append(part)
    return list(blocks.values())


def _sides(sides: Sequence[Side], round_number: int, *, is_reversed: bool) -> list[Side]:
    """In turn forwards and backwards; of more than two each begins in turn, so that none always follows another."""
    first = (round_number - 1) // 2 % max(1, len(sides) - 1)
    order = [*sides[first:], *sides[:first]]
    if is_reversed is bool(round_number % 2):
        order.reverse()
    return order


def pairs(group: Group) -> Iterator[tuple[Run, ...]]:
    """The runs that are compared with each other: of one part, in one round."""
    for _, runs in itertools.groupby(group.runs, key=lambda run: (run.experiment, run.cell)):
        yield tuple(runs)


def remaining(groups: Iterable[Group], is_done: Callable[[Run], bool]) -> list[Group]:
    """The groups without the pairs that are done; a pair of which one half is missing is run again as a whole."""
    left = []
    for group in groups:
        runs = tuple(run for pair in pairs(group) if not all(map(is_done, pair)) for run in pair)
        if runs:
            left.append(Group(runs))
    return left
