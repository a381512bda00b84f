"""Unmodified admin clients with a broker in its own process, in both modes."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import time

import confluent_kafka as ck
import pytest
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.admin import NewPartitions as AioNewPartitions
from aiokafka.admin import NewTopic as AioNewTopic
from confluent_kafka import admin as cka

from pipeline_broker.wire.messages.cluster.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from pipeline_broker.wire.messages.configs.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from tests.apis.wire_client import WireClient
from tests.conftest import start_broker
from tests.crashes.lengths import drawn

pytestmark = pytest.mark.clients
SECONDS_MAX = 20


@pytest.fixture(scope="module", params=drawn("pipelined", "classic"))
def broker(request, tmp_path_factory):
    """One broker for all clients, each with its own topics."""
    broker = start_broker(tmp_path_factory.mktemp("broker"), mode=request.param)
    yield broker
    broker.stop()
    broker.process.stdout.close()


def result(futures):
    """Return the result of the only future of a call."""
    (future,) = futures.values()
    return future.result(SECONDS_MAX)


def code_of(futures):
    with pytest.raises(ck.KafkaException) as caught:
        result(futures)
    return caught.value.args[0].code()


def configs(admin, resource):
    return {name: entry.value for name, entry in result(admin.describe_configs([resource])).items()}


def test_librdkafka_administers_topics(broker):
    admin = cka.AdminClient({"bootstrap.servers": broker.bootstrap})
    result(admin.create_topics([cka.NewTopic("t", 2, 1, config={"max.message.bytes": "1000"})]))
    result(admin.create_topics([cka.NewTopic("other", 2, 1)], validate_only=True))
    assert "t" in admin.list_topics(timeout=SECONDS_MAX).topics
    assert "other" not in admin.list_topics(timeout=SECONDS_MAX).topics
    assert code_of(admin.create_topics([cka.NewTopic("t", 2, 1)])) == ck.KafkaError.TOPIC_ALREADY_EXISTS
    wrong = cka.NewTopic("w", 1, 1, config={"retention.ms": "soon"})
    assert code_of(admin.create_topics([wrong])) == ck.KafkaError.INVALID_CONFIG
    result(admin.create_partitions([cka.NewPartitions("t", 5)]))
    assert code_of(admin.create_partitions([cka.NewPartitions("t", 3)])) == ck.KafkaError.INVALID_PARTITIONS
    described = result(admin.describe_topics(ck.TopicCollection(["t"])))
    assert len(described.partitions) == 5
    result(admin.delete_topics(["t"]))
    assert code_of(admin.delete_topics(["t"])) == ck.KafkaError.UNKNOWN_TOPIC_OR_PART


def test_librdkafka_reads_and_alters_settings_that_act_at_once(broker):
    admin = cka.AdminClient({"bootstrap.servers": broker.bootstrap})
    result(admin.create_topics([cka.NewTopic("altered", 1, 1)]))
    changes = [
        cka.ConfigEntry("max.message.bytes", "200", incremental_operation=cka.AlterConfigOpType.SET),
        cka.ConfigEntry("cleanup.policy", "compact", incremental_operation=cka.AlterConfigOpType.APPEND),
    ]
    resource = cka.ConfigResource(cka.ResourceType.TOPIC, "altered", incremental_configs=changes)
    result(admin.incremental_alter_configs([resource]))
    found = configs(admin, cka.ConfigResource(cka.ResourceType.TOPIC, "altered"))
    assert (found["max.message.bytes"], found["cleanup.policy"]) == ("200", "delete,compact")
    failures = []
    producer = ck.Producer({"bootstrap.servers": broker.bootstrap, "retries": 0})
    for key, size in ((b"k", 300), (None, 10), (b"k", 10)):
        producer.produce(
            "altered", b"x" * size, key, on_delivery=lambda error, _: failures.append(error and error.code())
        )
        assert producer.flush(SECONDS_MAX) == 0
    assert failures == [ck.KafkaError.MSG_SIZE_TOO_LARGE, ck.KafkaError.INVALID_RECORD, None]
    found = configs(admin, cka.ConfigResource(cka.ResourceType.BROKER, "1"))
    assert found["listeners"] == f"PLAINTEXT://{broker.bootstrap}"
    assert found["log.dirs"] == str(broker.data)
    assert "cleanup.policy" not in broker.stderr
    assert "max.message.bytes" not in broker.stderr


def is_served(broker):
    """Return whether the broker accepts one more connection."""
    with contextlib.suppress(AssertionError, ConnectionError), WireClient(broker.host, broker.port) as client:
        client.ask(DescribeClusterRequest(), DescribeClusterResponse, 0)
        return True
    return False


def alter_broker(client, **changes):
    configs = [
        IncrementalAlterConfigsRequest.AlterableConfig(name.replace("_", "."), 0 if value else 1, value)
        for name, value in changes.items()
    ]
    resource = IncrementalAlterConfigsRequest.AlterConfigsResource(4, "1", configs)
    request = IncrementalAlterConfigsRequest(resources=[resource])
    (response,) = client.ask(request, IncrementalAlterConfigsResponse, 1).responses
    assert (response.error_code, response.error_message) == (0, None)


@pytest.mark.parametrize("mode", ["classic", "pipelined"])
def test_settings_of_the_broker_act_on_its_connections_and_handlers(broker_process, mode):
    """Behaviour 103."""
    broker = broker_process(mode=mode)
    with WireClient(broker.host, broker.port) as client:
        alter_broker(client, max_connections_per_ip="1", num_io_threads="16")
        assert not is_served(broker)
        alter_broker(client, max_connections_per_ip=None, num_io_threads="8")
        alter_broker(client, num_io_threads="4")
        assert is_served(broker)
        alter_broker(client, max_connections_per_ip="1")
    broker.stop()
    again = broker_process(mode=mode, data=broker.data)
    with socket.create_connection((again.host, again.port)):
        deadline = time.monotonic() + SECONDS_MAX
        while is_served(again):  # until the previous connection has been accepted
            assert time.monotonic() < deadline


@pytest.mark.filterwarnings("ignore:(read|open)_text is deprecated:DeprecationWarning")  # by kafka-python, at import
def test_kafka_python_administers_topics(broker):
    import kafka
    from kafka.errors import TopicAlreadyExistsError

    admin = kafka.KafkaAdminClient(bootstrap_servers=broker.bootstrap)
    wanted = {"u": {"num_partitions": 2, "replication_factor": 1, "configs": {"retention.ms": "5000000"}}}
    admin.create_topics(wanted)
    assert "u" in admin.list_topics()
    with pytest.raises(TopicAlreadyExistsError):
        admin.create_topics(wanted)
    admin.create_partitions({"u": 4})
    assert len(admin.describe_topics(["u"])[0]["partitions"]) == 4
    admin.delete_topics(["u"])
    assert "u" not in admin.list_topics()
    admin.close()


def test_aiokafka_administers_topics(broker):
    async def administer(bootstrap):
        admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
        await admin.start()
        try:
            await admin.create_topics([AioNewTopic("u", 2, 1)])
            await admin.create_partitions({"u": AioNewPartitions(3)})
            (topic,) = await admin.describe_topics(["u"])
            assert len(topic["partitions"]) == 3
            await admin.delete_topics(["u"])
            assert "u" not in await admin.list_topics()
        finally:
            await admin.close()

    asyncio.run(administer(broker.bootstrap))
