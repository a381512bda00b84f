"""Clients of an embedded cluster in the same process: confluent-kafka, kafka-python, and that of this project."""

import logging
import threading

import pytest
from click.testing import CliRunner
from confluent_kafka import Consumer, Producer

from pipeline_broker import ErrorCode
from pipeline_broker.cli import main
from pipeline_broker.wire.messages.share.share_group_heartbeat import (
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
)
from tests.apis.wire_client import WireClient
from tests.clients.kafka_python_client import kafka
from tests.embedded.clusters import create_replicated, led_by, values

pytestmark = [
    pytest.mark.clients,
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),  # kafka-python leaves some to the collector
]

SECONDS_MAX = 30.0


class Background:
    """A producer of confluent-kafka that sends numbers from a thread until it is ended."""

    def __init__(self, cluster, topic):
        self.acknowledged, self.failed = [], []
        config = {"bootstrap.servers": cluster.bootstrap_servers, "enable.idempotence": True, "log_level": 0}
        self._producer, self._topic = Producer({**config, "linger.ms": 0}), topic
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self):
        number = 0
        while not self._is_over.is_set():
            value = str(number)
            self._producer.produce(self._topic, value, key=value, on_delivery=self._delivered)
            self._producer.poll(0.001)
            number += 1
        assert self._producer.flush(SECONDS_MAX) == 0

    def _delivered(self, error, message):
        (self.failed if error else self.acknowledged).append(error or message.value().decode())

    def end(self):
        self._is_over.set()
        self._thread.join()


@pytest.fixture
def background(cluster):
    made = []

    def make(topic):
        made.append(Background(cluster, topic))
        return made[-1]

    yield make
    for each in made:
        each.end()


def test_a_group_of_confluent_kafka_reads_all_brokers(cluster, topic):
    config = {"bootstrap.servers": cluster.bootstrap_servers, "group.id": "g", "auto.offset.reset": "earliest"}
    consumers = [Consumer({**config, "enable.auto.commit": False}) for _ in range(2)]
    for consumer in consumers:
        consumer.subscribe([topic])
    while not all(len(consumer.assignment()) == 3 for consumer in consumers):
        assert [consumer.poll(0.02) for consumer in consumers] == [None, None]
    (group,) = cluster.groups()
    assert group == cluster.wait_assigned("g", members=2)
    assert group.assigned == {(topic, number) for number in range(6)}
    cluster.wait_fetching(topic)
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers})
    for number in range(60):
        producer.produce(topic, str(number), partition=number % 6)
    assert producer.flush(SECONDS_MAX) == 0
    received = []
    for consumer in consumers:
        received += consumer.consume(30, SECONDS_MAX)
        consumer.commit(asynchronous=False)
    assert sorted(message.value().decode() for message in received) == values(cluster, topic)
    ends = cluster.wait_committed("g")
    assert ends == cluster.offsets("g") == {(topic, number): 10 for number in range(6)}
    assert set(cluster.lag("g").values()) == {0}
    for consumer in consumers:
        consumer.close()
    assert cluster.requests("OffsetCommit") == cluster.coordinator_of("g").requests("OffsetCommit") != []
    assert all(broker.requests("Fetch") for broker in cluster.brokers)


def test_kafka_python_writes_and_reads(cluster, topic):
    servers = cluster.bootstrap_servers.split(",")
    producer = kafka.KafkaProducer(bootstrap_servers=servers)
    for number in range(30):
        producer.send(topic, str(number).encode(), partition=number % 6).get(SECONDS_MAX)
    producer.close()
    consumer = kafka.KafkaConsumer(
        topic, bootstrap_servers=servers, group_id=topic, auto_offset_reset="earliest", consumer_timeout_ms=30_000
    )
    received = sorted(next(consumer).value.decode() for _ in range(30))
    consumer.close()
    assert received == values(cluster, topic) == sorted(map(str, range(30)))


def test_the_clients_of_this_project_write_and_read(cluster, topic):
    lines = "\n".join(map(str, range(30)))
    written = CliRunner().invoke(main, ["produce", "-b", cluster.bootstrap_servers, topic], input=lines)
    assert written.exit_code == 0, written.output
    read = CliRunner().invoke(main, ["consume", "-b", cluster.bootstrap_servers, topic, "--exit"])
    assert read.exit_code == 0, read.output
    assert sorted(read.stdout.split()) == values(cluster, topic) == sorted(map(str, range(30)))


def test_a_transaction_over_all_brokers_commits_or_aborts_as_a_whole(cluster, topic):
    for name, is_commit in (("committed", True), ("aborted", False)):
        producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "transactional.id": f"{topic}-{name}"})
        producer.init_transactions(SECONDS_MAX)
        producer.begin_transaction()
        for number in range(6):
            producer.produce(topic, f"{name}-{number}", partition=number)
        producer.flush(SECONDS_MAX)
        (producer.commit_transaction if is_commit else producer.abort_transaction)(SECONDS_MAX)
    wanted = [f"committed-{number}" for number in range(6)]
    cluster.assert_records(topic, wanted)
    assert len(cluster.records(topic, committed=False)) == 12


@pytest.mark.parametrize("node_id", [1, 2])
def test_no_record_is_lost_while_a_broker_is_stopped_and_started(cluster, topic, background, node_id):
    broker = cluster.brokers[node_id - 1]
    sent = background(topic)
    cluster.wait_records(topic, 20)
    cluster.stop(broker)
    elsewhere = min(led_by(cluster.brokers[2], topic))
    count = len(cluster.records(topic, partition=elsewhere))
    cluster.wait_records(topic, count + 5, partition=elsewhere)
    cluster.start(broker)
    sent.end()
    assert sent.failed == []
    assert values(cluster, topic) == sorted(sent.acknowledged)


def test_share_groups_have_no_coordinator_as_in_the_real_cluster(cluster, topic):
    request = ShareGroupHeartbeatRequest("g", "m", 0, subscribed_topic_names=[topic])
    for broker in cluster.brokers:
        with WireClient(*broker.addresses["PLAINTEXT"]) as client:
            answer = client.ask(request, ShareGroupHeartbeatResponse, 1)
        assert answer.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE


def test_confluent_kafka_takes_the_leader_that_a_refusal_names(cluster, caplog):
    """Its log shows the leader of the refusal (KIP-951), because librdkafka requests metadata as well."""
    create_replicated(cluster, topic := "replicated", 3, 3)
    _, old, new = cluster.brokers
    partition = min(led_by(old, topic))
    caplog.set_level(logging.DEBUG)
    config = {"bootstrap.servers": cluster.bootstrap_servers, "linger.ms": 0, "debug": "metadata"}
    producer = Producer(config, logger=logging.getLogger("librdkafka"))
    producer.produce(topic, "before", partition=partition)
    assert producer.flush(SECONDS_MAX) == 0
    cluster.move_leader(topic, partition, new)
    failed = []
    producer.produce(topic, "after", partition=partition, on_delivery=lambda error, _: error and failed.append(error))
    assert producer.flush(SECONDS_MAX) == 0
    assert not failed
    assert f"[{partition}]: updated with leader {new.node_id} and epoch 1" in caplog.text
    assert values(cluster, topic, partition=partition) == ["after", "before"]
