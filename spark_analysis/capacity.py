"""Bounds from arithmetic, and a capacity model that is fitted to the measured cells.

The bound of a connection without pipelining is 1 / commit time. The gain from pipelining is bounded by the requests
that the client keeps in flight, 5 for an idempotent producer of Kafka. Between the two lies the model:

    cycle time = fixed + cost x K + commits x D            rate = K / cycle time

K is the number of requests that one cycle can include. If the mode mutes a connection until its request is committed, K
is the number of connections, but at most that of concurrent commits. Otherwise K is the number of requests that clients
keep in flight. D is the injected commit delay.

Assumptions: a closed loop that saturates the broker; a slower disk is the same disk plus a constant delay per commit;
bandwidth is not a limit; the client has processor time left at the extrapolated end.

The errors of the model, relative to the measured rate, are those on cells that it was not fitted to. The model of all
other cells predicts each cell (held out). The model of the shorter delays predicts the cells of the longest one.
"""

from __future__ import annotations

import itertools
from statistics import median
from typing import TYPE_CHECKING, Final

import attrs

if TYPE_CHECKING:
    from collections.abc import Sequence

PRODUCER_IN_FLIGHT_MAX: Final = 5
"""Limit of the unanswered requests per connection of Kafka's idempotent producer."""
COMMITS_AT_ONCE: Final = 8
"""Concurrent commits of a mode with one commit per request: the default of `num.io.threads`."""
DELAYS_MS: Final = (0.3, 2.0, 10.0, 30.0, 100.0)
"""Extrapolated commit delays: a fast disk, a good one, a network disk, a slow disk, an object store."""
_CELLS_SPARE: Final = 2  # with as many parameters as cells, every fit would be perfect and meaningless
_PIVOT_MIN: Final = 1e-12


@attrs.frozen
class Measured:
    outstanding: int
    delay_ms: float
    rate: float


@attrs.frozen
class Model:
    """A fitted model of one mode; the docstring of the module has its formula.

    Attributes:
        fixed_ms: the fixed part of a cycle's time.
        cost_ms: the time of each request in a cycle.
        commits: the number of commit delays in a cycle.
    """

    fixed_ms: float
    cost_ms: float
    commits: float

    def rate(self, outstanding: int, delay_ms: float) -> float:
        return outstanding / max(1e-9, self.cycle_ms(outstanding, delay_ms)) * 1000

    def cycle_ms(self, outstanding: int, delay_ms: float) -> float:
        return self.fixed_ms + self.cost_ms * outstanding + self.commits * delay_ms


@attrs.frozen
class Errors:
    """Errors of the predictions for some cells, as shares of the measured rates.

    Attributes:
        cells: the number of predicted cells.
        middle, most: the median and the largest error.
    """

    cells: int
    middle: float
    most: float


@attrs.frozen
class Capacity:
    model: Model
    cells: int
    inside: Errors
    held_out: Errors | None
    longer_delay: Errors | None


def fit(cells: Sequence[Measured]) -> Model | None:
    """Return the model with the least squared relative error of the cycle time, without negative parameters.

    If all cells have the same delay, `commits` is fixed at 1. Returns None if the cells do not determine the
    parameters.
    """
    varied = [len({cell.outstanding for cell in cells}) > 1, len({cell.delay_ms for cell in cells}) > 1]
    if len(cells) < 1 + sum(varied):
        return None
    known_commits = 0.0 if varied[1] else 1.0
    best: tuple[float, Model] | None = None
    # Non-negative least squares: with three parameters, trying each subset of them is exact and needs no library.
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
        # Dividing by the cycle time makes the errors relative; otherwise the slowest cells would decide the fit.
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
    """Solve the normal equations of a small system; return None if they are singular."""
    size = len(rows[0])
    matrix = [
        [sum(row[i] * row[j] for row in rows) for j in range(size)]
        + [sum(row[i] * right for row, right in zip(rows, wanted, strict=True))]
        for i in range(size)
    ]
    for column in range(size):
        pivot = max(range(column, size), key=lambda row: abs(matrix[row][column]))
        if abs(matrix[pivot][column]) < _PIVOT_MIN:
            return None
        matrix[column], matrix[pivot] = matrix[pivot], matrix[column]
        for place in range(size):
            if place != column:
                factor = matrix[place][column] / matrix[column][column]
                matrix[place] = [a - factor * b for a, b in zip(matrix[place], matrix[column], strict=True)]
    return [matrix[place][size] / matrix[place][place] for place in range(size)]


def capacity(cells: Sequence[Measured]) -> Capacity | None:
    """Fit the model of a mode and measure its errors; return None if there are too few cells.

    Args:
        cells: the measured cells of one mode, one per load.
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
    """Return the largest rate, in requests per second, if each connection waits for the commit of its only request.

    Args:
        connections: the number of busy connections.
        commit_us: the time of a commit in microseconds; None if unknown, which makes the result None.
    """
    return connections * 1e6 / commit_us if commit_us else None


def gain_bound(in_flight: int, *, ordinary: bool) -> int:
    """Return the largest possible gain from pipelining: all requests in flight of a connection share one commit.

    Args:
        in_flight: unanswered requests that the client keeps.
        ordinary: the client is one of Kafka's, which keep at most five.
    """
    return min(in_flight, PRODUCER_IN_FLIGHT_MAX) if ordinary else in_flight
