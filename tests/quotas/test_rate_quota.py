"""Quotas on rates: measurement, throttle times, and cancelled values."""

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


def test_take_back_cancels_a_record():
    """The bytes of a fetch that is answered without records do not count, not even for the next client."""
    quota = quota_of()
    quota.record("u", "c", 400, 0)
    assert quota.record("u", "c", 7_000, 100) > 0
    quota.take_back("u", "c", 7_000, 100)
    assert quota.total("u", "c", 100) == 400
    assert quota.record("u", "c", 600, 200) == 0
    assert quota.total("u", "c", 200) == 1_000


def test_clients_without_a_limit_are_not_measured():
    quota = RateQuota(WINDOWS)
    assert quota.record("u", "c", 7_000, 0) == 0
    quota.take_back("u", "c", 7_000, 0)
    assert (quota.total("u", "c", 0), quota.value_max("u", "c"), list(quota.statistics(0))) == (0.0, None, [])


def test_value_max_is_not_throttled():
    quota = quota_of()
    most = quota.value_max("u", "c")
    assert most == PER_SECOND * ASSUMED_SECONDS
    assert quota.record("u", "c", most, 0) == 0
    assert quota.record("u", "c", 1, 0) > 0


@pytest.mark.parametrize(("throttle_ms_max", "expected"), [(None, 10_000), (1_000, 1_000)])
def test_the_throttle_time_of_one_request_is_limited(throttle_ms_max, expected):
    quota = quota_of(throttle_ms_max)
    assert quota.record("u", "c", 2 * PER_SECOND * ASSUMED_SECONDS, 0) == expected
    (measured,) = quota.statistics(0)
    assert (measured.client_id, measured.per_second, measured.throttle_time_ms) == ("c", 2 * PER_SECOND, expected)


def test_removing_the_last_limit_drops_all_measurements():
    quota = quota_of()
    quota.record("u", "c", 900, 0)
    quota.set_limits({entity_of([("client-id", None)]): 50.0})
    assert quota.total("u", "c", 0) == 900
    quota.set_limits({})
    quota.set_limits(EACH_CLIENT)
    assert quota.total("u", "c", 0) == 0
