"""Unmodified clients under faults: retries without duplicates, and detection of damage."""

import asyncio
import time

import pytest
from click.testing import CliRunner

from pipeline_broker.cli import main

pytestmark = [pytest.mark.clients]

each_mode = pytest.mark.parametrize("mode", ["classic", "pipelined"])
SECONDS_MAX = 30
COUNT = 20
SETTINGS = ["group.initial.rebalance.delay.ms=0", "offsets.topic.num.partitions=1"]


def faults(broker, *arguments):
    result = CliRunner().invoke(main, ["faults", *arguments, "--data", str(broker.data)])
    assert result.exit_code == 0, result.output
    return result.output


def hits_of(broker, number):
    """Return the hits of a rule."""
    (line,) = [line for line in faults(broker, "list").splitlines() if line.startswith(f"{number} ")]
    return int(line.rpartition("(")[2].split()[0])


def librdkafka_producer(broker, **more):
    from confluent_kafka import Producer

    # broker errors are expected: each is retried
    return Producer(
        {"bootstrap.servers": broker.bootstrap, "linger.ms": 0, "log_level": 0, "error_cb": lambda error: None, **more}
    )


def values(broker, count):
    """Return the values in partition 0 of `t`, which must be exactly `count`."""
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "reader", "enable.auto.commit": False})
    consumer.assign([TopicPartition("t", 0, 0)])
    found, deadline = [], time.monotonic() + SECONDS_MAX
    while len(found) < count:
        assert time.monotonic() < deadline, f"{len(found)} of {count} came"
        message = consumer.poll(0.5)
        if message is not None and message.error() is None:
            found.append(message.value())
    assert consumer.get_watermark_offsets(TopicPartition("t", 0))[1] == count
    consumer.close()
    return found


@each_mode
@pytest.mark.parametrize(
    "fault",
    [["error=NOT_LEADER_OR_FOLLOWER"], ["error=NOT_ENOUGH_REPLICAS", "when=after"], ["disconnect=after"]],
    ids=["error", "error after handling", "disconnected"],
)
def test_an_idempotent_producer_of_librdkafka_retries_without_duplicates(broker_process, mode, fault):
    broker = broker_process(mode=mode, settings=SETTINGS)
    producer = librdkafka_producer(broker, **{"enable.idempotence": True, "retry.backoff.ms": 10})
    producer.produce("t", b"first")
    assert producer.flush(SECONDS_MAX) == 0
    faults(broker, "add", "api=Produce", "topic=t", "times=3", *fault)
    for number in range(COUNT):
        producer.produce("t", b"%d" % number)
        producer.poll(0)
    assert producer.flush(SECONDS_MAX) == 0
    assert hits_of(broker, 1) == 3
    assert values(broker, COUNT + 1) == [b"first", *(b"%d" % number for number in range(COUNT))]


@each_mode
@pytest.mark.filterwarnings("ignore:(read|open)_text is deprecated:DeprecationWarning")  # by kafka-python, at import
def test_kafka_python_retries_retriable_errors(broker_process, mode):
    from kafka import KafkaProducer

    broker = broker_process(mode=mode, settings=SETTINGS)
    producer = KafkaProducer(bootstrap_servers=broker.bootstrap, retry_backoff_ms=10)
    producer.send("t", b"first").get(SECONDS_MAX)
    faults(broker, "add", "api=Produce", "times=2", "error=NOT_LEADER_OR_FOLLOWER")
    assert producer.send("t", b"second").get(SECONDS_MAX).offset == 1
    producer.close()
    assert hits_of(broker, 1) == 2


@each_mode
def test_aiokafka_raises_fatal_errors(broker_process, mode):
    from aiokafka import AIOKafkaProducer
    from aiokafka.errors import TopicAuthorizationFailedError

    broker = broker_process(mode=mode, settings=SETTINGS)

    async def produce():
        async with AIOKafkaProducer(bootstrap_servers=broker.bootstrap) as producer:
            await producer.send_and_wait("t", b"first")
            faults(broker, "add", "api=Produce", "times=1", "error=TOPIC_AUTHORIZATION_FAILED")
            with pytest.raises(TopicAuthorizationFailedError):
                await producer.send_and_wait("t", b"refused")
            return (await producer.send_and_wait("t", b"second")).offset

    assert asyncio.run(asyncio.wait_for(produce(), SECONDS_MAX)) == 1


@each_mode
def test_a_consumer_that_checks_checksums_detects_a_wrong_one(broker_process, mode):
    from confluent_kafka import Consumer, KafkaError, TopicPartition

    broker = broker_process(mode=mode, settings=SETTINGS)
    producer = librdkafka_producer(broker)
    producer.produce("t", b"value")
    assert producer.flush(SECONDS_MAX) == 0
    faults(broker, "add", "api=Fetch", "topic=t", "times=1", "corrupt_crc")
    consumer = Consumer(
        {"bootstrap.servers": broker.bootstrap, "group.id": "g", "check.crcs": True, "enable.auto.commit": False}
    )
    consumer.assign([TopicPartition("t", 0, 0)])
    met, deadline = [], time.monotonic() + SECONDS_MAX
    while not met or met[-1] != b"value":
        assert time.monotonic() < deadline, met
        message = consumer.poll(0.5)
        if message is not None:
            met.append(message.error().code() if message.error() else message.value())
    consumer.close()
    assert met == [KafkaError._BAD_MSG, b"value"]


@each_mode
def test_members_survive_a_loading_coordinator_and_an_expiry(broker_process, mode):
    from confluent_kafka import Consumer

    broker = broker_process(mode=mode, settings=SETTINGS)
    producer = librdkafka_producer(broker)
    producer.produce("t", b"value")
    assert producer.flush(SECONDS_MAX) == 0
    faults(broker, "add", "api=GroupCoordinator", "group=g", "times=2", "error=COORDINATOR_LOAD_IN_PROGRESS")
    assigned = []
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap,
            "group.id": "g",
            "heartbeat.interval.ms": 100,
            "session.timeout.ms": 6000,
            "auto.offset.reset": "earliest",
        }
    )
    consumer.subscribe(["t"], on_assign=lambda _, partitions: assigned.append(partitions))
    deadline = time.monotonic() + SECONDS_MAX

    def poll_until(is_true):
        while not is_true():
            assert time.monotonic() < deadline, "the group does not settle"
            consumer.poll(0.05)

    poll_until(lambda: len(assigned) == 1)
    assert hits_of(broker, 1) == 2
    faults(broker, "expire", "g")
    poll_until(lambda: len(assigned) == 2)
    faults(broker, "rebalance", "g")
    poll_until(lambda: len(assigned) == 3)
    consumer.close()
