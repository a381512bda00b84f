"""Groups of KIP-848 with librdkafka and Java: sharing, takeover, regular expressions, migration, restart."""

from __future__ import annotations

import time

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient

from tests.clients.client import Message, wait_until, write
from tests.clients.confluent_client import ConfluentClient
from tests.clients.conftest import SETTINGS
from tests.crashes.lengths import drawn
from tests.kafka_tools import kafka_tool

pytestmark = pytest.mark.clients
PARTITIONS = 4
HASTY = ("group.consumer.min.heartbeat.interval.ms=500", "group.consumer.heartbeat.interval.ms=500")
"""Members hear of changes within half a second, not within five."""


@pytest.fixture
def served(broker_process, mode, connect):
    broker = broker_process(mode=mode, settings=[*SETTINGS, *HASTY])
    return connect(ConfluentClient, broker.bootstrap)


@pytest.fixture
def consumer(served):
    """Makes consumers; the ones that are left are closed at the end."""
    made = []

    def make(group, subscription, protocol="consumer", **more):
        settings = {
            "bootstrap.servers": served.common["bootstrap.servers"],
            "group.id": group,
            "auto.offset.reset": "earliest",
        }
        made.append(confluent_kafka.Consumer({**settings, "group.protocol": protocol, **more}))
        made[-1].subscribe([subscription])
        return made[-1]

    yield make
    for each in made:
        each.close()


def owned(member, topic):
    return sorted(partition.partition for partition in member.assignment() if partition.topic == topic)


def poll(members, condition, what):
    """Poll all members until it holds; the values that they read."""
    values = []

    def polled():
        for member in members:
            message = member.poll(0.05)
            if message is not None:
                assert message.error() is None, message.error()
                values.append(message.value())
        return condition(values)

    wait_until(polled, what)
    return values


def shared(members, topic):
    parts = [owned(member, topic) for member in members]
    return all(parts) and sorted(partition for part in parts for partition in part) == list(range(PARTITIONS))


def test_two_members_share_a_topic_and_one_takes_over(served, consumer, new_name):
    topic, group = new_name(), new_name()
    served.create_topic(topic, PARTITIONS)
    members = [consumer(group, topic) for _ in range(2)]
    poll(members, lambda _: shared(members, topic), "sharing the partitions")
    sent = [b"%d" % number for number in range(40)]
    write(served, topic, *(Message(value, partition=number % PARTITIONS) for number, value in enumerate(sent)))
    assert sorted(poll(members, lambda values: len(values) >= len(sent), "reading by two")) == sorted(sent)
    for member in members:
        member.commit(asynchronous=False)
    members.pop().close()
    poll(members, lambda _: shared(members, topic), "taking over")
    write(served, topic, *(Message(b"late", partition=partition) for partition in range(PARTITIONS)))
    assert poll(members, lambda values: len(values) >= PARTITIONS, "reading alone") == [b"late"] * PARTITIONS


def test_a_regular_expression_finds_topics_that_come_later(served, consumer, new_name):
    prefix, group = new_name(), new_name()
    served.create_topic(f"{prefix}.a", 1)
    write(served, f"{prefix}.a", Message(b"a"))
    member = consumer(group, f"^{prefix}\\..*")
    poll([member], lambda values: values == [b"a"], "reading what is there")
    served.create_topic(f"{prefix}.b", 1)
    write(served, f"{prefix}.b", Message(b"b"))
    poll([member], lambda values: values == [b"b"], "reading what came later")


