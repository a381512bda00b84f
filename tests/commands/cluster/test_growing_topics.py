"""`consume --follow` on topics with partitions that are added later: no record is skipped, also by a group."""

import threading

import pytest
from confluent_kafka.admin import AdminClient, NewPartitions

from pipeline_broker.client import consumer, group_member

SECONDS_MAX = 20
PARTITION_CHECK_S = 0.1
pytestmark = pytest.mark.clients


@pytest.fixture(autouse=True)
def looks_often(monkeypatch):
    monkeypatch.setattr(consumer, "PARTITION_CHECK_S", PARTITION_CHECK_S)
    monkeypatch.setattr(group_member, "PARTITION_CHECK_S", PARTITION_CHECK_S)
    monkeypatch.setattr(group_member, "HEARTBEAT_S", PARTITION_CHECK_S)


def grow(broker, topic, count):
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    admin.create_partitions([NewPartitions(topic, count)])[topic].result(SECONDS_MAX)


def while_it_is_read(broker, topic, work):
    """Run a function in a thread once a reader of the topic has reached the end."""
    thread = threading.Thread(target=lambda: (broker.wait_fetching(topic), work()))
    thread.start()
    return thread


@pytest.mark.parametrize(("start", "group"), [("beginning", False), ("end", False), ("end", True)])
def test_an_added_partition_is_read_from_its_beginning(call, one_broker, name, start, group):
    one_broker.create_topic(name, partitions=1)

    def work():
        grow(one_broker, name, 3)
        one_broker.produce(name, "first", partition=2)
        one_broker.wait_fetching(name)
        one_broker.produce(name, "second", partition=1)

    writer = while_it_is_read(one_broker, name, work)
    options = ["--group", name] if group else []
    called = call("consume", name, "--follow", "-o", start, "-c", 2, *options)
    writer.join()
    assert called.lines == ["first", "second"]
    assert called.err == ""
    if group:
        assert one_broker.offsets(name) == {(name, 1): 1, (name, 2): 1}


def test_with_a_named_partition_no_other_is_read(call, one_broker, name):
    one_broker.create_topic(name, partitions=1)

    def work():
        grow(one_broker, name, 2)
        one_broker.produce(name, "other", partition=1)
        for _ in range(3):  # a look or two, had there been any
            asked = len(one_broker.requests("Fetch"))
            while len(one_broker.requests("Fetch")) == asked:
                pass
        one_broker.produce(name, "own", partition=0)

    writer = while_it_is_read(one_broker, name, work)
    assert call("consume", name, "--follow", "-p", 0, "-c", 1).lines == ["own"]
    writer.join()


def test_a_member_that_is_not_the_leader_gets_added_partitions_too(call, one_broker, name):
    """The leader, another client, reassigns; this command only follows."""
    one_broker.create_topic(name, partitions=2)
    leader = group_reader(one_broker, name)
    stop = threading.Event()

    def lead():
        while not stop.is_set():
            leader.poll(0.05)
        leader.close()

    def work():
        one_broker.wait_assigned(name, members=2)
        grow(one_broker, name, 4)
        one_broker.wait_fetching(name)
        for partition in range(4):
            one_broker.produce(name, f"{partition}", partition=partition)

    threads = [threading.Thread(target=lead), threading.Thread(target=work)]
    threads[0].start()
    one_broker.wait_assigned(name)
    threads[1].start()
    lines = call("consume", name, "--follow", "-g", name, "-c", 2).lines
    stop.set()
    for thread in threads:
        thread.join()
    assert len(lines) == 2
    assert set(lines) <= {"0", "1", "2", "3"}


def group_reader(broker, topic):
    from confluent_kafka import Consumer

    reader = Consumer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "group.id": topic,
            "auto.offset.reset": "earliest",
            "topic.metadata.refresh.interval.ms": 100,
            "heartbeat.interval.ms": 100,
        }
    )
    reader.subscribe([topic])
    return reader
