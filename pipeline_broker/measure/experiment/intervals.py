"""Confidence intervals of ratios: 95 % t-intervals of the mean logarithm over paired rounds."""

import math
import statistics
from collections.abc import Sequence

import attrs

# Two-sided 95 % quantiles of Student's t for 1 to 30 degrees of freedom.
_QUANTILES = (
    12.7062, 4.3027, 3.1824, 2.7764, 2.5706, 2.4469, 2.3646, 2.3060, 2.2622, 2.2281,
    2.2010, 2.1788, 2.1604, 2.1448, 2.1314, 2.1199, 2.1098, 2.1009, 2.0930, 2.0860,
    2.0796, 2.0739, 2.0687, 2.0639, 2.0595, 2.0555, 2.0518, 2.0484, 2.0452, 2.0423,
)  # fmt: skip
_NORMAL = 1.959964
INTERVAL_ROUNDS_MIN = 3


@attrs.frozen(slots=True)
class Speedup:
    """Side B over side A, in rates or in times; the bounds are None for fewer than three rounds."""

    ratio: float
    low: float | None
    high: float | None
    rounds: int


def t_quantile(freedom: int) -> float:
    if freedom <= len(_QUANTILES):
        return _QUANTILES[freedom - 1]
    # The first terms of the expansion around the normal quantile (Abramowitz and Stegun 26.7.5).
    first = (_NORMAL**3 + _NORMAL) / 4
    second = (5 * _NORMAL**5 + 16 * _NORMAL**3 + 3 * _NORMAL) / 96
    return _NORMAL + first / freedom + second / freedom**2


def speedup(pairs: Sequence[tuple[float, float]]) -> Speedup | None:
    """Return B over A for the (A, B) values of paired rounds.

    Returns:
        None without rounds, or if a value is not positive.
    """
    if not pairs or any(rate <= 0 for pair in pairs for rate in pair):
        return None
    logs = [math.log(b / a) for a, b in pairs]
    mean = statistics.fmean(logs)
    if len(logs) < INTERVAL_ROUNDS_MIN:
        return Speedup(math.exp(mean), None, None, len(logs))
    half = t_quantile(len(logs) - 1) * statistics.stdev(logs) / math.sqrt(len(logs))
    return Speedup(math.exp(mean), math.exp(mean - half), math.exp(mean + half), len(logs))
