"""Figures over client rows, by the definitions of docs/trace-format.md.

Rules of this file: exact, over all measured rows; a percentile is the value that Spark's `percentile` gives (linear
between the two neighbours) and is None when fewer than ten samples lie beyond it.
"""

import itertools
import math
from collections.abc import Iterable, Sequence

import attrs

from pipeline_broker.traces.client_rows import ClientRow

SAMPLES_BEYOND_MIN = 10


@attrs.frozen(slots=True)
class RunFigures:
    """One run: its measured requests, the seconds they took, their latencies, and what went wrong.

    Attributes:
        requests: that were answered.
        seconds: from the first one sent to the last one answered.
        due_s: of an open loop, from the first moment to the last one; 0 in a closed loop.
        unanswered: an open loop may leave before the last answer.
    """

    requests: int
    seconds: float
    latencies_ns: tuple[int, ...]
    errors: int
    order_violations: int
    due_s: float = 0.0
    unanswered: int = 0

    @property
    def requests_per_s(self) -> float:
        """Answered requests over the seconds that they took."""
        return self.requests / self.seconds if self.seconds else 0.0


def figures(rows: Sequence[ClientRow]) -> RunFigures:
    """The figures of one run; all rows count for the order, measured ones for everything else."""
    measured = [row for row in rows if row.measured]
    answered = [row for row in measured if row.answered_ns is not None]
    due_ns = [row.intended_ns for row in measured if row.intended_ns is not None]
    seconds = 0.0
    if answered:
        first = min(row.sent_ns for row in measured)
        seconds = (max(row.answered_ns or 0 for row in answered) - first) / 1e9
    latencies = (
        (row.answered_ns or 0) - (row.sent_ns if row.intended_ns is None else row.intended_ns) for row in answered
    )
    return RunFigures(
        requests=len(answered),
        seconds=seconds,
        latencies_ns=tuple(sorted(latencies)),
        errors=sum(1 for row in measured if row.error),
        order_violations=order_violations(rows),
        due_s=(max(due_ns) - min(due_ns)) / 1e9 if due_ns else 0.0,
        unanswered=len(measured) - len(answered),
    )


def order_violations(rows: Iterable[ClientRow]) -> int:
    """Answers that came back after that of a later request, and ids that never came between those that did."""
    by_connection: dict[int, list[int]] = {}
    for row in sorted(rows, key=lambda row: (row.connection, row.sequence)):
        if row.correlation_id is not None and row.answered_ns is not None:
            by_connection.setdefault(row.connection, []).append(row.correlation_id)
    total = 0
    for ids in by_connection.values():
        total += sum(1 for before, after in itertools.pairwise(ids) if after <= before)
        total += max(0, max(ids) - min(ids) + 1 - len(ids))
    return total


def percentile_ns(ordered: Sequence[int], quantile: float) -> float | None:
    """The quantile of sorted samples; None when too few lie beyond it."""
    # Rounded to millionths, because 1 - 0.99 is a little less than 0.01 in binary.
    if len(ordered) * round((1 - quantile) * 1_000_000) < SAMPLES_BEYOND_MIN * 1_000_000:
        return None
    place = quantile * (len(ordered) - 1)
    low, high = math.floor(place), math.ceil(place)
    return ordered[low] + (place - low) * (ordered[high] - ordered[low])


def percentile_ms(ordered: Sequence[int], quantile: float) -> float | None:
    """The quantile in milliseconds."""
    value = percentile_ns(ordered, quantile)
    return None if value is None else value / 1e6
