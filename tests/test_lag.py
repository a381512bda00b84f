"""The lag of a group: Kafka's formula, and None for what is not known."""

import pytest

from pipeline_broker.lag import lag_of, total_lag


@pytest.mark.parametrize(
    ("committed", "end", "lag"), [(2, 10, 8), (10, 10, 0), (12, 10, -2), (None, 10, None), (2, None, None)]
)
def test_the_lag_is_the_end_minus_what_is_committed_or_unknown(committed, end, lag):
    assert lag_of(committed, end) == lag


@pytest.mark.parametrize(
    ("lags", "total"), [([], None), ([None], None), ([0], 0), ([3, None, 4], 7), ([8, 5, 1, -99], 14), ([-1], 0)]
)
def test_the_total_is_of_what_is_known_and_never_less_than_a_part_of_it(lags, total):
    assert total_lag(lags) == total
