"""Quantiles of the recent past.

Rules of this file: time is passed in; values are whole numbers, at least 0. Kafka's histograms sample 1028 values with
a probability that grows by `exp(0.015 * seconds)`, so that about the last five minutes count. This one gives every
value that weight instead of a chance: the same quantiles without the noise of a sample, and batches of equal values,
which is what rounded times are, cost one addition.
"""

import math
from collections.abc import Mapping, Sequence

__all__ = ["DecayingHistogram"]

DECAY_PER_SECOND = 0.015
"""Kafka's (Yammer's) alpha."""
RESCALE_SECONDS = 3600.0
"""Weights grow by e^54 in this time, far below what a float holds."""
WEIGHT_MIN = 1e-9
"""Of the newest value's weight: what decayed below it is forgotten."""
ROUNDING = 1.0 - 1e-9
"""Keeps a sum of weights that falls short of a share by a rounding error from being passed over."""
EXACT_BITS = 10
"""Values below 2^10 are kept as they are, larger ones to within 0.2 %: so the memory is bounded, whatever comes."""


def _kept(value: int) -> int:
    """The value as it is kept: its leading bits."""
    surplus = value.bit_length() - EXACT_BITS
    return value if surplus <= 0 else (value >> surplus) << surplus


class DecayingHistogram:
    """Values with the weights of their age, and their number and sum since the beginning.

    Attributes:
        total: the sum of all values, in the unit and precision that the caller adds it in.
    """

    __slots__ = ("_count", "_landmark_seconds", "_weights", "total")

    def __init__(self) -> None:
        self._count = 0.0
        self.total = 0.0
        self._weights: dict[int, float] = {}
        self._landmark_seconds = 0.0

    @property
    def count(self) -> int:
        """Values ever added, those that others stood for included."""
        return round(self._count)

    def add(self, values: Mapping[int, int], total: float, at_seconds: float, stands_for: float = 1.0) -> None:
        """Add values (value -> how often), all of about this time, and their sum.

        Args:
            values: a sample, or all.
            total: the sum of `values`.
            stands_for: how many values each of them stands for: 1 when they are all, more for a sample.
        """
        if at_seconds - self._landmark_seconds > RESCALE_SECONDS:
            self._rescale(at_seconds)
        weight = stands_for * math.exp(DECAY_PER_SECOND * (at_seconds - self._landmark_seconds))
        weights = self._weights
        for value, count in values.items():
            kept = _kept(value)
            weights[kept] = weights.get(kept, 0.0) + weight * count
            self._count += stands_for * count
        self.total += stands_for * total

    def _rescale(self, at_seconds: float) -> None:
        factor = math.exp(-DECAY_PER_SECOND * (at_seconds - self._landmark_seconds))
        scaled = {value: weight * factor for value, weight in self._weights.items()}
        self._weights = {value: weight for value, weight in scaled.items() if weight > WEIGHT_MIN}
        self._landmark_seconds = at_seconds

    def quantiles(self, shares: Sequence[float]) -> list[int] | None:
        """For each share, ascending, the least value that this share of the weight does not exceed; None if empty."""
        if not self._weights:
            return None
        ordered = sorted(self._weights.items())
        found: list[int] = []
        whole = math.fsum(weight for _, weight in ordered)
        passed, place = ordered[0][1], 0
        for share in shares:
            while passed < share * whole * ROUNDING and place + 1 < len(ordered):
                place += 1
                passed += ordered[place][1]
            found.append(ordered[place][0])
        return found
