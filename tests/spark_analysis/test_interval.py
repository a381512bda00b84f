"""Intervals of ratios contain the true value as often as their confidence says, and exact cases are exact."""

from __future__ import annotations

import math
import random

import attrs
import pytest

from spark_analysis.interval import (
    Ratio,
    geometric_interval,
    mean_interval,
    ratio_interval,
    t_probability,
    t_quantile,
)


@pytest.mark.parametrize(
    ("freedom", "expected"), [(1, 12.7062047), (2, 4.3026527), (4, 2.7764451), (6, 2.4469119), (30, 2.0422725)]
)
def test_t_quantile_agrees_with_published_tables(freedom, expected):
    assert t_quantile(0.975, freedom) == pytest.approx(expected, abs=1e-6)
    assert t_probability(expected, freedom) == pytest.approx(0.975, abs=1e-8)


@pytest.mark.parametrize(
    ("low", "high", "corrected", "called"),
    [
        (1.01, 2.0, None, "above"),
        (1.01, 2.0, 0.05, "above"),
        (1.01, 2.0, 0.06, None),
        (1.0, 2.0, None, None),
        (0.5, 0.99, None, "below"),
        (0.5, 0.99, 0.05, "below"),
        (0.5, 0.99, 0.06, None),
        (0.5, 1.0, None, None),
        (0.9, 1.1, None, None),
    ],
)
def test_a_ratio_counts_if_its_interval_excludes_1_also_after_the_correction(low, high, corrected, called):
    ratio = Ratio(1.0, low, high, 5, 0.01, corrected)
    assert (ratio.above, ratio.below) == (called == "above", called == "below")
    assert ratio.excludes_one == (not low <= 1 <= high)
    assert ratio.width == high / low


def test_a_ratio_without_an_interval_excludes_nothing_and_has_no_width():
    ratio = Ratio(3.0, None, None, 1)
    assert (ratio.excludes_one, ratio.width, ratio.inverse) == (False, None, Ratio(1 / 3, None, None, 1))


def test_means_have_the_interval_of_student():
    """1, 2 and 3: standard error 1 / sqrt(3), t with two degrees of freedom 4.3027."""
    found = mean_interval([1.0, 2.0, 3.0])
    half = 4.3026527 / math.sqrt(3)
    assert (found.value, found.rounds) == (2.0, 3)
    assert (found.low, found.high) == pytest.approx((2 - half, 2 + half))
    assert mean_interval([]) is None
    assert mean_interval([-1.0]) == attrs.evolve(found, value=-1.0, low=None, high=None, rounds=1)
    logs = geometric_interval([math.exp(value) for value in (1.0, 2.0, 3.0)])
    assert [math.log(each) for each in (logs.value, logs.low, logs.high)] == pytest.approx([2, 2 - half, 2 + half])
    assert (logs.rounds, geometric_interval([])) == (3, None)


def test_the_p_value_of_a_ratio_assumes_equal_sides():
    """Logs 0, 1 and 2: t is the root of 3, beyond which two degrees of freedom leave (1 - sqrt(3 / 5)) / 2 per tail."""
    chance = 1 - math.sqrt(3 / 5)
    assert ratio_interval([1.0, math.exp(1), math.exp(2)]).chance == pytest.approx(chance)
    assert ratio_interval([1.0, math.exp(-1), math.exp(-2)]).chance == pytest.approx(chance)
    assert ratio_interval([1.0, 1.0, 1.0]).chance == 1
    assert ratio_interval([2.0, 2.0, 2.0]).chance == 0
    assert ratio_interval([2.0]).chance is None


def test_an_interval_beyond_the_range_of_floats_has_ends():
    found = ratio_interval([1e-300, 1e300, 1.0])
    assert 0 < found.low < 1e-300
    assert 1e300 < found.high < math.inf


def test_no_pair_has_no_ratio():
    assert ratio_interval([]) is None


@pytest.mark.parametrize("rounds", [1, 2])
def test_fewer_than_three_pairs_have_no_interval(rounds):
    ratio = ratio_interval([3.0] * rounds)
    assert (ratio.value, ratio.low, ratio.high, ratio.rounds) == (pytest.approx(3.0), None, None, rounds)
    assert ratio.chance is None
    assert not ratio.above
    assert not ratio.below


def test_equal_ratios_have_an_interval_of_width_zero():
    ratio = ratio_interval([2.0, 2.0, 2.0])
    assert (ratio.value, ratio.low, ratio.high) == pytest.approx((2.0, 2.0, 2.0))
    assert ratio.above


def test_three_ratios_worked_by_hand():
    """Logs 0, 1 and 2: mean 1, standard deviation 1, t with two degrees of freedom 4.3027."""
    ratio = ratio_interval([1.0, math.exp(1), math.exp(2)])
    assert math.log(ratio.value) == pytest.approx(1)
    assert math.log(ratio.high) == pytest.approx(1 + 4.30265273 / math.sqrt(3))
    assert math.log(ratio.low) == pytest.approx(1 - 4.30265273 / math.sqrt(3))


def test_exchanging_the_sides_inverts_the_interval():
    ratios = [1.5, 1.7, 1.2, 2.0]
    ratio, inverse = ratio_interval(ratios), ratio_interval([1 / value for value in ratios])
    assert inverse.value == pytest.approx(1 / ratio.value)
    assert (inverse.low, inverse.high) == pytest.approx((1 / ratio.high, 1 / ratio.low))


@pytest.mark.parametrize("rounds", [3, 5, 7])
def test_the_interval_of_equal_sides_contains_1_in_95_of_100_experiments(rounds):
    drawn = random.Random(rounds)
    experiments = 4000
    held = 0
    for _ in range(experiments):
        ratio = ratio_interval([math.exp(drawn.gauss(0, 0.1) - drawn.gauss(0, 0.1)) for _ in range(rounds)])
        held += ratio.low <= 1 <= ratio.high
    assert held / experiments == pytest.approx(0.95, abs=0.012)  # 3.5 standard errors