def test_members_of_both_protocols_share_and_the_group_goes_back(served, consumer, new_name):
    """Online migration both ways with real clients: every message is read once on the way."""
    topic, group = new_name(), new_name()
    served.create_topic(topic, PARTITIONS)
    classic = {"protocol": "classic", "partition.assignment.strategy": "cooperative-sticky"}
    old = consumer(group, topic, **classic, **{"heartbeat.interval.ms": 300, "session.timeout.ms": 10_000})
    poll([old], lambda _: shared([old], topic), "owning all alone")
    new = consumer(group, topic)
    members = [old, new]
    poll(members, lambda _: shared(members, topic), "sharing across protocols")
    admin = AdminClient({"bootstrap.servers": served.common["bootstrap.servers"]})
    described = admin.describe_consumer_groups([group])[group].result(10)
    assert (described.type.name, len(described.members)) == ("CONSUMER", 2)
    sent = [b"%d" % number for number in range(40)]
    write(served, topic, *(Message(value, partition=number % PARTITIONS) for number, value in enumerate(sent)))
    assert sorted(poll(members, lambda values: len(values) >= len(sent), "reading by both")) == sorted(sent)
    old.commit(asynchronous=False)
    new.commit(asynchronous=False)
    new.close()
    poll([old], lambda _: shared([old], topic), "owning all again")
    assert admin.describe_consumer_groups([group])[group].result(10).type.name == "CLASSIC"


def test_a_member_goes_on_over_a_restart_of_the_broker(broker_process, mode, connect, consumer_of, new_name):
    topic, group = new_name(), new_name()
    settings = [*SETTINGS, *HASTY]
    broker = broker_process(mode=mode, settings=settings)
    client = connect(ConfluentClient, broker.bootstrap)
    client.create_topic(topic, PARTITIONS)
    write(client, topic, Message(b"before"))
    member = consumer_of(broker.bootstrap, group, topic)
    poll([member], lambda values: values == [b"before"], "reading")
    member.commit(asynchronous=False)
    broker.stop()
    broker = broker_process(mode=mode, settings=settings, arguments=["--port", str(broker.port)])
    write(connect(ConfluentClient, broker.bootstrap), topic, Message(b"after"))
    poll([member], lambda values: values == [b"after"], "reading on")


@pytest.fixture
def consumer_of():
    made = []

    def make(bootstrap, group, topic):
        settings = {"bootstrap.servers": bootstrap, "group.id": group, "auto.offset.reset": "earliest"}
        made.append(confluent_kafka.Consumer({**settings, "group.protocol": "consumer"}))
        made[-1].subscribe([topic])
        return made[-1]

    yield make
    for each in made:
        each.close()


ATTEMPTS_MAX = 5
KAFKAS_DELAY_SECONDS = 3.0
"""For which the coordinator of classic groups waits for others to join."""


def test_a_group_of_one_has_its_first_record_soon(served, consumer, new_name):
    """From `subscribe` to the record: librdkafka needs some rounds of requests, the broker adds no delay of its own."""
    topic = new_name()
    served.create_topic(topic, 1)
    write(served, topic, Message(b"first"))
    poll([consumer(new_name(), topic)], lambda values: values == [b"first"], "loading what groups need")
    for _ in range(ATTEMPTS_MAX):  # a busy machine may be slow by itself
        began = time.monotonic()
        poll([consumer(new_name(), topic)], lambda values: values == [b"first"], "the first record")
        if time.monotonic() - began < KAFKAS_DELAY_SECONDS:
            return
    raise AssertionError(f"no group had its first record within {KAFKAS_DELAY_SECONDS} s")


@pytest.mark.parametrize("mode", drawn("classic", "pipelined"))
def test_javas_console_consumer_reads_on_where_it_stopped(broker_process, mode, tmp_path, new_name):
    topic, group = new_name(), new_name()
    run = kafka_tool(tmp_path)
    broker = broker_process(mode=mode, settings=SETTINGS)
    server = ("--bootstrap-server", broker.bootstrap)
    lines = [f"value-{number}" for number in range(20)]
    run("ConsoleProducer", *server, "--topic", topic, text="\n".join(lines))

    def read(count):
        reader = ("--topic", topic, "--group", group, "--from-beginning", "--timeout-ms", "30000")
        protocol = ("--command-property", "group.protocol=consumer", "--max-messages", str(count))
        return run("consumer.ConsoleConsumer", *server, *reader, *protocol).stdout.splitlines()

    assert read(12) + read(8) == lines
    state = run("consumer.group.ConsumerGroupCommand", *server, "--describe", "--group", group, "--state").stdout
    assert "uniform" in state
    assert "Empty" in state
    listed = run("consumer.group.ConsumerGroupCommand", *server, "--list", "--type", "consumer").stdout
    assert group in listed
