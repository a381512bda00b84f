"""Latency histograms that can be merged without loss, with the idea of HdrHistogram at three significant digits.

Values are counted exactly below 2 ms (2048 us), and to 0.1 % above. Bucket bounds do not depend on the values, so a
merge of two histograms equals one histogram of all values.
"""

import itertools
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

EXACT_BITS = 11
"""Leading bits of a value that select its bucket. Values with at most this many bits are counted exactly."""
EXACT_BELOW = 1 << EXACT_BITS
# Distinct values kept before they are sorted into buckets. Until then, `Counter.update` adds them in a loop in C.
UNFOLDED_MAX = 1 << 16
SAMPLES_BEYOND_MIN = 10
"""A percentile needs this many samples above it; with fewer it is None."""


class Histogram:
    """The number of occurrences of each latency, in microseconds."""

    def __init__(self, counts: Mapping[int, int] | None = None) -> None:
        self._counts: Counter[int] = Counter()
        self._fresh: Counter[int] = Counter(counts)

    def add(self, values_us: Iterable[int]) -> None:
        self._fresh.update(values_us)
        if len(self._fresh) > UNFOLDED_MAX:
            self._fold()

    def merge(self, other: "Histogram") -> None:
        for value, count in other.counts().items():
            self._counts[value] += count

    def counts(self) -> Mapping[int, int]:
        """Return the count of each bucket, by the smallest value of the bucket in microseconds."""
        self._fold()
        return self._counts

    @property
    def total(self) -> int:
        return self._counts.total() + self._fresh.total()

    def percentile_us(self, quantile: float) -> float | None:
        """Return a percentile: the middle of its bucket, in microseconds.

        Args:
            quantile: 0.99 for the 99th percentile; 1 for the largest value, which needs no samples above it.

        Returns:
            None if fewer than ten samples lie above the percentile.
        """
        total = self.total
        # Rounded to millionths, because 1 - 0.99 is not exactly 0.01 in binary.
        beyond = total * round((1 - quantile) * 1_000_000)
        if not total or (quantile < 1 and beyond < SAMPLES_BEYOND_MIN * 1_000_000):
            return None
        values = sorted(self.counts())
        seen = list(itertools.accumulate(self._counts[value] for value in values))
        value = values[bisect_left(seen, total - beyond // 1_000_000)]
        return value + (width_of(value) - 1) / 2

    def mean_us(self) -> float | None:
        """Return the mean, with each value at the middle of its bucket; None for an empty histogram."""
        counts = self.counts()
        total = sum(counts.values())
        if not total:
            return None
        return sum((value + (width_of(value) - 1) / 2) * count for value, count in counts.items()) / total

    def cumulative(self) -> Iterator[tuple[float, float]]:
        """Yield the upper end of each bucket in microseconds, and the share of values up to it."""
        total, seen = self.total, 0
        for value, count in sorted(self.counts().items()):
            seen += count
            yield value + width_of(value), seen / total

    def _fold(self) -> None:
        counts = self._counts
        for value, count in self._fresh.items():
            counts[bucket_of(value)] += count
        self._fresh.clear()


def bucket_of(value: int) -> int:
    shift = value.bit_length() - EXACT_BITS
    return value if shift <= 0 else value >> shift << shift


def width_of(bucket: int) -> int:
    return 1 << max(0, bucket.bit_length() - EXACT_BITS)
