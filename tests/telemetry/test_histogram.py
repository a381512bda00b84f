"""The decaying histogram gives Kafka's quantiles without a sample's noise."""

import math
from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from pipeline_broker.telemetry.histogram import RESCALE_SECONDS, DecayingHistogram

SHARES = (0.5, 0.75, 0.95, 0.98, 0.99, 0.999)


def quantile_of(values, share):
    return sorted(values)[max(0, math.ceil(share * len(values)) - 1)]


@given(st.lists(st.integers(0, 1023), min_size=1))
def test_quantiles_of_values_of_one_age_are_exact(values):
    histogram = DecayingHistogram()
    histogram.add(Counter(values), sum(values), 100.0)

    assert histogram.quantiles((0.25, 0.5, 0.75)) == [quantile_of(values, share) for share in (0.25, 0.5, 0.75)]
    assert (histogram.count, histogram.total) == (len(values), sum(values))


@given(st.integers(0, 2**40))
def test_a_value_is_kept_to_within_a_five_hundredth(value):
    histogram = DecayingHistogram()
    histogram.add({value: 1}, value, 0.0)

    (kept,) = histogram.quantiles((0.5,))

    assert value - value / 500 <= kept <= value


@given(st.lists(st.integers(0, 2**31), min_size=1, max_size=300))
def test_quantiles_rise_with_their_share(values):
    histogram = DecayingHistogram()
    for second, value in enumerate(values):
        histogram.add({value: 1}, value, float(second))

    quantiles = histogram.quantiles(SHARES)

    assert quantiles == sorted(quantiles)


def test_an_old_value_counts_less_than_a_new_one():
    histogram = DecayingHistogram()
    histogram.add({1: 10}, 10, 0.0)
    histogram.add({2: 5}, 10, 120.0)  # 5 * e^1.8 = 30 against 10

    assert histogram.quantiles((0.24, 0.26, 0.5)) == [1, 2, 2]


def test_weights_neither_overflow_nor_remain_forever():
    histogram = DecayingHistogram()
    for hour in range(2000):
        histogram.add({hour % 1000: 1}, 1, hour * (RESCALE_SECONDS + 1))

    assert histogram.quantiles((0.001, 0.5)) == [999, 999]
    assert histogram.count == 2000
    assert len(histogram._weights) < 5


def test_an_empty_histogram_has_no_quantiles():
    assert DecayingHistogram().quantiles(SHARES) is None
