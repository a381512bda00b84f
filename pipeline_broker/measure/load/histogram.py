"""Counts of latencies, exact to a microsecond below 2 ms and to 0.1 % above, that can be added up without loss.

Rules of this file: no clock and no I/O; a value is a number of microseconds. Two histograms that are merged hold what
one histogram of all values would: the buckets do not depend on what came first. This is the idea of HdrHistogram with
three significant digits.
"""

import itertools
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

EXACT_BITS = 11
"""Values of so many bits are counted as they are; of larger ones so many leading bits."""
EXACT_BELOW = 1 << EXACT_BITS
UNFOLDED_MAX = 1 << 16
"""Distinct values that are kept before they are put into their buckets: adding is a loop in C until then."""
SAMPLES_BEYOND_MIN = 10
"""A percentile is told when so many samples lie beyond it."""


class Histogram:
    """How often each latency came."""

    def __init__(self, counts: Mapping[int, int] | None = None) -> None:
        self._counts: Counter[int] = Counter()
        self._fresh: Counter[int] = Counter(counts)

    def add(self, values_us: Iterable[int]) -> None:
        """Count values, none below 0."""
        self._fresh.update(values_us)
        if len(self._fresh) > UNFOLDED_MAX:
            self._fold()

    def merge(self, other: "Histogram") -> None:
        """Count all that another histogram has counted."""
        for value, count in other.counts().items():
            self._counts[value] += count

    def counts(self) -> Mapping[int, int]:
        """How often each bucket was met, by the least value that belongs to it, in microseconds."""
        self._fold()
        return self._counts

    @property
    def total(self) -> int:
        """How many values were counted."""
        return self._counts.total() + self._fresh.total()

    def percentile_us(self, quantile: float) -> float | None:
        """The least value, to its bucket's middle, that so large a share of all does not exceed.

        Args:
            quantile: 0.99 for the 99th percentile; 1 for the largest value, which needs no samples beyond it.

        Returns:
            microseconds; None when fewer than ten samples lie beyond it.
        """
        total = self.total
        beyond = total * round((1 - quantile) * 1_000_000)  # in millionths: 1 - 0.99 is not 0.01 in binary
        if not total or (quantile < 1 and beyond < SAMPLES_BEYOND_MIN * 1_000_000):
            return None
        values = sorted(self.counts())
        seen = list(itertools.accumulate(self._counts[value] for value in values))
        value = values[bisect_left(seen, total - beyond // 1_000_000)]
        return value + (width_of(value) - 1) / 2

    def mean_us(self) -> float | None:
        """The mean of all values, each at its bucket's middle; None of nothing."""
        counts = self.counts()
        total = sum(counts.values())
        if not total:
            return None
        return sum((value + (width_of(value) - 1) / 2) * count for value, count in counts.items()) / total

    def cumulative(self) -> Iterator[tuple[float, float]]:
        """For a curve: the upper end of each bucket in microseconds, and the share of all values up to it."""
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
    """The least value of the bucket that a value belongs to."""
    shift = value.bit_length() - EXACT_BITS
    return value if shift <= 0 else value >> shift << shift


def width_of(bucket: int) -> int:
    """How many values belong to a bucket."""
    return 1 << max(0, bucket.bit_length() - EXACT_BITS)
