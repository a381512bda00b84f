"""Consumer group lag: Kafka's formula, and None for an unknown lag."""

import pytest

from pipeline_broker.base.lag import lag_of, total_lag


@pytest.mark.parametrize(
    ("committed", "end", "lag"), [(2, 10, 8), (10, 10, 0), (12, 10, -2), (None, 10, None), (2, None, None)]
)
def test_the_lag_is_the_end_minus_the_committed_offset_or_unknown(committed, end, lag):
    assert lag_of(committed, end) == lag


@pytest.mark.parametrize(
    ("lags", "total"), [([], None), ([None], None), ([0], 0), ([3, None, 4], 7), ([8, 5, 1, -99], 14), ([-1], 0)]
)
def test_the_total_sums_known_lags_and_is_never_less_than_one_of_them(lags, total):
    assert total_lag(lags) == total
