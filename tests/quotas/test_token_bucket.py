"""The token bucket: full at first, overdrawn by one request, refilled at the rate of the limit."""

from hypothesis import given
from hypothesis import strategies as st

from pipeline_broker.quotas.rate import Windows
from pipeline_broker.quotas.token_bucket import TokenBucket

WINDOWS = Windows()


def test_a_new_bucket_holds_the_tokens_of_all_windows():
    bucket = TokenBucket(WINDOWS)
    assert bucket.tokens(5, 1_000) == 55
    assert bucket.is_full(5, 1_000)


def test_a_debt_is_paid_off_at_the_rate_of_the_limit():
    """Kafka's example: 560 of 500 tokens at 5 a second leave a debt of 60, paid in 12 seconds."""
    bucket = TokenBucket(Windows(100, 1_000))
    bucket.take(560, 5, 0)
    assert bucket.throttle_time_ms(5, 0) == 12_000
    assert bucket.throttle_time_ms(5, 11_999) == 1
    assert bucket.throttle_time_ms(5, 12_000) == 0
    assert not bucket.is_full(5, 12_000)


def test_a_bucket_without_a_debt_has_no_throttle_time():
    bucket = TokenBucket(WINDOWS)
    bucket.take(5.5, 0.5, 0)
    assert bucket.throttle_time_ms(0.5, 0) == 0
    assert not bucket.is_full(0.5, 10_999)
    assert bucket.is_full(0.5, 11_000)


def test_a_lower_limit_makes_a_smaller_bucket():
    bucket = TokenBucket(WINDOWS)
    assert bucket.tokens(10, 0) == 110
    assert bucket.tokens(1, 0) == 11


@given(st.lists(st.tuples(st.integers(0, 5_000), st.integers(0, 200)), max_size=50), st.integers(1, 50))
def test_no_client_exceeds_burst_and_rate(requests, limit):
    """Without a debt, the sum stays within burst, refill and the last request."""
    bucket, now, taken, largest = TokenBucket(WINDOWS), 0, 0, 0
    for pause, count in requests:
        now += pause
        if not bucket.throttle_time_ms(limit, now):
            bucket.take(count, limit, now)
            taken += count
            largest = max(largest, count)
        assert bucket.tokens(limit, now) <= limit * 11
    assert taken <= limit * 11 + limit * now / 1_000 + largest
