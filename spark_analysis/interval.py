"""Confidence intervals over rounds, and the ratios that carry them.

Rounds are paired and interleaved, so drift during an experiment affects both sides. The ratio of each round is one
sample. Its logarithm is averaged, so that a ratio and its inverse weigh the same, and Student's t gives the interval.
Fewer than three rounds have no interval: the difference of two rounds is mostly luck.

An experiment tests many loads at once, so a ratio also carries the p-value of its distance from 1. `multiplicity`
corrects it for a family of loads.
"""

from __future__ import annotations

import math
from statistics import fmean, stdev
from typing import TYPE_CHECKING, Final

import attrs

if TYPE_CHECKING:
    from collections.abc import Sequence

CONFIDENCE: Final = 0.95
INTERVAL_ROUNDS_MIN: Final = 3
_BISECTIONS: Final = 80
_LOG_MAX: Final = 700.0  # close to the logarithm of the largest float, where exp would overflow


@attrs.frozen
class Estimate:
    """A value with its 95% interval over rounds. From fewer than three rounds, `low` and `high` are None."""

    value: float
    low: float | None
    high: float | None
    rounds: int


@attrs.frozen
class Ratio(Estimate):
    """A ratio of the two sides.

    Attributes:
        chance: the p-value: how often equal sides would give a ratio at least as far from 1; None from fewer than three
            rounds.
        corrected: the p-value after the correction for its family (`multiplicity.corrected`); None if not corrected.
    """

    chance: float | None = None
    corrected: float | None = None

    @property
    def above(self) -> bool:
        """Return whether the ratio counts as above 1: its interval excludes 1, also after the correction."""
        return self.low is not None and self.low > 1 and self._called

    @property
    def below(self) -> bool:
        return self.high is not None and self.high < 1 and self._called

    @property
    def excludes_one(self) -> bool:
        """Return whether its own interval excludes 1, before any correction."""
        return self.low is not None and self.high is not None and not self.low <= 1 <= self.high

    @property
    def width(self) -> float | None:
        return None if self.low is None or self.high is None else self.high / self.low

    @property
    def inverse(self) -> Ratio:
        low, high = (None if end is None else 1 / end for end in (self.high, self.low))
        return attrs.evolve(self, value=1 / self.value, low=low, high=high)

    def spanning(self, other: Ratio) -> Ratio:
        """Return this ratio with an interval that contains both intervals, so that it decides only what both decide.

        If one of them has no interval, the result has none.
        """
        lows, highs = (self.low, other.low), (self.high, other.high)
        if None in lows or None in highs:
            return attrs.evolve(self, low=None, high=None)
        chances = [each for each in (self.corrected, other.corrected) if each is not None]
        low, high = (choose(end for end in ends if end is not None) for choose, ends in ((min, lows), (max, highs)))
        # The larger p-value: a claim must survive the correction in both ways of counting.
        return attrs.evolve(self, low=low, high=high, corrected=max(chances, default=None))

    @property
    def _called(self) -> bool:
        return self.corrected is None or self.corrected <= 1 - CONFIDENCE


def ratio_interval(ratios: Sequence[float]) -> Ratio | None:
    """Return the geometric mean of paired ratios and its interval; None without a ratio."""
    if not ratios:
        return None
    logs = [math.log(ratio) for ratio in ratios]
    found = _interval(logs)
    if found.low is None or found.high is None:
        return Ratio(math.exp(found.value), None, None, found.rounds)
    low, high = (math.exp(max(-_LOG_MAX, min(end, _LOG_MAX))) for end in (found.low, found.high))
    return Ratio(math.exp(found.value), low, high, found.rounds, _chance(logs))


def mean_interval(values: Sequence[float]) -> Estimate | None:
    """Return the arithmetic mean of rounds and its interval, also for values of 0 or below; None without a value."""
    return _interval(values) if values else None


def geometric_interval(values: Sequence[float]) -> Estimate | None:
    """Return the geometric mean of rounds and its interval, for values above 0; None without a value."""
    found = ratio_interval(values)
    return None if found is None else Estimate(found.value, found.low, found.high, found.rounds)


def _interval(values: Sequence[float]) -> Estimate:
    middle = fmean(values)
    if len(values) < INTERVAL_ROUNDS_MIN:
        return Estimate(middle, None, None, len(values))
    half = t_quantile((1 + CONFIDENCE) / 2, len(values) - 1) * stdev(values) / math.sqrt(len(values))
    return Estimate(middle, middle - half, middle + half, len(values))


def _chance(logs: Sequence[float]) -> float:
    middle, error = fmean(logs), stdev(logs) / math.sqrt(len(logs))
    if error == 0:
        return 1.0 if middle == 0 else 0.0
    return 2 * (1 - t_probability(abs(middle) / error, len(logs) - 1))


def t_quantile(probability: float, freedom: int) -> float:
    low, high = 0.0, 1.0
    # Bisection needs no library and is exact enough: the interval halves _BISECTIONS times.
    while t_probability(high, freedom) < probability:
        high *= 2
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        low, high = (middle, high) if t_probability(middle, freedom) < probability else (low, middle)
    return high


def t_probability(value: float, freedom: int) -> float:
    """Return P(t <= value) for a whole number of degrees of freedom.

    The sum is finite and exact: Abramowitz and Stegun 26.7.3 and 26.7.4.
    """
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
