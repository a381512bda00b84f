"""What arithmetic predicts, and a model of capacity that is fitted to the measured cells; plain Python, no Spark.

The bound of a connection without pipelining is 1 / commit time, that of pipelining the requests that its client keeps
in flight (5 for an idempotent producer of Kafka). Between the two lies the model:

    time of a cycle = fixed + cost x K + commits x D            rate = K / time of a cycle

K is how many requests one cycle can take along: connections, at most as many as commits may run at once, in a mode that
mutes a connection until its request is committed; all that clients keep in flight in one that does not. D is the
commit delay that was injected.

Assumptions: a closed loop that keeps the broker saturated; a slower disk is the same disk plus a constant delay a
commit; bandwidth is no limit; the client has a processor to spare at the end that is extrapolated to.

Rules: what is fitted is told together with how far it is off where it was not fitted: each cell is predicted by the
model of all others (held out), and the cells of the longest delay by those of the shorter ones. Errors are relative to
the measured rate.
"""

from __future__ import annotations

import itertools
from statistics import median
from typing import TYPE_CHECKING, Final

import attrs

if TYPE_CHECKING:
    from collections.abc import Sequence

PRODUCER_IN_FLIGHT_MAX: Final = 5
"""An idempotent producer of Kafka keeps at most so many requests unanswered on a connection."""
COMMITS_AT_ONCE: Final = 8
"""Commits per request run on so many handlers at once, unless `num.io.threads` says otherwise."""
DELAYS_MS: Final = (0.3, 2.0, 10.0, 30.0, 100.0)
"""What is extrapolated to: a fast disk, a good one, one over a network, a slow one, an object store."""
_CELLS_SPARE: Final = 2  # more cells than parameters, or every fit is perfect and says nothing
_PIVOT_MIN: Final = 1e-12


@attrs.frozen
class Measured:
    """One measured cell as the model sees it."""

    outstanding: int
    delay_ms: float
    rate: float


@attrs.frozen
class Model:
    """A fitted model of one mode; times in milliseconds."""

    fixed_ms: float
    cost_ms: float
    commits: float

    def rate(self, outstanding: int, delay_ms: float) -> float:
        """Requests a second that it predicts."""
        return outstanding / max(1e-9, self.cycle_ms(outstanding, delay_ms)) * 1000

    def cycle_ms(self, outstanding: int, delay_ms: float) -> float:
        """Milliseconds of one cycle."""
        return self.fixed_ms + self.cost_ms * outstanding + self.commits * delay_ms


@attrs.frozen
class Errors:
    """How far predictions are off: relative errors of some cells."""

    cells: int
    middle: float
    most: float


@attrs.frozen
class Capacity:
    """The model of a mode with what is known of its worth."""

    model: Model
    cells: int
    inside: Errors
    held_out: Errors | None
    longer_delay: Errors | None


def fit(cells: Sequence[Measured]) -> Model | None:
    """The model with the least squared relative error of the cycle's time, no part of it negative.

    None where the cells do not determine it. Where no delay varies, a delay is taken to count once.
    """
    varied = [len({cell.outstanding for cell in cells}) > 1, len({cell.delay_ms for cell in cells}) > 1]
    if len(cells) < 1 + sum(varied):
        return None
    known_commits = 0.0 if varied[1] else 1.0
    best: tuple[float, Model] | None = None
    for used in itertools.product((False, True), repeat=3):
        if not any(used) or (used[1] and not varied[0]) or (used[2] and not varied[1]):
            continue
        found = _solve(cells, used, known_commits)
        if found is not None and (best is None or found[0] < best[0]):
            best = found
    return None if best is None else best[1]


def _solve(cells: Sequence[Measured], used: tuple[bool, ...], known_commits: float) -> tuple[float, Model] | None:
    rows, wanted = [], []
    for cell in cells:
        cycle_ms = cell.outstanding / cell.rate * 1000
        row = (1.0, float(cell.outstanding), cell.delay_ms)
        rows.append([part / cycle_ms for part, use in zip(row, used, strict=True) if use])
        wanted.append((cycle_ms - known_commits * cell.delay_ms) / cycle_ms)
    solved = least_squares(rows, wanted)
    if solved is None or min(solved) < 0:
        return None
    found = iter(solved)
    fixed, cost, commits = (next(found) if use else 0.0 for use in used)
    squares = sum(
        (sum(part * value for part, value in zip(row, solved, strict=True)) - right) ** 2
        for row, right in zip(rows, wanted, strict=True)
    )
    return squares, Model(fixed, cost, commits + known_commits)


def least_squares(rows: Sequence[Sequence[float]], wanted: Sequence[float]) -> list[float] | None:
    """The solution of a small system of normal equations, None where it is singular."""
    size = len(rows[0])
    matrix = [
        [sum(row[i] * row[j] for row in rows) for j in range(size)]
        + [sum(row[i] * right for row, right in zip(rows, wanted, strict=True))]
        for i in range(size)
    ]
    for column in range(size):
        pivot = max(range(column, size), key=lambda place: abs(matrix[place][column]))
        if abs(matrix[pivot][column]) < _PIVOT_MIN:
            return None
        matrix[column], matrix[pivot] = matrix[pivot], matrix[column]
        for place in range(size):
            if place != column:
                factor = matrix[place][column] / matrix[column][column]
                matrix[place] = [a - factor * b for a, b in zip(matrix[place], matrix[column], strict=True)]
    return [matrix[place][size] / matrix[place][place] for place in range(size)]


def capacity(cells: Sequence[Measured]) -> Capacity | None:
    """Fit the model of a mode and find out how far it can be trusted; None where there are too few cells.

    Args:
        cells: the measured cells of one mode, each of another load.
    """
    usable = [cell for cell in cells if cell.rate > 0 and cell.outstanding > 0]
    model = fit(usable)
    if model is None or len(usable) < 1 + _CELLS_SPARE:
        return None
    held_out = []
    for place, cell in enumerate(usable):
        rest = fit([*usable[:place], *usable[place + 1 :]])
        if rest is not None:
            held_out.append(_error(rest, cell))
    longest = max(cell.delay_ms for cell in usable)
    shorter = [cell for cell in usable if cell.delay_ms < longest]
    before = fit(shorter) if len({cell.delay_ms for cell in shorter}) > 1 else None
    longer = [] if before is None else [_error(before, cell) for cell in usable if cell.delay_ms == longest]
    inside = _errors([_error(model, cell) for cell in usable])
    assert inside is not None
    return Capacity(model, len(usable), inside, _errors(held_out), _errors(longer))


def _error(model: Model, cell: Measured) -> float:
    return abs(model.rate(cell.outstanding, cell.delay_ms) / cell.rate - 1)


def _errors(found: Sequence[float]) -> Errors | None:
    return Errors(len(found), median(found), max(found)) if found else None


def commit_bound(connections: int, commit_us: float | None) -> float | None:
    """Requests a second that connections can reach when each waits for the commit of its only request.

    Args:
        connections: connections that are driven.
        commit_us: microseconds from submitted to durable.
    """
    return connections * 1e6 / commit_us if commit_us else None


def gain_bound(in_flight: int, *, ordinary: bool) -> int:
    """How many times faster pipelining can make a connection at most: all its requests share one commit.

    Args:
        in_flight: requests that the client keeps unanswered.
        ordinary: whether the client is one of Kafka's, which stops at five.
    """
    return min(in_flight, PRODUCER_IN_FLIGHT_MAX) if ordinary else in_flight
