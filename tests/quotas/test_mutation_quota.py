"""Quotas on metadata changes: debts, throttling, and idle clients."""

from pipeline_broker.quotas.entities import entity_of
from pipeline_broker.quotas.mutation_quota import MutationQuota
from pipeline_broker.quotas.rate import Windows

WINDOWS = Windows(10, 1_000)
PER_SECOND = 5.0
FULL = 50
"""Tokens at first."""
EACH_CLIENT = {entity_of([("client-id", None)]): PER_SECOND}


def quota_of():
    quota = MutationQuota(WINDOWS)
    quota.set_limits(EACH_CLIENT)
    return quota


def record(quota, count, now_ms=0, *, strict=True):
    return quota.record("u", "c", count, now_ms, strict=strict)


def test_without_a_limit_everything_is_allowed_and_nothing_measured():
    quota = MutationQuota(WINDOWS)
    assert not quota.limits
    assert record(quota, 10**6) == (True, 0)
    assert list(quota.statistics(0)) == []


def test_strict_quotas_reject_changes_until_the_debt_is_paid():
    quota = quota_of()
    assert record(quota, FULL + 10) == (True, 0)
    assert record(quota, 1) == (False, 2_000)
    assert record(quota, 1, 1_999) == (False, 1)
    assert record(quota, 1, 2_000) == (True, 0)


def test_permissive_quotas_allow_all_changes_and_throttle():
    quota = quota_of()
    assert record(quota, FULL, strict=False) == (True, 0)
    assert record(quota, 10, strict=False) == (True, 2_000)
    assert record(quota, 5, strict=False) == (True, 3_000)


def test_statistics_have_rate_tokens_and_mean_throttle():
    quota = quota_of()
    record(quota, FULL + 10)
    record(quota, 1)
    record(quota, 1, 1_000)
    (found,) = quota.statistics(1_000)
    assert (found.user, found.client_id, found.tokens, found.throttle_time_ms) == (None, "c", -5, 1_500)
    assert found.per_second == (FULL + 10) / 9


def test_a_client_is_kept_until_its_bucket_is_full_and_its_windows_end():
    quota = quota_of()
    record(quota, 3 * FULL)
    assert len(list(quota.statistics(29_999))) == 1  # 100 tokens of debt and 50 of the bucket, at 5 a second
    assert list(quota.statistics(30_000)) == []
    record(quota, 1, 40_000)
    assert len(list(quota.statistics(49_999))) == 1  # full since 40,200, and measured for ten seconds
    assert list(quota.statistics(50_000)) == []


def test_a_throttle_stays_in_statistics_for_all_windows():
    quota = quota_of()
    record(quota, FULL + 1)
    record(quota, 1, 100)
    assert [it.throttle_time_ms for it in quota.statistics(10_050)] == [100]
    quota = quota_of()
    record(quota, FULL + 100)
    for now_ms in range(0, 20_000, 5_000):
        record(quota, 0, now_ms)
    assert [it.throttle_time_ms for it in quota.statistics(24_999)] == [5_000]


def test_debts_survive_a_change_of_the_limit():
    quota = quota_of()
    record(quota, FULL + 10)
    quota.set_limits({entity_of([("client-id", None)]): 2 * PER_SECOND})
    assert record(quota, 1) == (False, 1_000)
    quota.set_limits({})
    quota.set_limits(EACH_CLIENT)
    assert record(quota, 1) == (True, 0)


def test_a_debt_is_paid_off_at_the_current_limit():
    quota = quota_of()
    record(quota, FULL + 10)
    quota.set_limits({entity_of([("client-id", None)]): 1.0})
    assert record(quota, 0, 5_000, strict=False) == (True, 5_000)
