"""Latency at equal offered load: the open loops, side by side.

Both sides receive the same requests at the same times, whether or not earlier ones are answered. Latency counts from
the due time of a request (no coordinated omission). The comparison is fair only while both sides keep the pace. The
queue of a slower side grows until the run ends, so its latency only shows the length of the run, and is not quoted.

A side kept the pace if, over its untraced runs, answers arrived at 98 % or more of the pace of the due times. Let the
latency grow by g seconds per second (the slope of latency over due time). Then answers arrive at 1 / (1 + g) of the
pace. Requests without an answer count as missing.

A client is late if it sent the median request more than 1 ms after its due time: it woke late, or its window of
unanswered requests was full. Latency from the due time then includes the client's delay, and latency from the time of
sending misses some of the broker's. The report quotes both, and a ratio decides only what both decide.
"""

from __future__ import annotations

from statistics import fmean, median
from typing import TYPE_CHECKING, Final

import attrs

from spark_analysis.cells import PERCENTILES, Load, Run, order
from spark_analysis.interval import Estimate, Ratio, geometric_interval
from spark_analysis.pairs import percentile, ratios

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

ANSWERED_SHARE_MIN: Final = 0.98
LATE_MS_MAX: Final = 1.0


@attrs.frozen
class PacedSide:
    """One side under one open-loop load.

    Attributes:
        answered_share: the pace of answers over that of requests, mean over runs.
        late_ms: delay of the median request when it was sent, median over runs; None if nothing was answered.
        latency_ms: percentiles over the rounds by name; those without enough samples are left out.
        sent_latency_ms: the same from the time of sending.
    """

    mode: str
    side: int
    runs: int
    requests: int
    answered_share: float
    late_ms: float | None
    latency_ms: dict[str, Estimate]
    sent_latency_ms: dict[str, Estimate] = attrs.field(factory=dict)

    @property
    def kept_pace(self) -> bool:
        """Return whether answers arrived at ANSWERED_SHARE_MIN of the pace or more. Otherwise no latency is quoted."""
        return self.answered_share >= ANSWERED_SHARE_MIN

    @property
    def is_late(self) -> bool:
        return self.late_ms is not None and self.late_ms > LATE_MS_MAX


@attrs.frozen
class EqualLoad:
    """One open-loop load.

    Attributes:
        sides: by side number.
        ratios: side 1 over side 0 from the due time, if both kept the pace. If a client was late, the interval also
            contains that of `sent_ratios`.
        sent_ratios: the same from the time of sending.
    """

    load: Load
    sides: tuple[PacedSide, ...]
    ratios: dict[str, Ratio]
    sent_ratios: dict[str, Ratio]

    @property
    def is_late(self) -> bool:
        return any(side.is_late for side in self.sides if side.side in (0, 1))

    def side(self, number: int) -> PacedSide | None:
        return next((side for side in self.sides if side.side == number), None)


def equal_loads(runs: Iterable[Run]) -> list[EqualLoad]:
    """Return all open-loop loads of an experiment in the order of the report, the replay last.

    Args:
        runs: the runs of an experiment; traced runs, the ablation and A/A are ignored.
    """
    counted = [run for run in runs if run.of_a_side and not run.traced and run.cell.load.open_loop]
    by_load: dict[Load, dict[int, list[Run]]] = {}
    for run in counted:
        by_load.setdefault(run.cell.load, {}).setdefault(run.side, []).append(run)
    sides = {
        load: tuple(_side(number, found) for number, found in sorted(by_side.items()))
        for load, by_side in sorted(by_load.items(), key=lambda item: order(item[0]))
    }
    # A ratio needs two latencies at the same pace; other brokers (sides above 1) do not matter for it.
    fair = {load for load, both in sides.items() if all(side.kept_pace for side in both if side.side in (0, 1))}
    usable = [run for run in counted if run.cell.load in fair]
    kinds = [
        {name: ratios(usable, 0, percentile(name, is_from_sent=is_from_sent)) for name in PERCENTILES}
        for is_from_sent in (False, True)
    ]
    return [
        _compared(load, both, *({name: it[load] for name, it in over.items() if load in it} for over in kinds))
        for load, both in sides.items()
    ]


def _compared(
    load: Load, sides: tuple[PacedSide, ...], from_due: dict[str, Ratio], from_sent: dict[str, Ratio]
) -> EqualLoad:
    found = EqualLoad(load, sides, from_due, from_sent)
    if not found.is_late:
        return found
    spanning = {name: ratio.spanning(from_sent[name]) for name, ratio in from_due.items() if name in from_sent}
    return attrs.evolve(found, ratios=spanning)


def _estimates(runs: Sequence[Run], *, is_from_sent: bool) -> dict[str, Estimate]:
    known = [run.latency for run in runs if run.latency is not None]
    found = {}
    for name in PERCENTILES:
        values = [value for each in known if (value := each.milliseconds(name, is_from_sent=is_from_sent))]
        if (estimate := geometric_interval(values)) is not None:
            found[name] = estimate
    return found


def _side(number: int, runs: Sequence[Run]) -> PacedSide:
    lateness = [run.latency.late_us for run in runs if run.latency is not None and run.latency.late_us is not None]
    return PacedSide(
        mode=runs[0].cell.mode,
        side=number,
        runs=len(runs),
        requests=sum(run.requests for run in runs),
        answered_share=fmean(_answered_share(run) for run in runs),
        late_ms=median(lateness) / 1000 if lateness else None,
        latency_ms=_estimates(runs, is_from_sent=False),
        sent_latency_ms=_estimates(runs, is_from_sent=True),
    )


def _answered_share(run: Run) -> float:
    if run.latency is None or not run.requests:
        return 0.0
    # A shrinking latency must not make up for unanswered requests, so growth counts only if positive.
    return run.latency.samples / run.requests / (1 + max(0.0, run.latency.growth or 0.0))
