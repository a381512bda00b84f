"""Clients of an embedded broker in the same process: confluent-kafka, kafka-python, aiokafka."""

import asyncio
import json
import queue
import threading

import pytest

from pipeline_broker import EmbeddedBroker
from pipeline_broker.embedded.errors import EmbeddedBrokerError
from tests.clients.kafka_python_client import kafka

pytestmark = [
    pytest.mark.clients,
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),  # kafka-python leaves some to the collector
]

HEARTBEAT_MS = 50
PATIENCE = 30.0
POLL_SECONDS = 0.02


@pytest.fixture(params=["classic", "pipelined"])
def broker(request):
    with EmbeddedBroker(mode=request.param) as started:
        yield started


class PolledConsumer:
    """A consumer of confluent-kafka, polled by a thread so that it takes part in rebalances."""

    def __init__(self, config, topics):
        from confluent_kafka import Consumer

        self._consumer = Consumer(config)
        self._consumer.subscribe(topics)
        self._messages = queue.SimpleQueue()
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._poll)
        self._thread.start()

    def _poll(self):
        while not self._is_over.is_set():
            message = self._consumer.poll(POLL_SECONDS)
            if message is not None and message.error() is None:
                self._messages.put(message)

    def next(self):
        return self._messages.get(timeout=PATIENCE)

    def close(self):
        self._is_over.set()
        self._thread.join()
        self._consumer.close()


@pytest.fixture
def consumer(broker):
    """Yield a function that starts polled consumers, and close all of them."""
    made = []

    def make(group, topics, **config):
        names = {name.replace("_", "."): value for name, value in config.items()}
        common = {"bootstrap.servers": broker.bootstrap_servers, "group.id": group, "auto.offset.reset": "earliest"}
        made.append(PolledConsumer({**common, "heartbeat.interval.ms": HEARTBEAT_MS, **names}, topics))
        return made[-1]

    yield make
    for each in made:
        each.close()


def test_records_pass_between_confluent_kafka_and_the_broker_in_both_directions(broker, consumer):
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    producer.produce("t", b"from the client", key=b"k", headers=[("h", b"1")])
    assert producer.flush(PATIENCE) == 0
    (record,) = broker.records("t")
    assert (record.key, record.value, record.headers) == (b"k", b"from the client", [("h", b"1")])
    broker.produce("t", "from here")
    reader = consumer("g", ["t"])
    assert [reader.next().value() for _ in range(2)] == [b"from the client", b"from here"]


def test_a_consumer_that_starts_at_the_end_misses_nothing_after_wait_fetching(broker, consumer):
    broker.create_topic("t")
    broker.produce("t", "before")
    reader = consumer("g", ["t"], auto_offset_reset="latest")
    broker.wait_fetching("t", timeout=PATIENCE)
    broker.produce("t", "behind")
    assert reader.next().value() == b"behind"


def test_a_group_is_awaited_and_described(broker, consumer):
    broker.create_topic("t", partitions=2)
    consumer("g", ["t"], client_id="one")
    consumer("g", ["t"], client_id="two")
    group = broker.wait_assigned("g", members=2, timeout=PATIENCE)
    assert (group.group_type, group.state, group.assigned) == ("classic", "Stable", {("t", 0), ("t", 1)})
    assert sorted(member.client_id for member in group.members) == ["one", "two"]
    assert {member.assigned for member in group.members} == {frozenset({("t", 0)}), frozenset({("t", 1)})}
    assert sorted(member.assignment["t"] for member in group.members) == [(0,), (1,)], "the name of earlier releases"
    assert broker.groups() == [group]
    assert broker.lag("g") == {("t", 0): None, ("t", 1): None}, "nothing is committed"
    with pytest.raises(EmbeddedBrokerError, match="members; name one; members: "):
        broker.expire_member("g")


def test_committed_offsets_and_lag_are_returned(broker):
    from confluent_kafka import Consumer

    for number in range(3):
        broker.produce("t", str(number))
    reader = Consumer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "group.id": "g",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    reader.subscribe(["t"])
    reader.commit(reader.poll(PATIENCE), asynchronous=False)
    reader.close()
    assert broker.offsets("g") == {("t", 0): 1}
    assert broker.lag("g") == {("t", 0): 2}
    assert broker.offsets("nobody") == {}


def test_an_expired_member_leaves_at_once_and_rejoins(broker, consumer):
    broker.create_topic("t")
    consumer("g", ["t"])
    (before,) = broker.wait_assigned("g", timeout=PATIENCE).members
    assert broker.expire_member("g") == before.member_id
    (after,) = broker.wait_assigned("g", timeout=PATIENCE).members
    assert after.member_id != before.member_id
    with pytest.raises(EmbeddedBrokerError, match="has no member 'stranger'"):
        broker.expire_member("g", "stranger")


