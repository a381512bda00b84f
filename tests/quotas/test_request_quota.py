"""Accounting of single requests: charged time, throttle times, and when quotas apply."""

import pytest

from pipeline_broker.config.settings import parse_settings
from pipeline_broker.quotas.entities import CLIENT_KEYS, entity_of
from pipeline_broker.quotas.quotas import Quotas

MS = 1_000_000
EVERYBODY = entity_of([("user", None)])


class Clock:
    def __init__(self):
        self.ns = 0

    def __call__(self):
        return self.ns


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def quotas(clock):
    config, _ = parse_settings([])
    changes = []
    quotas = Quotas(config, lambda: changes.append((dict(quotas.ip_rates), quotas.ip_rate_default)), clock)
    quotas.changes = changes
    return quotas


def set_quotas(quotas, entity=EVERYBODY, **limits):
    quotas.durable(quotas.catalogue.alter({entity: limits}))


def used_percent(quotas, seconds=10):
    """Percent of one thread, over the span of a first burst."""
    (found,) = quotas.statistics().request
    return found.per_second * seconds


def test_quotas_are_active_while_some_are_set_for_clients(quotas):
    assert not quotas.is_active
    set_quotas(quotas, producer_byte_rate=1.0)
    assert quotas.is_active
    set_quotas(quotas)
    assert not quotas.is_active
    set_quotas(quotas, entity_of([("ip", "127.0.0.1")]), connection_creation_rate=1.0)
    assert not quotas.is_active


@pytest.mark.parametrize("key", sorted(CLIENT_KEYS))
def test_quotas_are_active_while_one_of_any_kind_is_set(quotas, key):
    set_quotas(quotas, **{key: 1.0})
    assert quotas.is_active


def test_replayed_quotas_apply_once_all_records_are_replayed(quotas, clock):
    write = quotas.catalogue.alter({entity_of([("ip", None)]): {"connection_creation_rate": 3.0}})
    for record in write.records:
        quotas.replay(record.key, record.value)
    assert quotas.ip_rate_default is None
    quotas.replayed()
    assert quotas.changes == [({}, 3.0)]
    quotas.ip_rate_default = None  # a second comparison would report it again
    quotas.replayed()
    assert quotas.changes == [({}, 3.0)]


def test_address_rates_are_reported_only_when_they_change(quotas):
    set_quotas(quotas, producer_byte_rate=1.0)
    assert quotas.changes == []
    set_quotas(quotas, entity_of([("ip", "2001:0db8::0001")]), connection_creation_rate=2.0)
    set_quotas(quotas, producer_byte_rate=2.0)
    assert quotas.changes == [({"2001:db8::1": 2.0}, None)]
    set_quotas(quotas, entity_of([("ip", "localhost")]), connection_creation_rate=4.0)
    assert quotas.changes[-1] == ({"2001:db8::1": 2.0, "127.0.0.1": 4.0}, None)


def test_paused_time_is_not_charged(quotas, clock):
    set_quotas(quotas, request_percentage=1.0)
    clock.ns = 1_000 * MS
    request = quotas.begin("u", "c")
    for used_ms, others_ms in ((20, 300), (30, 500)):
        clock.ns += used_ms * MS
        request.pause()
        clock.ns += others_ms * MS
        request.resume()
    clock.ns += 50 * MS
    request.settle()
    assert used_percent(quotas) == pytest.approx(10)  # 100 ms of a second


def test_time_after_the_handler_is_not_charged(quotas, clock):
    set_quotas(quotas, request_percentage=1.0)
    request = quotas.begin("u", "c")
    clock.ns = 100 * MS
    request.handled()
    clock.ns = 900 * MS
    request.handled()
    assert request.settle() == request.settle() == request.throttle_ms
    assert used_percent(quotas, 10) == pytest.approx(10)


def test_the_longest_throttle_applies(quotas):
    set_quotas(quotas, producer_byte_rate=100.0, controller_mutation_rate=1.0)
    request = quotas.begin("u", "c")
    assert request.may_change(13, strict=False)
    assert request.throttle_ms == 2_000
    request.produced(2_000)
    assert request.throttle_ms == 10_000
    assert request.may_change(1, strict=False)
    assert request.settle() == 10_000


def test_an_oversized_fetch_succeeds_only_as_the_first(quotas, clock):
    set_quotas(quotas, consumer_byte_rate=100.0)
    first, second = quotas.begin("u", "c"), quotas.begin("u", "c")
    assert first.fetched(5_000)
    assert first.throttle_ms == 40_000
    assert not second.fetched(1)
    assert second.throttle_ms == 40_010
    assert quotas.fetch.total("u", "c", 0) == 5_000


def test_a_fetch_within_the_quota_succeeds_after_another(quotas):
    set_quotas(quotas, consumer_byte_rate=100.0)
    assert quotas.begin("u", "c").fetched(400)
    request = quotas.begin("u", "c")
    assert request.fetched(600)
    assert request.throttle_ms == 0


def test_a_fetch_is_empty_while_handler_time_is_used_up(quotas, clock):
    set_quotas(quotas, consumer_byte_rate=100.0, request_percentage=1.0)
    request = quotas.begin("u", "c")
    clock.ns = 5_000 * MS
    assert not request.fetched(10)
    assert quotas.fetch.total("u", "c", 5_000) == 0


def test_a_client_without_an_id_is_measured_by_an_empty_one(quotas):
    set_quotas(quotas, entity_of([("client-id", None)]), producer_byte_rate=100.0)
    quotas.begin("u", None).produced(10)
    assert [it.client_id for it in quotas.statistics().produce] == [""]
