"""Intervals of ratios cover the truth as often as they say, and exact cases come out exactly."""

from __future__ import annotations

import math
import random

import pytest

from spark_analysis.interval import ratio_interval, t_probability, t_quantile


@pytest.mark.parametrize(
    ("freedom", "expected"), [(1, 12.7062047), (2, 4.3026527), (4, 2.7764451), (6, 2.4469119), (30, 2.0422725)]
)
def test_t_quantile_agrees_with_published_tables(freedom, expected):
    assert t_quantile(0.975, freedom) == pytest.approx(expected, abs=1e-6)
    assert t_probability(expected, freedom) == pytest.approx(0.975, abs=1e-8)


def test_no_pair_has_no_ratio():
    assert ratio_interval([]) is None


def test_one_pair_has_no_interval():
    ratio = ratio_interval([3.0])
    assert (ratio.value, ratio.low, ratio.high, ratio.rounds) == (pytest.approx(3.0), None, None, 1)
    assert not ratio.above
    assert not ratio.below


def test_equal_ratios_have_an_interval_of_width_zero():
    ratio = ratio_interval([2.0, 2.0, 2.0])
    assert (ratio.value, ratio.low, ratio.high) == pytest.approx((2.0, 2.0, 2.0))
    assert ratio.above


def test_two_ratios_worked_by_hand():
    """Logs 0 and 2: mean 1, standard error 1, t with one degree of freedom 12.706."""
    ratio = ratio_interval([1.0, math.exp(2)])
    assert math.log(ratio.value) == pytest.approx(1)
    assert math.log(ratio.high) == pytest.approx(1 + 12.7062047)
    assert math.log(ratio.low) == pytest.approx(1 - 12.7062047)


def test_exchanging_the_sides_inverts_the_interval():
    ratios = [1.5, 1.7, 1.2, 2.0]
    ratio, inverse = ratio_interval(ratios), ratio_interval([1 / value for value in ratios])
    assert inverse.value == pytest.approx(1 / ratio.value)
    assert (inverse.low, inverse.high) == pytest.approx((1 / ratio.high, 1 / ratio.low))


@pytest.mark.parametrize("rounds", [3, 5, 7])
def test_of_equal_sides_the_interval_holds_one_in_95_of_100_experiments(rounds):
    drawn = random.Random(rounds)
    experiments = 4000
    held = 0
    for _ in range(experiments):
        ratio = ratio_interval([math.exp(drawn.gauss(0, 0.1) - drawn.gauss(0, 0.1)) for _ in range(rounds)])
        held += ratio.low <= 1 <= ratio.high
    assert held / experiments == pytest.approx(0.95, abs=0.012)  # 3.5 standard errors
