"""The mean time of a request, split into parts, with intervals over the traced rounds.

The parts add up to the time that the client waited; they are means because only means add up. The parts inside the
broker come from its stamps. The rest of the client's mean is the socket wait: a request that was sent and not read
yet, or a response that was sent and not read yet. The broker does not read a classic connection while it answers
one of its requests. Without the socket wait, classic would look faster than it is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs

from spark_analysis.interval import Estimate, mean_interval
from spark_analysis.tables import RAW_CLIENT, STAGES

if TYPE_CHECKING:
    from collections.abc import Iterable

    from spark_analysis.cells import Cell, Run
    from spark_analysis.figures import Figures, StageFigures

SOCKET: Final = "socket wait"
BROKER_PARTS: Final = (
    "request queue",
    "handler",
    "commit wait",
    "other wait",
    "order wait",
    "response queue",
    "send",
)
"""The parts of a request's time inside the broker, in their order."""


@attrs.frozen
class Breakdown:
    """The mean parts of a cell's requests in microseconds, for each traced round."""

    cell: Cell
    rounds: dict[int, dict[str, float]]

    @property
    def parts(self) -> dict[str, Estimate]:
        return over_rounds(self.rounds.values())

    @property
    def total(self) -> Estimate:
        found = mean_interval([sum(parts.values()) for parts in self.rounds.values()])
        assert found is not None, "a breakdown has a round"
        return found


@attrs.frozen
class Cause:
    """The part with the largest share of the difference between the two sides, in microseconds.

    Attributes:
        part: its name.
        before, after: the part on side 0 and on side 1.
        difference: side 1 minus side 0 of this part.
        total: side 1 minus side 0 of all parts together.
    """

    part: str
    before: Estimate
    after: Estimate
    difference: Estimate
    total: Estimate

    @property
    def share(self) -> float:
        """This part's share of the whole difference; above 1 if other parts have the opposite sign."""
        return self.difference.value / self.total.value


def over_rounds(rounds: Iterable[dict[str, float]]) -> dict[str, Estimate]:
    listed = list(rounds)
    found = {
        name: mean_interval([parts[name] for parts in listed if name in parts]) for name in (SOCKET, *BROKER_PARTS)
    }
    return {name: estimate for name, estimate in found.items() if estimate is not None}


def parts_of_broker(figures: dict[str, StageFigures]) -> dict[str, float]:
    """Return the mean microseconds of BROKER_PARTS, so that they add up to the total.

    CommitWait is part of Remote. If a handler waits for its own commit, the part of CommitWait beyond Remote belongs to
    Local.
    """
    mean = {name: (figures[name].mean_us or 0.0) if name in figures else 0.0 for name in STAGES}
    inside_local = min(mean["Local"], max(0.0, mean["CommitWait"] - mean["Remote"]))
    values = (
        mean["RequestQueue"],
        mean["Local"] - inside_local,
        mean["CommitWait"],
        # In classic the handler waits for its commit inside Local, so CommitWait can exceed Remote.
        max(0.0, mean["Remote"] - mean["CommitWait"]),
        mean["ResponseOrderWait"],
        max(0.0, mean["ResponseQueue"] - mean["ResponseOrderWait"]),
        mean["ResponseSend"],
    )
    return dict(zip(BROKER_PARTS, values, strict=True))


def breakdowns(figures: Figures) -> dict[Cell, Breakdown]:
    """Return the breakdown of every cell that has a traced run with known stages."""
    rounds: dict[Cell, dict[int, list[dict[str, float]]]] = {}
    for run in figures.runs:
        if run.number in figures.stages:
            parts = _parts(run, figures.stages[run.number])
            rounds.setdefault(run.cell, {}).setdefault(run.round, []).append(parts)
    return {
        cell: Breakdown(cell, {number: _mean(found) for number, found in by_round.items()})
        for cell, by_round in rounds.items()
    }


def _parts(run: Run, stages: dict[str, StageFigures]) -> dict[str, float]:
    inside = parts_of_broker(stages)
    client_us = run.latency.mean_us if run.latency is not None else None
    if client_us is None or run.cell.load.client != RAW_CLIENT:  # a row of another client is not a request
        return inside
    return {SOCKET: max(0.0, client_us - sum(inside.values())), **inside}


def _mean(found: list[dict[str, float]]) -> dict[str, float]:
    # In A/A a cell has two runs in one round, because both sides are the same mode.
    return {name: estimate.value for name, estimate in over_rounds(found).items()}


def cause(zero: Breakdown, one: Breakdown) -> Cause | None:
    """Return the part with most of the difference between the sides, over the rounds that both have.

    Returns None if the whole difference is not beyond chance, or if there are fewer than three rounds.
    Also returns None if no part differs beyond chance in the same direction: a cause must have been measured.
    """
    # Only rounds of both sides: otherwise drift between rounds would look like a difference.
    paired = [(zero.rounds[number], one.rounds[number]) for number in zero.rounds if number in one.rounds]
    differences = over_rounds({name: b[name] - a[name] for name in a if name in b} for a, b in paired)
    total = mean_interval([sum(b.values()) - sum(a.values()) for a, b in paired])
    if total is None or not beyond_chance(total):
        return None
    same_way = {
        name: found
        for name, found in differences.items()
        if beyond_chance(found) and (found.value > 0) == (total.value > 0)
    }
    if not same_way:
        return None
    name = max(same_way, key=lambda part: abs(same_way[part].value))
    before, after = (over_rounds(pair[side] for pair in paired)[name] for side in (0, 1))
    return Cause(name, before, after, same_way[name], total)


def beyond_chance(difference: Estimate) -> bool:
    return difference.low is not None and difference.high is not None and not difference.low <= 0 <= difference.high
