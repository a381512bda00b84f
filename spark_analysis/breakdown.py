"""Where the time of a request goes, part by part, with intervals over the traced rounds.

Rules: the parts add up to what the client waited. Inside the broker they come from its stamps, and what is left of the
client's mean is the socket wait: a request was sent and not read yet, or its answer sent and not read yet. A classic
connection is not read while a request of it is answered, so without that part classic would look faster than it is.
Parts are means, because only means add up; each traced round gives one value, and Student's t the interval.
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
"""The parts of a request's time inside the broker, in order."""


@attrs.frozen
class Breakdown:
    """The mean parts of the requests of one cell, microseconds, for each traced round in which it was run."""

    cell: Cell
    rounds: dict[int, dict[str, float]]

    @property
    def parts(self) -> dict[str, Estimate]:
        """Each part over the rounds, in order."""
        return over_rounds(self.rounds.values())

    @property
    def total(self) -> Estimate:
        """All parts together."""
        found = mean_interval([sum(parts.values()) for parts in self.rounds.values()])
        assert found is not None, "a breakdown has a round"
        return found


@attrs.frozen
class Cause:
    """The part that has most of a difference between the two sides; microseconds.

    Attributes:
        part: its name.
        before, after: what it is on side 0 and side 1.
        difference: side 1 less side 0, of this part.
        total: the same of all parts together.
    """

    part: str
    before: Estimate
    after: Estimate
    difference: Estimate
    total: Estimate

    @property
    def share(self) -> float:
        """How much of the whole difference this part has; above 1 where other parts go the other way."""
        return self.difference.value / self.total.value


def over_rounds(rounds: Iterable[dict[str, float]]) -> dict[str, Estimate]:
    """The mean and interval of each part over some rounds."""
    listed = list(rounds)
    found = {
        name: mean_interval([parts[name] for parts in listed if name in parts]) for name in (SOCKET, *BROKER_PARTS)
    }
    return {name: estimate for name, estimate in found.items() if estimate is not None}


def parts_of_broker(figures: dict[str, StageFigures]) -> dict[str, float]:
    """Mean microseconds of the parts inside the broker, in order, so that they add up to the total.

    The commit wait lies inside the remote time; where a handler waits for its own commit it lies, as far as it is
    longer than the remote time, inside the local time.
    """
    mean = {name: (figures[name].mean_us or 0.0) if name in figures else 0.0 for name in STAGES}
    inside_local = min(mean["Local"], max(0.0, mean["CommitWait"] - mean["Remote"]))
    values = (
        mean["RequestQueue"],
        mean["Local"] - inside_local,
        mean["CommitWait"],
        max(0.0, mean["Remote"] - mean["CommitWait"]),
        mean["ResponseOrderWait"],
        max(0.0, mean["ResponseQueue"] - mean["ResponseOrderWait"]),
        mean["ResponseSend"],
    )
    return dict(zip(BROKER_PARTS, values, strict=True))


def breakdowns(figures: Figures) -> dict[Cell, Breakdown]:
    """The breakdown of every cell with a traced run whose stages are known."""
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
    if client_us is None or run.cell.load.client != RAW_CLIENT:  # of other clients a row is no request
        return inside
    return {SOCKET: max(0.0, client_us - sum(inside.values())), **inside}


def _mean(found: list[dict[str, float]]) -> dict[str, float]:
    """Of several runs of a cell in one round: a mode that is compared with itself has two."""
    return {name: estimate.value for name, estimate in over_rounds(found).items()}


def cause(zero: Breakdown, one: Breakdown) -> Cause | None:
    """The part that has most of what the sides differ in, over the traced rounds of both.

    None where the whole difference is not beyond chance, where there are fewer than three rounds, or where no part goes
    beyond chance in the same direction: nothing is named that was not measured.
    """
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
    """Whether the interval of a difference does not hold 0."""
    return difference.low is not None and difference.high is not None and not difference.low <= 0 <= difference.high
