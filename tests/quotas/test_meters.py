"""The number of meters is bounded, and dropped ones carried no information."""

from hypothesis import given
from hypothesis import strategies as st

from pipeline_broker.quotas import meters as meters_module
from pipeline_broker.quotas.entities import entity_of
from pipeline_broker.quotas.limits import Limit, Measured
from pipeline_broker.quotas.meters import METERS_MAX, Meters
from pipeline_broker.quotas.rate import Rate, Windows
from pipeline_broker.quotas.rate_quota import RateQuota

WINDOWS = Windows()
EACH_CLIENT = {entity_of([("client-id", None)]): 100.0}


def limit(name):
    return Limit(Measured(None, name), 1.0)


def test_idle_meters_are_dropped_for_a_new_one():
    meters = Meters(lambda: Rate(WINDOWS))
    for name in "abc":
        meters.of(limit(name), 0).record(1, 0)
    meters.of(limit("a"), 5_000).record(1, 5_000)
    meters.of(limit("d"), 12_000).record(1, 12_000)
    assert [measured.client_id for measured, _ in meters.items()] == ["a", "d"]


def test_the_least_recently_used_meter_is_dropped():
    meters = Meters(lambda: Rate(WINDOWS), count_max=2)
    for name in "abac":
        meters.of(limit(name), 0).record(1, 0)
    assert [measured.client_id for measured, _ in meters.items()] == ["a", "c"]


def test_long_names_drop_the_least_recently_used_meter(monkeypatch):
    monkeypatch.setattr(meters_module, "NAME_BYTES_MAX", 100)
    meters = Meters(lambda: Rate(WINDOWS))
    for name in ("a" * 40, "b" * 40, "a" * 40, "c" * 40):
        meters.of(limit(name), 0).record(1, 0)
    assert [measured.client_id[0] for measured, _ in meters.items()] == ["a", "c"]
    meters.of(limit("d" * 500), 0)
    assert [measured.client_id[0] for measured, _ in meters.items()] == ["d"], "one is always measured"
    meters.clear()
    for name in ("a" * 50, "b" * 50):
        meters.of(limit(name), 0).record(1, 0)
    assert len(meters) == 2, "they are as long as they may be"
    meters.clear()
    for name in ("a" * 12 + "\N{DROMEDARY CAMEL}", "b" * 12 + "\N{DROMEDARY CAMEL}"):
        meters.of(limit(name), 0).record(1, 0)
    assert len(meters) == 1, "Python stores four bytes for each of their characters"


def test_any_number_of_client_ids_is_measured_in_bounded_memory():
    quota = RateQuota(WINDOWS)
    quota.set_limits(EACH_CLIENT)
    for number in range(METERS_MAX + 100):
        quota.record("u", f"c{number}", 1, 0)
    assert len(list(quota.statistics(0))) == METERS_MAX
    assert not list(quota.statistics(WINDOWS.all_ms))


@given(st.lists(st.tuples(st.integers(0, 20_000), st.sampled_from("abc"), st.integers(1, 3_000)), max_size=40))
def test_dropped_meters_make_no_difference(events):
    """Each client is throttled as if its meter had been kept."""
    quota, kept, now = RateQuota(WINDOWS), {}, 0
    quota.set_limits(EACH_CLIENT)
    for pause, name, value in events:
        now += pause
        alone = kept.setdefault(name, RateQuota(WINDOWS))
        alone.set_limits(EACH_CLIENT)
        assert quota.record("u", name, value, now) == alone.record("u", name, value, now)
