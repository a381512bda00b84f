"""The effect of each factor of an experiment that ran every combination of their levels.

The figure of a level is a mean over all loads that have it, each with the same weight. Two levels are compared over
loads that otherwise agree. Both are fair only if no combination is missing, so other experiments have no effects. One
round gives one sample: the mean of the logarithms over the loads. Only the native client's loads are combined, because
other clients have their own windows of requests in flight.
"""

from __future__ import annotations

import math
from statistics import fmean
from typing import TYPE_CHECKING, Final

import attrs

from spark_analysis.cells import Run, rate
from spark_analysis.interval import Ratio, ratio_interval
from spark_analysis.tables import RAW_CLIENT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

FACTORS_MIN: Final = 2
"""A single factor has its own curve in the report."""
_DEFAULT: Final = "default"
_RESOLVED: Final = {
    "record_size": "record_bytes",
    "batch": "batch_records",
    "transaction": "transaction_requests",
    "compression": "compression",
    "keys": "keys",
    "idempotent": "idempotent",
    "read_share": "read_share",
    "brokers": "brokers",
}
"""Keys of a run's `factors` by factor. A run's variant names only levels that differ from the default."""

_ALWAYS: Final = ("connections", "in flight", "commit delay")
"""The factors that every load has, in the order of the report; others follow by name."""

Point = tuple[str, ...]
"""The levels of a load, one per varied factor."""
Rates = dict[tuple[Point, int, int], float]
"""Requests per second by point, round and side."""


@attrs.frozen
class Effect:
    """The effect of one level of a factor.

    Attributes:
        factor, level: their names.
        loads: the number of loads with this level.
        speedup: side 1 over side 0, over these loads.
        over_first: the rate of side 0 and of side 1 over the rate at the factor's first level; None for that level.
    """

    factor: str
    level: str
    loads: int
    speedup: Ratio
    over_first: tuple[Ratio, Ratio] | None


def factor_effects(runs: Iterable[Run]) -> list[Effect]:
    """Return the effects of all levels, starting with the factor that changes the speed-up most.

    Args:
        runs: the runs of an experiment; those that do not count in speed-ups are ignored.

    Returns:
        an empty list if a combination of levels is missing, if fewer than two factors vary, or if no round has all
        combinations.
    """
    compared = [run for run in runs if run.compared and run.side in (0, 1) and run.cell.load.client == RAW_CLIENT]
    run_levels = [_levels(run) for run in compared]
    names = sorted({name for levels in run_levels for name in levels}, key=_name_place)
    levels = {name: sorted({each.get(name, _DEFAULT) for each in run_levels}, key=_place) for name in names}
    varied = [name for name in names if len(levels[name]) > 1]
    points = [tuple(each.get(name, _DEFAULT) for name in varied) for each in run_levels]
    # The number of points equals the product of the levels only if no combination is missing.
    if len(varied) < FACTORS_MIN or len(set(points)) != math.prod(len(levels[name]) for name in varied):
        return []
    rates = _rates(zip(points, compared, strict=True))
    rounds = _whole_rounds(rates, set(points))
    if not rounds:
        return []
    by_factor = [
        [_effect(place, name, level, levels[name][0], rates, rounds) for level in levels[name]]
        for place, name in enumerate(varied)
    ]
    by_factor.sort(key=_spread, reverse=True)
    return [effect for effects in by_factor for effect in effects]


def _levels(run: Run) -> dict[str, str]:
    load = run.cell.load
    delay = f"{load.commit_delay_ms:g} ms"
    levels = dict(zip(_ALWAYS, (str(load.connections), str(load.in_flight), delay), strict=True))
    levels |= {word: str(run.factors[name]).lower() for word, name in _RESOLVED.items() if name in run.factors}
    return levels | dict(part.split("=", 1) for part in load.variant.split() if "=" in part)


def _name_place(name: str) -> tuple[int, str]:
    return _ALWAYS.index(name) if name in _ALWAYS else len(_ALWAYS), name


def _place(level: str) -> tuple[bool, float, str]:
    """Return the sort key of a level: the default, then numbers by size, then words."""
    try:
        return level != _DEFAULT, float(level.split(" ", maxsplit=1)[0]), level
    except ValueError:
        return level != _DEFAULT, math.inf, level


def _rates(placed: Iterable[tuple[Point, Run]]) -> Rates:
    found: dict[tuple[Point, int, int], list[Run]] = {}
    for point, run in placed:
        found.setdefault((point, run.round, run.side), []).append(run)
    rates = {key: rate(runs) for key, runs in found.items()}
    return {key: value for key, value in rates.items() if value}


def _whole_rounds(rates: Rates, points: set[Point]) -> list[int]:
    rounds = sorted({place for _, place, _ in rates})
    # An interrupted round would give the loads that it has more weight than the others.
    return [place for place in rounds if all((point, place, side) in rates for point in points for side in (0, 1))]


def _effect(place: int, name: str, level: str, first: str, rates: Rates, rounds: Sequence[int]) -> Effect:
    points = sorted({point for point, _, _ in rates if point[place] == level})

    def at_first(point: Point) -> Point:
        return (*point[:place], first, *point[place + 1 :])

    def mean(log_ratio: Callable[[Point, int], float]) -> Ratio:
        samples = [math.exp(fmean(log_ratio(point, number) for point in points)) for number in rounds]
        found = ratio_interval(samples)
        assert found is not None, "there are rounds"
        return found

    def over_first(side: int) -> Ratio:
        return mean(lambda point, place: math.log(rates[point, place, side] / rates[at_first(point), place, side]))

    return Effect(
        factor=name,
        level=level,
        loads=len(points),
        speedup=mean(lambda point, place: math.log(rates[point, place, 1] / rates[point, place, 0])),
        over_first=None if level == first else (over_first(0), over_first(1)),
    )


def _spread(effects: Sequence[Effect]) -> float:
    values = [effect.speedup.value for effect in effects]
    return max(values) / min(values)
