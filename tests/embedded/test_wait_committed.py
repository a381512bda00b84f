"""Waits for the committed offsets of a group."""

import threading

import pytest
import trio
from confluent_kafka import Consumer, TopicPartition

from pipeline_broker import EmbeddedBroker
from pipeline_broker.embedded.errors import WaitTimeoutError

SECONDS_MAX = 30


@pytest.fixture
def broker():
    with EmbeddedBroker() as broker:
        broker.create_topic("t", partitions=3)
        for partition in (0, 0, 1):
            broker.produce("t", "value", partition=partition)
        yield broker


@pytest.fixture
def commit(broker):
    """Yield a function that commits offsets by partition without a member."""
    config = {"bootstrap.servers": broker.bootstrap_servers, "group.id": "g"}
    consumer = Consumer(config)

    def commit(offsets):
        places = [TopicPartition("t", partition, offset) for partition, offset in offsets.items()]
        consumer.commit(offsets=places, asynchronous=False)

    yield commit
    consumer.close()


def test_all_offsets_are_committed(broker, commit):
    commit({0: 1})
    committer = threading.Timer(0.05, commit, [{0: 2}])
    committer.start()
    assert broker.wait_committed("g", timeout=SECONDS_MAX) == {("t", 0): 2}
    committer.join()


def test_named_offsets_are_awaited(broker, commit):
    commit({0: 1, 1: 0})
    assert broker.wait_committed("g", {("t", 0): 1}, timeout=SECONDS_MAX) == {("t", 0): 1, ("t", 1): 0}
    assert broker.wait_committed("g", {("t", 1): 0}, timeout=SECONDS_MAX) == {("t", 0): 1, ("t", 1): 0}


def test_the_error_names_the_missing_commits(broker, commit):
    with pytest.raises(WaitTimeoutError, match=r"^the group 'g' has committed nothing, after 0.1 s$"):
        broker.wait_committed("g", timeout=0.1)
    commit({0: 1, 1: 1})
    with pytest.raises(WaitTimeoutError, match=r"^the group 'g' has committed t\[0\] 1 of 2, after 0.1 s$"):
        broker.wait_committed("g", timeout=0.1)
    with pytest.raises(WaitTimeoutError, match=r"committed t\[0\] 1 of 5, t\[2\] nothing of 1, after 0.1 s$"):
        broker.wait_committed("g", {("t", 0): 5, ("t", 1): 1, ("t", 2): 1}, timeout=0.1)
    with pytest.raises(WaitTimeoutError, match=r"committed t\[2\] nothing of 0, after 0.1 s$"):
        broker.wait_committed("g", {("t", 2): 0}, timeout=0.1)


def test_wait_committed_can_be_awaited(broker, commit):
    commit({0: 2})

    async def wait():
        assert await broker.wait_committed_async("g", timeout=SECONDS_MAX) == {("t", 0): 2}

    trio.run(wait)


def test_an_assigned_partition_with_records_and_no_commit_is_awaited(broker):
    config = {"bootstrap.servers": broker.bootstrap_servers, "group.id": "member", "enable.auto.commit": False}
    consumer = Consumer({**config, "auto.offset.reset": "earliest"})
    consumer.subscribe(["t"])
    assert consumer.poll(SECONDS_MAX) is not None
    consumer.commit(offsets=[TopicPartition("t", 0, 2)], asynchronous=False)
    with pytest.raises(WaitTimeoutError, match=r"committed t\[1\] nothing of 1, after 0.1 s$"):
        broker.wait_committed("member", timeout=0.1)
    consumer.commit(offsets=[TopicPartition("t", 1, 1)], asynchronous=False)
    assert broker.wait_committed("member", timeout=SECONDS_MAX) == {("t", 0): 2, ("t", 1): 1}
    consumer.close()
