"""Quantiles of about the last five minutes.

Kafka's histograms sample 1028 values with a probability that grows by `exp(0.015 * seconds)`. This histogram gives
every value that weight instead: the same quantiles without the noise of a sample. A batch of equal values costs one
addition, and most rounded times are equal.
"""

import math
from collections.abc import Mapping, Sequence

__all__ = ["DecayingHistogram"]

DECAY_PER_SECOND = 0.015
"""The alpha of Kafka's (Yammer's) histograms."""
RESCALE_SECONDS = 3600.0  # weights grow by e^54 in this time, far below the largest float
WEIGHT_MIN = 1e-9  # a value with a smaller weight, relative to a new one, is forgotten
ROUNDING = 1.0 - 1e-9  # without it, a rounding error in a sum of weights would select the next value
# Values below 2^10 are exact, larger ones have an error of at most 0.2 %. This bounds the number of different values.
EXACT_BITS = 10


def _leading_bits(value: int) -> int:
    surplus = value.bit_length() - EXACT_BITS
    return value if surplus <= 0 else (value >> surplus) << surplus


class DecayingHistogram:
    """A histogram of whole numbers, at least 0, in which old values lose weight; also their exact count and sum.

    Attributes:
        total: the sum of all values, in the unit and precision of `add`.
    """

    __slots__ = ("_count", "_landmark_seconds", "_weights", "total")

    def __init__(self) -> None:
        self._count = 0.0
        self.total = 0.0
        self._weights: dict[int, float] = {}
        self._landmark_seconds = 0.0

    @property
    def count(self) -> int:
        """The number of values ever added, each multiplied by its `stands_for`."""
        return round(self._count)

    def add(self, values: Mapping[int, int], total: float, at_seconds: float, stands_for: float = 1.0) -> None:
        """Add values of about the same time.

        Args:
            values: the number of occurrences by value.
            total: the sum of the values; it may be more precise than `values`.
            at_seconds: the time of the values.
            stands_for: the number of real values that each value represents; more than 1 for a sample.
        """
        if at_seconds - self._landmark_seconds > RESCALE_SECONDS:
            self._rescale(at_seconds)
        weight = stands_for * math.exp(DECAY_PER_SECOND * (at_seconds - self._landmark_seconds))
        weights = self._weights
        for value, count in values.items():
            rounded = _leading_bits(value)
            weights[rounded] = weights.get(rounded, 0.0) + weight * count
            self._count += stands_for * count
        self.total += stands_for * total

    def _rescale(self, at_seconds: float) -> None:
        factor = math.exp(-DECAY_PER_SECOND * (at_seconds - self._landmark_seconds))
        scaled = {value: weight * factor for value, weight in self._weights.items()}
        self._weights = {value: weight for value, weight in scaled.items() if weight > WEIGHT_MIN}
        self._landmark_seconds = at_seconds

    def quantiles(self, shares: Sequence[float]) -> list[int] | None:
        """Return for each share the least value with at least this share of the weight at or below it.

        Args:
            shares: numbers from 0 to 1, ascending.

        Returns:
            the values in the order of `shares`; None if the histogram is empty.
        """
        if not self._weights:
            return None
        ordered = sorted(self._weights.items())
        found: list[int] = []
        whole = math.fsum(weight for _, weight in ordered)
        passed, index = ordered[0][1], 0
        for share in shares:
            while passed < share * whole * ROUNDING and index + 1 < len(ordered):
                index += 1
                passed += ordered[index][1]
            found.append(ordered[index][0])
        return found
