"""Quotas with unmodified clients and real connections; time is real here, because theirs is."""

import time

import confluent_kafka
import pytest

from pipeline_broker.wire.messages.cluster.api_versions import ApiVersionsRequest, ApiVersionsResponse
from pipeline_broker.wire.messages.configs.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
)
from tests.apis.wire_client import WireClient
from tests.clients.conftest import SETTINGS

pytestmark = pytest.mark.clients

BYTES_PER_SECOND = 400_000
WINDOWS = 2
"""The rate is then steady; of more, the first burst comes back whenever its window ends, as in Apache Kafka."""
SETTLED_SECONDS = 2.0
MEASURED_SECONDS = 4.0
PERIODS_MAX = 3
"""One of them must hold the rate: a client that had no processor for a while catches up later, as the quota allows."""


def alter(client, kind, name, key, value):
    made = AlterClientQuotasRequest
    entry = made.EntryData([made.EntityData(kind, name)], [made.OpData(key, value or 0.0, value is None)])
    answer = client.ask(made([entry]), AlterClientQuotasResponse, 1)
    assert [one.error_code for one in answer.entries] == [0]


def test_a_produce_quota_holds_the_rate_of_a_producer(broker_process, mode, new_name):
    """Within 15 percent over a period, after the burst that the windows allow at first.

    No request waits for the disk: with 230 ms a sync, which a busy one takes, classic is slower than the quota.
    """
    settings = [*SETTINGS, f"quota.window.num={WINDOWS}"]
    broker = broker_process(mode=mode, settings=settings, arguments=["--flush", "os"])
    with WireClient(broker.host, broker.port) as admin:
        alter(admin, "client-id", "fast", "producer_byte_rate", float(BYTES_PER_SECOND))
    producer = confluent_kafka.Producer(
        {
            "bootstrap.servers": broker.bootstrap,
            "client.id": "fast",
            "linger.ms": 5,
            "batch.size": 10_000,
            "max.in.flight": 5,
        }
    )
    topic, value, delivered = new_name(), b"x" * 5_000, []
    producer.produce(topic, value)
    assert producer.flush(20) == 0

    def produce_for(seconds):
        delivered.clear()
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if len(producer) < 100:
                producer.produce(topic, value, on_delivery=lambda *_: delivered.append(value))
            producer.poll(0 if len(producer) < 100 else 0.01)
        return len(delivered) * len(value) / seconds

    produce_for(SETTLED_SECONDS)
    rates = [produce_for(MEASURED_SECONDS)]
    while rates[-1] != pytest.approx(BYTES_PER_SECOND, rel=0.15) and len(rates) < PERIODS_MAX:
        rates.append(produce_for(MEASURED_SECONDS))
    producer.purge()
    producer.flush(20)
    assert rates[-1] == pytest.approx(BYTES_PER_SECOND, rel=0.15), rates


def is_served(client):
    """Whether a connection is served; the broker closes those that it does not serve."""
    try:
        client.ask(ApiVersionsRequest("c", "1"), ApiVersionsResponse, 3)
    except (AssertionError, ConnectionError):
        return False
    return True


def test_an_address_that_connects_too_often_is_not_served(broker_process, mode):
    """Two a second, over two windows: of many at once some are served; without the quota all are."""
    broker = broker_process(mode=mode, settings=[*SETTINGS, "quota.window.num=2"])
    with WireClient(broker.host, broker.port) as admin:
        alter(admin, "ip", "127.0.0.1", "connection_creation_rate", 2.0)
        served = connect_many(broker)
        assert 1 <= sum(served) <= 10
        alter(admin, "ip", "127.0.0.1", "connection_creation_rate", None)
        assert all(connect_many(broker))


def connect_many(broker):
    clients = [WireClient(broker.host, broker.port) for _ in range(20)]
    try:
        return [is_served(client) for client in clients]
    finally:
        for client in clients:
            client.socket.close()