def test_advance_expires_a_member(broker, consumer):
    broker.create_topic("t")
    consumer("g", ["t"], session_timeout_ms=30_000, heartbeat_interval_ms=10_000)
    (member,) = broker.wait_assigned("g", timeout=PATIENCE).members
    broker.advance(31)
    assert member not in [each for group in broker.groups() for each in group.members]


def test_members_of_a_kip_848_group_are_described_and_expired(broker, consumer):
    from confluent_kafka import Consumer

    broker.create_topic("t", partitions=2)
    reader = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "g", "group.protocol": "consumer"})
    try:
        reader.subscribe(["t"])
        group = broker.wait_assigned("g", timeout=PATIENCE)
        assert (group.group_type, group.assigned) == ("consumer", {("t", 0), ("t", 1)})
        assert broker.expire_member("g") == group.members[0].member_id
        assert group.members[0].member_id not in [each.member_id for each in broker.groups()[0].members]
    finally:
        reader.close()


def test_requests_are_remembered_with_stages_and_errors(broker, consumer):
    broker.create_topic("t")
    consumer("g", ["t"], client_id="watched")
    broker.wait_assigned("g", timeout=PATIENCE)
    joins = broker.requests("JoinGroup")
    assert joins[0].errors == ("MEMBER_ID_REQUIRED",)
    assert {request.client_id for request in joins} == {"watched"}
    assert all(request.stages.total_ns >= request.stages.local_ns >= 0 for request in broker.requests())
    assert {request.api for request in broker.requests()} > {"ApiVersions", "Metadata", "FindCoordinator"}
    assert broker.requests("Produce") == []


def test_requests_are_written_as_spans(broker, consumer, tmp_path):
    broker.create_topic("t")
    consumer("g", ["t"], client_id="watched")
    broker.wait_assigned("g", timeout=PATIENCE)
    written = broker.write_spans(tmp_path / "spans.json", "JoinGroup")
    (service,) = json.loads((tmp_path / "spans.json").read_text())["resourceSpans"]
    spans = service["scopeSpans"][0]["spans"]
    outer = [span for span in spans if span["name"] == "JoinGroup broker"]
    assert len(outer) == written > 0
    attributes = {it["key"]: it["value"] for it in outer[0]["attributes"]}
    assert attributes["kafka.client_id"] == {"stringValue": "watched"}
    assert {"queue", "handler", "response"} <= {span["name"] for span in spans}


def test_kafka_python_produces_and_consumes(broker):
    producer = kafka.KafkaProducer(bootstrap_servers=broker.bootstrap_servers)
    assert producer.send("t", b"value").get(PATIENCE).offset == 0
    producer.close(PATIENCE)
    reader = kafka.KafkaConsumer(
        "t",
        bootstrap_servers=broker.bootstrap_servers,
        group_id="g",
        auto_offset_reset="earliest",
        consumer_timeout_ms=PATIENCE * 1000,
    )
    assert next(reader).value == b"value"
    reader.close()
    assert broker.offsets("g") == {("t", 0): 1}


def test_aiokafka_and_the_test_share_an_event_loop(broker):
    from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

    async def main():
        consumer = AIOKafkaConsumer(
            "t", bootstrap_servers=broker.bootstrap_servers, group_id="g", auto_offset_reset="latest"
        )
        await consumer.start()
        await broker.wait_assigned_async("g", timeout=PATIENCE)
        fetching = asyncio.create_task(consumer.getone())
        await broker.wait_fetching_async("t", timeout=PATIENCE)
        async with AIOKafkaProducer(bootstrap_servers=broker.bootstrap_servers) as producer:
            await producer.send_and_wait("t", b"value")
        (record,) = await broker.wait_records_async("t", timeout=PATIENCE)
        try:
            return record.value, (await asyncio.wait_for(fetching, PATIENCE)).value
        finally:
            await consumer.stop()

    broker.create_topic("t")
    assert asyncio.run(main()) == (b"value", b"value")


def test_a_producer_continues_after_a_reset(broker):
    producer = kafka.KafkaProducer(bootstrap_servers=broker.bootstrap_servers)
    producer.send("t", b"before").get(PATIENCE)
    broker.reset()
    producer.send("t", b"behind").get(PATIENCE)
    producer.close(PATIENCE)
    assert [record.value for record in broker.records("t")] == [b"behind"]
