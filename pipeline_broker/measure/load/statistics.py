"""Exact figures of a run from its client rows, as docs/reference/trace-format.md defines them."""

import itertools
import math
from collections.abc import Iterable, Sequence

import attrs

from pipeline_broker.traces.client_rows import ClientRow

SAMPLES_BEYOND_MIN = 10
"""A percentile needs this many samples above it."""
SAMPLES_BEYOND_IN_RUN_MIN = 2
"""The same for one run of several rounds. Fewer suffice, because the spread of the rounds shows the uncertainty."""


@attrs.frozen(slots=True)
class RunFigures:
    """The figures of one run, over its measured requests; `order_violations` counts all requests.

    Attributes:
        requests: answered requests.
        seconds: from the first request sent to the last answer.
        latencies_ns: sorted; from the intended time in an open loop, otherwise from sending.
        unanswered: requests without an answer; an open loop may stop waiting before the last one.
        due_s: seconds from the first intended time to the last one; 0 in a closed loop.
        growth: seconds by which latency grew per second of an open loop: the slope of latency over the intended time.
    """

    requests: int
    seconds: float
    latencies_ns: tuple[int, ...]
    errors: int
    order_violations: int
    unanswered: int = 0
    due_s: float = 0.0
    growth: float = 0.0

    @property
    def requests_per_s(self) -> float:
        return self.requests / self.seconds if self.seconds else 0.0

    @property
    def answered_share(self) -> float:
        """The pace of answers as a share of the pace of requests.

        Latency that grows by g seconds per second means that answers arrive at 1 / (1 + g) of the pace.
        """
        due = self.requests + self.unanswered
        return self.requests / due / (1 + max(0.0, self.growth)) if due else 0.0


def figures(rows: Sequence[ClientRow]) -> RunFigures:
    """Return the figures of one run. Order violations count in all rows, everything else in the measured ones."""
    measured = [row for row in rows if row.measured]
    answered = [row for row in measured if row.answered_ns is not None]
    due = [row for row in measured if row.intended_ns is not None]
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
        unanswered=len(measured) - len(answered),
        **_open_figures(due),
    )


def _open_figures(due: Sequence[ClientRow]) -> dict[str, float]:
    if not due:
        return {}
    moments_ns = [row.intended_ns or 0 for row in due]
    waits_ns = [(row.intended_ns or 0, row.answered_ns - (row.intended_ns or 0)) for row in due if row.answered_ns]
    return {
        "due_s": (max(moments_ns) - min(moments_ns)) / 1e9,
        "growth": _slope(waits_ns),
    }


def _slope(points: Sequence[tuple[int, int]]) -> float:
    if not points:
        return 0.0
    mean_x, mean_y = (sum(values) / len(points) for values in zip(*points, strict=True))
    spread = sum((x - mean_x) ** 2 for x, _ in points)
    return sum((x - mean_x) * (y - mean_y) for x, y in points) / spread if spread else 0.0


def order_violations(rows: Iterable[ClientRow]) -> int:
    """Return the number of answers that arrived after the answer to a later request, plus the number of skipped ids."""
    by_connection: dict[int, list[int]] = {}
    for row in sorted(rows, key=lambda row: (row.connection, row.sequence)):
        if row.correlation_id is not None and row.answered_ns is not None:
            by_connection.setdefault(row.connection, []).append(row.correlation_id)
    total = 0
    for ids in by_connection.values():
        total += sum(1 for before, after in itertools.pairwise(ids) if after <= before)
        total += max(0, max(ids) - min(ids) + 1 - len(ids))
    return total


def percentile_ns(ordered: Sequence[int], quantile: float, beyond: int = SAMPLES_BEYOND_MIN) -> float | None:
    """Return a quantile of sorted samples, interpolated linearly between its neighbours like Spark's `percentile`.

    Args:
        ordered: samples in ascending order.
        quantile: 0.99 for the 99th percentile.
        beyond: samples that must lie above it; with fewer, None is returned.
    """
    # Rounded to millionths, because 1 - 0.99 is not exactly 0.01 in binary.
    if len(ordered) * round((1 - quantile) * 1_000_000) < beyond * 1_000_000:
        return None
    place = quantile * (len(ordered) - 1)
    low, high = math.floor(place), math.ceil(place)
    return ordered[low] + (place - low) * (ordered[high] - ordered[low])


def percentile_ms(ordered: Sequence[int], quantile: float) -> float | None:
    value = percentile_ns(ordered, quantile)
    return None if value is None else value / 1e6
