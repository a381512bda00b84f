"""Latencies are counted with bounded error, and histograms are merged without loss."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline_broker.measure.load.histogram import EXACT_BELOW, UNFOLDED_MAX, Histogram, bucket_of, width_of

VALUES = st.lists(st.integers(0, 10**9), max_size=200)


@given(st.integers(0, 2**50))
def test_a_value_is_in_its_bucket_which_is_at_most_a_thousandth_wide(value):
    bucket = bucket_of(value)
    assert bucket <= value < bucket + width_of(bucket)
    assert width_of(bucket) == 1 or width_of(bucket) * 1000 <= bucket
    assert bucket_of(bucket) == bucket


@given(st.lists(VALUES, max_size=5))
def test_merged_histograms_equal_one_histogram_of_all_values(parts):
    merged = Histogram()
    for part in parts:
        one = Histogram()
        one.add(part)
        merged.merge(one)
    together = Histogram()
    together.add(itertools.chain.from_iterable(parts))
    assert merged.counts() == together.counts()
    assert merged.total == sum(map(len, parts))
    assert list(merged.cumulative()) == list(together.cumulative())


@given(st.lists(st.integers(0, EXACT_BELOW - 1), min_size=1, max_size=300))
def test_small_values_are_exact(values):
    found = Histogram()
    found.add(values)
    ordered = sorted(values)
    assert found.percentile_us(1) == ordered[-1]
    assert found.mean_us() == pytest.approx(sum(values) / len(values))
    if len(values) >= 20:
        assert found.percentile_us(0.5) == ordered[-(len(values) // 2) - 1]


@given(st.lists(st.integers(0, 10**8), min_size=100, max_size=300))
def test_a_percentile_is_as_precise_as_its_bucket(values):
    found = Histogram()
    found.add(values)
    exact = sorted(values)[len(values) - len(values) // 10 - 1]
    value = found.percentile_us(0.9)
    assert value == pytest.approx(exact, rel=0.001, abs=1)


def test_a_percentile_needs_ten_samples_beyond_it():
    found = Histogram()
    found.add(range(999))
    assert found.percentile_us(0.99) is None
    found.add([5])
    assert found.percentile_us(0.99) == 988
    assert Histogram().percentile_us(1) is None
    assert Histogram().mean_us() is None


def test_many_different_values_take_bounded_memory():
    found = Histogram()
    for start in range(0, 40 * UNFOLDED_MAX, UNFOLDED_MAX):
        found.add(range(start, start + UNFOLDED_MAX))
    assert found.total == 40 * UNFOLDED_MAX
    assert len(found.counts()) < 20_000
