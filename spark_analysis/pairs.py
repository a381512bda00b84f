"""Paired ratios of two sides for any quantity of a run, load by load.

One round gives one sample, the ratio of the two sides in it. A round in which a side lacks the quantity gives none. The
ratios of one quantity over all loads of one experiment are a family, and are returned corrected (`multiplicity`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_analysis.cells import Load, Run, order, rate
from spark_analysis.interval import Ratio, geometric_interval, ratio_interval
from spark_analysis.multiplicity import corrected

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    Quantity = Callable[[Sequence[Run]], float | None]

Round = tuple[list[Run], list[Run]]
"""The runs of both sides in one round, usually one each."""


def percentile(name: str, *, is_from_sent: bool = False) -> Quantity:
    """Return a function that gives a percentile of latency in milliseconds (`cells.PERCENTILES`).

    For several runs of one side in a round, the function returns the geometric mean; None if one of them has too few
    samples.
    """

    def found(runs: Sequence[Run]) -> float | None:
        values = [
            None if run.latency is None else run.latency.milliseconds(name, is_from_sent=is_from_sent) for run in runs
        ]
        known = [value for value in values if value]
        middle = geometric_interval(known) if len(known) == len(values) else None
        return None if middle is None else middle.value

    return found


def rounds_of(zeros: Iterable[Run], ones: Iterable[Run]) -> dict[int, Round]:
    found: dict[int, Round] = {}
    for side, runs in enumerate((zeros, ones)):
        for run in runs:
            found.setdefault(run.round, ([], []))[side].append(run)
    return found


def paired(rounds: Iterable[Round], quantity: Quantity = rate) -> Ratio | None:
    """Return the second side over the first one, over the rounds in which both have the quantity; None without any."""
    values = [(quantity(zeros), quantity(ones)) for zeros, ones in rounds if zeros and ones]
    return ratio_interval([one / zero for zero, one in values if zero and one])


def ratios(runs: Iterable[Run], base: int, quantity: Quantity = rate, *, side: int = 1) -> dict[Load, Ratio]:
    """Return one side over another under each load, corrected for the families of the loads.

    Args:
        runs: the runs that count; runs of other sides are ignored.
        base: the side in the denominator.
        side: the side in the numerator.

    Returns:
        the ratios by load, without loads that have no ratio in any round.
    """
    by_load: dict[Load, tuple[list[Run], list[Run]]] = {}
    for run in runs:
        if run.side in (base, side):
            by_load.setdefault(run.cell.load, ([], []))[0 if run.side == base else 1].append(run)
    found = {load: paired(rounds_of(*by_load[load]).values(), quantity) for load in sorted(by_load, key=order)}
    families: dict[object, dict[Load, Ratio]] = {}
    # A family is the loads of one experiment: claims about ordinary clients must not depend on the size of the grid.
    for load, ratio in found.items():
        if ratio is not None:
            run = next(run for side in by_load[load] for run in side)
            families.setdefault(run.settings.get("experiment"), {})[load] = ratio
    corrected_ratios = {load: ratio for family in families.values() for load, ratio in corrected(family).items()}
    return {load: corrected_ratios[load] for load in found if load in corrected_ratios}
