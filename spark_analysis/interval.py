"""Confidence intervals of what rounds differ in, in plain Python.

Rules: rounds are paired and interleaved, so what drifts over an experiment hits both sides; the ratio of each round
is one sample, its logarithm is averaged (a ratio and its inverse weigh the same), and Student's t gives the interval.
Fewer than three rounds have no interval: how much two rounds differ is mostly luck. Whether a ratio differs from 1 is
asked of many loads at once, so a ratio also carries the chance of its distance from 1 under equal sides, which
`multiplicity` corrects for a family.
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
_LOG_MAX: Final = 700.0  # about the logarithm of the largest float: an end beyond it says nothing more


@attrs.frozen
class Estimate:
    """A value with its 95% interval over rounds; no interval from fewer than three rounds."""

    value: float
    low: float | None
    high: float | None
    rounds: int


@attrs.frozen
class Ratio(Estimate):
    """A ratio of the two sides.

    Attributes:
        chance: how often equal sides would give a ratio at least as far from 1; None from fewer than three rounds.
        corrected: the same for its family (`multiplicity.corrected`); None where it was not corrected.
    """

    chance: float | None = None
    corrected: float | None = None

    @property
    def above(self) -> bool:
        """Whether the ratio is called above 1: its interval lies there, also after the correction for its family."""
        return self.low is not None and self.low > 1 and self._called

    @property
    def below(self) -> bool:
        """Whether the ratio is called below 1."""
        return self.high is not None and self.high < 1 and self._called

    @property
    def excludes_one(self) -> bool:
        """Whether its own interval lies on one side of 1, before any correction."""
        return self.low is not None and self.high is not None and not self.low <= 1 <= self.high

    @property
    def width(self) -> float | None:
        """How many times the upper end of the interval is the lower one."""
        return None if self.low is None or self.high is None else self.high / self.low

    @property
    def inverse(self) -> Ratio:
        """The other side over this one."""
        low, high = (None if end is None else 1 / end for end in (self.high, self.low))
        return attrs.evolve(self, value=1 / self.value, low=low, high=high)

    def spanning(self, other: Ratio) -> Ratio:
        """Return this ratio with an interval that has both intervals: it decides what both of them decide."""
        lows, highs = (self.low, other.low), (self.high, other.high)
        if None in lows or None in highs:
            return attrs.evolve(self, low=None, high=None)
        chances = [each for each in (self.corrected, other.corrected) if each is not None]
        low, high = (choose(end for end in ends if end is not None) for choose, ends in ((min, lows), (max, highs)))
        return attrs.evolve(self, low=low, high=high, corrected=max(chances, default=None))

    @property
    def _called(self) -> bool:
        return self.corrected is None or self.corrected <= 1 - CONFIDENCE


def ratio_interval(ratios: Sequence[float]) -> Ratio | None:
    """The geometric mean of paired ratios and its interval; None without a pair."""
    if not ratios:
        return None
    logs = [math.log(ratio) for ratio in ratios]
    found = _interval(logs)
    if found.low is None or found.high is None:
        return Ratio(math.exp(found.value), None, None, found.rounds)
    low, high = (math.exp(max(-_LOG_MAX, min(end, _LOG_MAX))) for end in (found.low, found.high))
    return Ratio(math.exp(found.value), low, high, found.rounds, _chance(logs))


def mean_interval(values: Sequence[float]) -> Estimate | None:
    """The arithmetic mean of rounds and its interval, for what may be 0 or negative; None without a round."""
    return _interval(values) if values else None


def geometric_interval(values: Sequence[float]) -> Estimate | None:
    """The geometric mean of rounds and its interval, for what is above 0; None without a round."""
    found = ratio_interval(values)
    return None if found is None else Estimate(found.value, found.low, found.high, found.rounds)


def _interval(values: Sequence[float]) -> Estimate:
    middle = fmean(values)
    if len(values) < INTERVAL_ROUNDS_MIN:
        return Estimate(middle, None, None, len(values))
    half = t_quantile((1 + CONFIDENCE) / 2, len(values) - 1) * stdev(values) / math.sqrt(len(values))
    return Estimate(middle, middle - half, middle + half, len(values))


def _chance(logs: Sequence[float]) -> float:
    """The two-sided p-value of Student's t-test for a mean of 0."""
    middle, error = fmean(logs), stdev(logs) / math.sqrt(len(logs))
    if error == 0:
        return 1.0 if middle == 0 else 0.0
    return 2 * (1 - t_probability(abs(middle) / error, len(logs) - 1))


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
