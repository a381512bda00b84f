"""Confidence intervals of ratios, in plain Python.

Rules: rounds are paired and interleaved, so what drifts over an experiment hits both sides; the ratio of each round
is one sample, its logarithm is averaged (a ratio and its inverse weigh the same), and Student's t gives the interval.
One round has no interval: None, never a guess.
"""

from __future__ import annotations

import math
from statistics import fmean, stdev
from typing import TYPE_CHECKING, Final

import attrs

if TYPE_CHECKING:
    from collections.abc import Sequence

CONFIDENCE: Final = 0.95
_BISECTIONS: Final = 80


@attrs.frozen
class Ratio:
    """A ratio of rates with its 95% interval; no interval from fewer than two rounds."""

    value: float
    low: float | None
    high: float | None
    rounds: int

    @property
    def above(self) -> bool:
        """Whether the whole interval lies above 1."""
        return self.low is not None and self.low > 1

    @property
    def below(self) -> bool:
        """Whether the whole interval lies below 1."""
        return self.high is not None and self.high < 1


def ratio_interval(ratios: Sequence[float]) -> Ratio | None:
    """The geometric mean of paired ratios and its interval; None without a pair."""
    if not ratios:
        return None
    logs = [math.log(ratio) for ratio in ratios]
    middle = fmean(logs)
    if len(logs) == 1:
        return Ratio(math.exp(middle), None, None, 1)
    half = t_quantile((1 + CONFIDENCE) / 2, len(logs) - 1) * stdev(logs) / math.sqrt(len(logs))
    return Ratio(math.exp(middle), math.exp(middle - half), math.exp(middle + half), len(logs))


def t_quantile(probability: float, freedom: int) -> float:
    """The value that Student's t with so many degrees of freedom stays below with this probability (0.5 to 1)."""
    low, high = 0.0, 1.0
    while t_probability(high, freedom) < probability:
        high *= 2
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        low, high = (middle, high) if t_probability(middle, freedom) < probability else (low, middle)
    return high


def t_probability(value: float, freedom: int) -> float:
    """P(t <= value) for a whole number of degrees of freedom: a finite sum (Abramowitz and Stegun 26.7.3, 26.7.4)."""
    angle = math.atan2(value, math.sqrt(freedom))
    sine, cosine = math.sin(angle), math.cos(angle)
    odd = freedom % 2
    term = cosine if odd else 1.0
    total = 0.0
    for power in range(1 + odd, freedom, 2):
        total += term
        term *= cosine * cosine * power / (power + 1)
    both_sides = 2 / math.pi * (angle + sine * total) if odd else sine * total
    return 0.5 + both_sides / 2
