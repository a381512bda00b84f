"""Telemetry subscriptions and pushes, by the rules of Kafka's ClientMetricsManager."""

import time
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.config.properties import ConfigError
from pipeline_broker.state import client_metrics
from pipeline_broker.state.client_metrics import ClientMetrics, TelemetryError
from pipeline_broker.state.dynamic_settings import DynamicSettings

ID = b"sixteen bytes id"
CLIENT = {"client_id": "app-1", "client_software_name": "librdkafka", "client_source_address": "10.0.0.1"}
NOW = 1_000_000


@pytest.fixture
def cluster():
    return DynamicSettings()


def subscribe(cluster, name, **settings):
    cluster.durable(cluster.alter(("client-metrics", name), {k.replace("_", "."): v for k, v in settings.items()}))


def refusal(call, *arguments, **options):
    with pytest.raises(TelemetryError) as raised:
        call(*arguments, **options)
    return raised.value.code


def test_without_subscriptions_clients_push_no_metrics(cluster):
    told = ClientMetrics(cluster).subscription(ID, CLIENT, NOW)
    assert (told.metrics, told.push_interval_ms) == ((), 300_000)


def test_a_client_gets_the_union_of_matching_subscriptions(cluster):
    subscribe(cluster, "a", metrics="org.a,org.b", interval_ms="5000", match="client_id=app-.*")
    subscribe(cluster, "b", metrics="org.b,org.c", interval_ms="9000")
    subscribe(cluster, "c", metrics="org.d", interval_ms="100", match="client_id=app")
    told = ClientMetrics(cluster).subscription(ID, CLIENT, NOW)
    assert (told.metrics, told.push_interval_ms) == (("org.a", "org.b", "org.c"), 5000)


def test_every_pattern_must_match_as_a_whole(cluster):
    subscribe(cluster, "a", metrics="m", match="client_id=app-1,client_software_name=lib")
    assert ClientMetrics(cluster).subscription(ID, CLIENT, NOW).metrics == ()


def test_one_subscription_to_all_metrics_suffices(cluster):
    subscribe(cluster, "a", metrics="org.a")
    subscribe(cluster, "b", metrics="*")
    assert ClientMetrics(cluster).subscription(ID, CLIENT, NOW).metrics == ("*",)


def test_early_requests_are_throttled_until_the_interval_ends(cluster):
    metrics = ClientMetrics(cluster)
    told = metrics.subscription(ID, CLIENT, NOW)
    assert refusal(metrics.subscription, ID, CLIENT, NOW + 299_999) is ErrorCode.THROTTLING_QUOTA_EXCEEDED
    assert metrics.subscription(ID, CLIENT, NOW + 300_000) == told


@pytest.mark.parametrize("number", range(20))
def test_subscription_ids_are_int32_and_differ_between_clients(cluster, number):
    metrics = ClientMetrics(cluster)
    found = {metrics.subscription(bytes([number, each] * 8), CLIENT, NOW).subscription_id for each in range(20)}
    assert len(found) == 20
    assert all(-(2**31) <= each < 2**31 for each in found)


def test_a_changed_subscription_applies_at_once_and_invalidates_the_old_id(cluster):
    metrics = ClientMetrics(cluster)
    before = metrics.subscription(ID, CLIENT, NOW)
    subscribe(cluster, "a", metrics="org.a")
    push = metrics.check_push
    assert refusal(push, ID, CLIENT, before.subscription_id, NOW, is_last=False) is ErrorCode.UNKNOWN_SUBSCRIPTION_ID
    after = metrics.subscription(ID, CLIENT, NOW + 1)
    assert (after.metrics, after.subscription_id != before.subscription_id) == (("org.a",), True)


def test_the_first_push_may_come_any_time_and_later_ones_an_interval_apart(cluster):
    metrics = ClientMetrics(cluster)
    told = metrics.subscription(ID, CLIENT, NOW).subscription_id
    metrics.check_push(ID, CLIENT, told, NOW + 1, is_last=False)
    early = NOW + 300_000
    assert refusal(metrics.check_push, ID, CLIENT, told, early, is_last=False) is ErrorCode.THROTTLING_QUOTA_EXCEEDED
    metrics.check_push(ID, CLIENT, told, NOW + 300_001, is_last=False)


def test_the_last_push_may_come_early_and_later_pushes_are_rejected(cluster):
    metrics = ClientMetrics(cluster)
    told = metrics.subscription(ID, CLIENT, NOW).subscription_id
    metrics.check_push(ID, CLIENT, told, NOW, is_last=False)
    metrics.check_push(ID, CLIENT, told, NOW + 1, is_last=True)
    later = NOW + 900_000
    assert refusal(metrics.check_push, ID, CLIENT, told, later, is_last=False) is ErrorCode.INVALID_REQUEST


def test_after_an_unknown_codec_a_client_may_ask_once_at_once(cluster):
    metrics = ClientMetrics(cluster)
    told = metrics.subscription(ID, CLIENT, NOW).subscription_id
    code = refusal(metrics.check_push, ID, CLIENT, told, NOW, is_last=False, is_codec_known=False)
    assert code is ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    assert metrics.subscription(ID, CLIENT, NOW).subscription_id == told
    assert refusal(metrics.subscription, ID, CLIENT, NOW) is ErrorCode.THROTTLING_QUOTA_EXCEEDED


