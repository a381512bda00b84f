"""Transactions of real clients: what commits is read, what aborts is not, and nobody reads what is open.

confluent-kafka, kafka-python and aiokafka write transactions of version 0, Apache Kafka's own client of version 2.
"""

import asyncio
import contextlib

import aiokafka
import confluent_kafka
import kafka
import pytest

from pipeline_broker.wire.messages.transactions.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
)
from tests.apis.wire_client import WireClient
from tests.clients.client import WAIT_SECONDS_MAX
from tests.clients.confluent_client import ConfluentClient
from tests.crashes.lengths import drawn
from tests.kafka_tools import kafka_tool

pytestmark = pytest.mark.clients
WRITTEN = [(b"1", True), (b"bad", False), (b"2", True)]


def confluent_writes(bootstrap, topic, name):
    producer = confluent_kafka.Producer({"bootstrap.servers": bootstrap, "transactional.id": name})
    producer.init_transactions(WAIT_SECONDS_MAX)
    for value, is_committed in WRITTEN:
        producer.begin_transaction()
        producer.produce(topic, value)
        producer.flush(WAIT_SECONDS_MAX)
        (producer.commit_transaction if is_committed else producer.abort_transaction)(WAIT_SECONDS_MAX)


def kafka_python_writes(bootstrap, topic, name):
    producer = kafka.KafkaProducer(bootstrap_servers=bootstrap, transactional_id=name)
    producer.init_transactions()
    for value, is_committed in WRITTEN:
        producer.begin_transaction()
        producer.send(topic, value)
        producer.flush(WAIT_SECONDS_MAX)
        (producer.commit_transaction if is_committed else producer.abort_transaction)()
    producer.close()


def aiokafka_writes(bootstrap, topic, name):
    async def write():
        producer = aiokafka.AIOKafkaProducer(bootstrap_servers=bootstrap, transactional_id=name)
        await producer.start()
        try:
            for value, is_committed in WRITTEN:
                await producer.begin_transaction()
                await producer.send_and_wait(topic, value)
                await (producer.commit_transaction() if is_committed else producer.abort_transaction())
        finally:
            await producer.stop()

    asyncio.run(write())


def read(bootstrap, topic, count, isolation="read_committed"):
    """Values from the beginning on."""
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "reader",
            "isolation.level": isolation,
            "enable.auto.commit": False,
            "enable.partition.eof": True,
        }
    )
    consumer.assign([confluent_kafka.TopicPartition(topic, 0, 0)])
    values = []
    with contextlib.closing(consumer):
        while (message := consumer.poll(WAIT_SECONDS_MAX)) is not None and message.error() is None:
            values.append(message.value())
    assert len(values) == count, values
    return values


@pytest.mark.parametrize("write", [confluent_writes, kafka_python_writes, aiokafka_writes])
def test_what_commits_is_read_and_what_aborts_is_not(broker, connect, new_name, write):
    topic = new_name()
    connect(ConfluentClient, broker.bootstrap).create_topic(topic, 1)
    write(broker.bootstrap, topic, new_name())
    assert read(broker.bootstrap, topic, 2) == [b"1", b"2"]
    assert read(broker.bootstrap, topic, 3, "read_uncommitted") == [b"1", b"bad", b"2"]


def test_an_open_transaction_is_hidden_and_fenced_by_the_next_producer(broker, connect, new_name):
    topic, name = new_name(), new_name()
    connect(ConfluentClient, broker.bootstrap).create_topic(topic, 1)
    settings = {"bootstrap.servers": broker.bootstrap, "transactional.id": name}
    old, new = confluent_kafka.Producer(settings), confluent_kafka.Producer(settings)
    old.init_transactions(WAIT_SECONDS_MAX)
    old.begin_transaction()
    old.produce(topic, b"open")
    old.flush(WAIT_SECONDS_MAX)
    assert read(broker.bootstrap, topic, 0) == []
    new.init_transactions(WAIT_SECONDS_MAX)
    with pytest.raises(confluent_kafka.KafkaException) as refused:
        old.commit_transaction(WAIT_SECONDS_MAX)
    assert refused.value.args[0].code() == confluent_kafka.KafkaError._FENCED
    new.begin_transaction()
    new.produce(topic, b"committed")
    new.commit_transaction(WAIT_SECONDS_MAX)
    assert read(broker.bootstrap, topic, 1) == [b"committed"]


@pytest.mark.parametrize("broker", drawn("classic", "pipelined"), indirect=True)
def test_kafkas_own_client_gives_each_transaction_an_epoch(broker, connect, new_name, tmp_path):
    topic, name = new_name(), new_name()
    connect(ConfluentClient, broker.bootstrap).create_topic(topic, 1)
    run = kafka_tool(tmp_path)
    run(
        "ProducerPerformance",
        *("--bootstrap-server", broker.bootstrap, "--topic", topic, "--num-records", "2000", "--record-size", "10"),
        *("--throughput", "-1", "--transactional-id", name, "--transaction-duration-ms", "10"),
    )
    read(broker.bootstrap, topic, 2000)
    with WireClient(broker.host, broker.port) as client:
        (found,) = client.ask(DescribeTransactionsRequest([name]), DescribeTransactionsResponse, 0).transaction_states
    assert found.transaction_state == "CompleteCommit"
    assert found.producer_epoch >= 1
    shown = run("TransactionsCommand", "--bootstrap-server", broker.bootstrap, "list").stdout
    assert name in shown
