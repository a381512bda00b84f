"""Fault rules of an embedded broker, made from the test's thread and met by real clients."""

import threading
import time

import pytest
from confluent_kafka import KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from pipeline_broker import EmbeddedBroker
from pipeline_broker.embedded.errors import EmbeddedBrokerError
from pipeline_broker.faults.names import FaultError

SECONDS_MAX = 10


@pytest.fixture
def broker():
    with EmbeddedBroker() as broker:
        yield broker


def error_of(broker, topic, **settings):
    """Produce a record; return the name of the client's error, or None."""
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "retries": 0, "linger.ms": 0, **settings})
    errors = []
    producer.produce(topic, b"value", on_delivery=lambda error, _: errors.append(error))
    producer.flush(SECONDS_MAX)
    return errors[0] and errors[0].name()


def test_the_request_that_a_rule_strikes_is_refused_and_no_other(broker):
    broker.create_topic("t")
    rule = broker.faults.when("Produce", topic="t", nth=2).error("TOPIC_AUTHORIZATION_FAILED")
    assert [error_of(broker, "t") for _ in range(3)] == [None, "TOPIC_AUTHORIZATION_FAILED", None]
    assert (rule.matched, rule.hits) == (3, 1)
    assert [found.number for found in broker.faults.rules] == [rule.number]
    assert len(broker.records("t")) == 2


def test_an_invalid_rule_raises_in_the_test(broker):
    with pytest.raises(FaultError, match="did you mean Produce"):
        broker.faults.when("Prduce")
    with pytest.raises(FaultError, match="needs a broker with its own process"):
        broker.faults.disk_when("sync").crash()
    with pytest.raises(TypeError, match=r"unknown condition 'topik'; use .*seed, times, topic"):
        broker.faults.when("Produce", topik="t")
    with pytest.raises(TypeError, match="unknown condition 'topic'; use every, nth, p, path, seed, times"):
        broker.faults.disk_when("sync", topic="t")
    with pytest.raises(FaultError, match=r"^requests of Produce name no group, so group would never match"):
        broker.faults.when("Produce", group="g")
    assert broker.faults.rules == []
    for api in ("FindCoordinator", "GroupCoordinator", "TransactionCoordinator", "DescribeGroups", "DeleteGroups"):
        assert broker.faults.when(api, group="g").drop().condition.group == "g"


def test_a_rule_can_be_released_while_a_call_waits_for_its_held_commit(broker):
    """`produce` waits for its commit, which a rule holds; the rule is released from another thread."""
    broker.create_topic("t")
    rule = broker.faults.disk_when("write").pause()
    writer = threading.Thread(target=broker.produce, args=("t", "held"))
    writer.start()
    deadline = time.monotonic() + SECONDS_MAX
    while not broker.faults.held_by(rule.number):
        assert time.monotonic() < deadline
        time.sleep(0.005)
    assert broker.faults.clear() == 1
    writer.join(SECONDS_MAX)
    assert [record.value for record in broker.records("t")] == [b"held"]


def test_a_broker_with_a_held_response_can_be_closed(broker):
    broker.create_topic("t")
    broker.faults.when("Metadata").drop()
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers, "log_level": 0})
    with pytest.raises(KafkaException):
        admin.list_topics(timeout=0.5)
    began = time.monotonic()
    broker.close()
    assert time.monotonic() - began < SECONDS_MAX


def test_rules_end_with_a_reset(broker):
    broker.faults.when("Metadata").drop()
    broker.reset()
    assert broker.faults.rules == []
    broker.create_topic("t")
    assert error_of(broker, "t") is None


def test_advance_ends_a_delay(broker):
    broker.create_topic("t")
    broker.faults.when("ListOffsets").delay(3600)
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers, "log_level": 0})
    from confluent_kafka.admin import OffsetSpec

    future = admin.list_offsets({TopicPartition("t", 0): OffsetSpec.latest()})[TopicPartition("t", 0)]
    deadline = time.monotonic() + SECONDS_MAX
    while not broker.faults.held_by(broker.faults.rules[0].number):
        assert time.monotonic() < deadline
        time.sleep(0.005)
    broker.advance(3600)
    assert future.result(SECONDS_MAX).offset == 0


def test_a_closed_broker_rejects_rules():
    broker = EmbeddedBroker().start()
    broker.close()
    with pytest.raises(EmbeddedBrokerError, match="closed"):
        broker.faults.when("Produce").drop()
