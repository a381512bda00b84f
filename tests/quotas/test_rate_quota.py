"""A quota on a rate: who is measured, how long who is above the limit waits, and what is taken back."""

import pytest

from pipeline_broker.quotas.entities import entity_of
from pipeline_broker.quotas.rate import Windows
from pipeline_broker.quotas.rate_quota import RateQuota

WINDOWS = Windows()
PER_SECOND = 100.0
EACH_CLIENT = {entity_of([("client-id", None)]): PER_SECOND}
ASSUMED_SECONDS = 10
"""A first burst is taken over all windows but one."""


def quota_of(throttle_ms_max=None):
    quota = RateQuota(WINDOWS, throttle_ms_max)
    quota.set_limits(EACH_CLIENT)
    return quota


def test_what_did_not_happen_is_taken_back():
    """A fetch that is answered without records: its bytes count for nobody, not for the next one either."""
    quota = quota_of()
    quota.record("u", "c", 400, 0)
    assert quota.record("u", "c", 7_000, 100) > 0
    quota.take_back("u", "c", 7_000, 100)
    assert quota.total("u", "c", 100) == 400
    assert quota.record("u", "c", 600, 200) == 0
    assert quota.total("u", "c", 200) == 1_000


def test_what_has_no_limit_is_neither_measured_nor_taken_back():
    quota = RateQuota(WINDOWS)
    assert quota.record("u", "c", 7_000, 0) == 0
    quota.take_back("u", "c", 7_000, 0)
    assert (quota.total("u", "c", 0), quota.value_max("u", "c"), list(quota.statistics(0))) == (0.0, None, [])


def test_the_most_that_may_come_at_once_is_just_not_throttled():
    quota = quota_of()
    most = quota.value_max("u", "c")
    assert most == PER_SECOND * ASSUMED_SECONDS
    assert quota.record("u", "c", most, 0) == 0
    assert quota.record("u", "c", 1, 0) > 0


@pytest.mark.parametrize(("throttle_ms_max", "expected"), [(None, 10_000), (1_000, 1_000)])
def test_nobody_waits_longer_for_one_request_than_is_set(throttle_ms_max, expected):
    quota = quota_of(throttle_ms_max)
    assert quota.record("u", "c", 2 * PER_SECOND * ASSUMED_SECONDS, 0) == expected
    (measured,) = quota.statistics(0)
    assert (measured.client_id, measured.per_second, measured.throttle_time_ms) == ("c", 2 * PER_SECOND, expected)


def test_without_limits_what_was_measured_is_forgotten():
    quota = quota_of()
    quota.record("u", "c", 900, 0)
    quota.set_limits({entity_of([("client-id", None)]): 50.0})
    assert quota.total("u", "c", 0) == 900
    quota.set_limits({})
    quota.set_limits(EACH_CLIENT)
    assert quota.total("u", "c", 0) == 0