def test_an_id_that_no_client_got_is_unknown(cluster):
    code = refusal(ClientMetrics(cluster).check_push, ID, CLIENT, 7, NOW, is_last=False)
    assert code is ErrorCode.UNKNOWN_SUBSCRIPTION_ID


def test_only_the_last_clients_are_remembered(cluster, monkeypatch):
    monkeypatch.setattr(client_metrics, "CLIENTS_MAX", 3)
    metrics = ClientMetrics(cluster)
    for number in range(10):
        metrics.subscription(bytes([number]) * 16, CLIENT, NOW)
    assert len(metrics) == 3
    assert refusal(metrics.subscription, b"\x09" * 16, CLIENT, NOW) is ErrorCode.THROTTLING_QUOTA_EXCEEDED
    metrics.subscription(b"\x00" * 16, CLIENT, NOW)


def test_the_least_recently_used_clients_are_forgotten(cluster, monkeypatch):
    monkeypatch.setattr(client_metrics, "CLIENTS_MAX", 2)
    metrics = ClientMetrics(cluster)
    for number in (0, 1):
        metrics.subscription(bytes([number]) * 16, CLIENT, NOW)
    assert refusal(metrics.subscription, b"\x00" * 16, CLIENT, NOW) is ErrorCode.THROTTLING_QUOTA_EXCEEDED
    metrics.subscription(b"\x02" * 16, CLIENT, NOW)
    assert refusal(metrics.subscription, b"\x00" * 16, CLIENT, NOW) is ErrorCode.THROTTLING_QUOTA_EXCEEDED
    metrics.subscription(b"\x01" * 16, CLIENT, NOW)


def test_subscriptions_of_clients_are_bounded_in_bytes(cluster, monkeypatch):
    """A subscription may have 32 KB of names, and a client can invent any number of ids."""
    monkeypatch.setattr(client_metrics, "CLIENTS_BYTES_MAX", 100_000)
    subscribe(cluster, "a", metrics=",".join(f"org.{number}" for number in range(100)))
    metrics = ClientMetrics(cluster)
    for number in range(50):
        metrics.subscription(bytes([number]) * 16, CLIENT, NOW)
        assert metrics._clients_bytes == sum(client.size_bytes for client in metrics._clients.values()) <= 100_000
    assert 1 < len(metrics) < 20
    subscribe(cluster, "a", metrics="org.a")
    metrics.subscription(bytes([49]) * 16, CLIENT, NOW + 1)
    assert metrics._clients_bytes == sum(client.size_bytes for client in metrics._clients.values())


def test_patterns_are_compiled_once_and_bounded_for_all_subscriptions(cluster):
    metrics = ClientMetrics(cluster)
    for number in range(client_metrics.PATTERNS_MAX):
        settings = {"metrics": "m", "match": f"client_id=app-{number}"}
        metrics.check_room(f"s{number}", settings)
        subscribe(cluster, f"s{number}", **settings)
    assert metrics.subscription(ID, CLIENT, NOW).metrics == ("m",)
    assert metrics._patterns() is metrics._patterns()
    with pytest.raises(ConfigError, match="may have 100 patterns"):
        metrics.check_room("one more", {"match": "client_id=x"})
    metrics.check_room("one more", {"metrics": "m"})
    metrics.check_room("s1", {"match": "client_id=other"})


def test_subscriptions_beyond_the_matching_budget_do_not_match(cluster):
    for number in range(100):
        subscribe(cluster, f"s{number}", metrics=f"m{number}", match="client_id=(?:a?){400}a*")
    began = time.thread_time()
    told = ClientMetrics(cluster).subscription(ID, {**CLIENT, "client_id": "a" * 300}, NOW)
    assert len(told.metrics) < 10
    assert time.thread_time() - began < 0.2


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 400_000)), max_size=30))
def test_accepted_pushes_are_an_interval_apart_unless_the_client_asked_again(steps):
    metrics, now, taken, asked, refused = ClientMetrics(DynamicSettings()), NOW, [], [], set()
    for is_push, step_ms in steps:
        now += step_ms
        try:
            if is_push:
                told = metrics._known(ID, CLIENT).subscription.subscription_id
                metrics.check_push(ID, CLIENT, told, now, is_last=False)
                taken.append(now)
            else:
                metrics.subscription(ID, CLIENT, now)
                asked.append(now)
        except TelemetryError as error:
            refused.add(error.code)
    assert refused <= {ErrorCode.THROTTLING_QUOTA_EXCEEDED}
    for earlier, later in pairwise(taken):
        assert later - earlier >= 300_000 or any(earlier < each <= later for each in asked)


def test_after_a_new_request_the_first_push_may_come_any_time(cluster):
    subscribe(cluster, "a", metrics="m", interval_ms="1000")
    metrics = ClientMetrics(cluster)

    def push(now_ms):
        metrics.check_push(ID, CLIENT, told.subscription_id, now_ms, is_last=False)

    told = metrics.subscription(ID, CLIENT, NOW)
    push(NOW)
    assert refusal(push, NOW + 999) is ErrorCode.THROTTLING_QUOTA_EXCEEDED
    push(NOW + 1_000)
    told = metrics.subscription(ID, CLIENT, NOW + 2_000)
    push(NOW + 2_001)
    assert refusal(push, NOW + 3_000) is ErrorCode.THROTTLING_QUOTA_EXCEEDED
