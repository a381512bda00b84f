"""A ratio is judged by its interval and its family; a latency inversely."""

from __future__ import annotations

import pytest

from spark_analysis.interval import Ratio
from spark_analysis.judgement import Judgement, judge, latency_finding, rate_finding

UNCORRECTED = ", beyond chance alone but not after the correction for all loads"


@pytest.mark.parametrize(
    ("ratio", "judgement", "words"),
    [
        (Ratio(2.0, 1.8, 2.2, 5, 0.001, 0.01), Judgement.FASTER, "faster"),
        (Ratio(1.05, 1.02, 1.08, 5, 0.001, 0.01), Judgement.BARELY, "faster by less than a tenth"),
        (Ratio(0.8, 0.7, 0.9, 5, 0.001, 0.01), Judgement.SLOWER, "slower"),
        (Ratio(1.02, 0.98, 1.06, 5, 0.3, 1.0), Judgement.NO_GAIN, "no gain: 0.98x to 1.06x"),
        (Ratio(1.5, 0.5, 4.5, 5, 0.3, 1.0), Judgement.UNDECIDED, "not decided: the interval is 0.50x to 4.5x"),
        (
            Ratio(1.5, 1.1, 2.0, 5, 0.02, 0.2),
            Judgement.UNDECIDED,
            f"not decided: the interval is 1.10x to 2.0x{UNCORRECTED}",
        ),
        (Ratio(1.5, None, None, 1), Judgement.UNDECIDED, "not decided: too few rounds for an interval"),
    ],
)
def test_a_ratio_is_judged_by_its_interval_and_its_family(ratio, judgement, words):
    assert judge(ratio) is judgement
    assert rate_finding(ratio) == words


@pytest.mark.parametrize(
    ("ratio", "words"),
    [
        (Ratio(0.5, 0.45, 0.55, 5, 0.001, 0.01), "shorter"),
        (Ratio(0.95, 0.93, 0.97, 5, 0.001, 0.01), "shorter by less than a tenth"),
        (Ratio(1.2, 1.1, 1.3, 5, 0.001, 0.01), "longer"),
        (Ratio(0.98, 0.94, 1.02, 5, 0.3, 1.0), "no shorter: 0.94x to 1.02x"),
        (Ratio(0.6, 0.25, 1.44, 5, 0.3, 1.0), "not decided: the interval is 0.25x to 1.44x"),
        (Ratio(0.6, None, None, 1), "not decided: too few rounds for an interval"),
    ],
)
def test_a_latency_is_judged_inversely_and_shows_its_own_interval(ratio, words):
    assert latency_finding(ratio) == words


def test_the_inverse_of_a_ratio_is_judged_inversely():
    ratio = Ratio(0.5, 0.4, 0.6, 5, 0.001, 0.01)
    assert (ratio.inverse.value, ratio.inverse.low, ratio.inverse.high) == pytest.approx((2.0, 1 / 0.6, 2.5))
    assert judge(ratio.inverse) is Judgement.FASTER
