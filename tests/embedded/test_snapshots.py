"""An embedded broker is put back to what it was, and its clock goes on."""

import socket
import struct
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from pipeline_broker import EmbeddedBroker
from pipeline_broker.embedded.errors import EmbeddedBrokerError
from pipeline_broker.embedded.life import MEMORY_DIRECTORY
from pipeline_broker.wire.registry import ApiKey

DAY = 86_400
SECONDS_MAX = 30.0


@pytest.fixture(params=["classic", "pipelined"])
def broker(request):
    with EmbeddedBroker(mode=request.param) as started:
        yield started


def values(broker, topic="t"):
    return [record.value for record in broker.records(topic)]


def test_a_snapshot_is_restored_as_often_as_one_likes(broker):
    broker.produce("t", "one")
    snapshot = broker.snapshot()
    assert snapshot.size_bytes > 0
    for _ in range(2):
        broker.produce("t", "two")
        broker.create_topic("u")
        assert values(broker) == [b"one", b"two"]
        broker.restore(snapshot)
        assert (broker.topics(), values(broker)) == ({"t": 1}, [b"one"])


def test_what_is_produced_behind_a_restore_goes_on_where_the_snapshot_ended(broker):
    broker.produce("t", "one")
    snapshot = broker.snapshot()
    broker.produce("t", "two")
    broker.restore(snapshot)
    assert broker.produce("t", "three").offset == 1


def test_a_snapshot_of_one_broker_begins_another(broker):
    broker.produce("t", "one")
    snapshot = broker.snapshot()
    with EmbeddedBroker(mode="pipelined" if broker.mode == "classic" else "classic") as other:
        other.restore(snapshot)
        assert values(other) == [b"one"]


def test_who_waits_while_the_broker_is_put_back_waits_for_what_comes_behind_that(broker):
    broker.produce("t", "one")
    snapshot = broker.snapshot()
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(broker.wait_records, "later", 2)
        wait_until(lambda: "later" in broker.topics_asked())
        broker.produce("later", "gone")
        broker.restore(snapshot)
        for value in ("two", "three"):
            broker.produce("later", value)
        assert [record.value for record in waiting.result()] == [b"two", b"three"]


def wait_until(is_so):
    deadline = time.monotonic() + SECONDS_MAX
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.001)


def ask_versions(address):
    """A request of a client that is answered."""
    host, _, port = address.rpartition(":")
    with socket.create_connection((host, int(port))) as client:
        client.sendall(struct.pack(">ihhih", 10, ApiKey.API_VERSIONS, 0, 1, -1))
        assert client.recv(4)
        client.recv(1 << 16)


def test_a_reset_leaves_nothing_but_the_address(broker):
    address = broker.bootstrap_servers
    broker.produce("t", "one")
    ask_versions(address)
    wait_until(broker.requests)
    broker.advance(DAY)
    broker.reset()
    assert (broker.topics(), broker.groups(), broker.requests()) == ({}, [], [])
    assert broker.bootstrap_servers == address
    assert broker.produce("t", "again").offset == 0


def test_a_reset_puts_the_clock_back(broker):
    before = broker.produce("t", "v").timestamp
    broker.advance(DAY)
    assert broker.produce("t", "v").timestamp >= before + DAY * 1000
    broker.reset()
    assert broker.produce("t", "v").timestamp < before + DAY * 1000


def test_a_restore_puts_the_clock_where_it_was(broker):
    broker.advance(DAY)
    before = broker.produce("t", "v").timestamp
    snapshot = broker.snapshot()
    broker.advance(DAY)
    broker.restore(snapshot)
    assert before <= broker.produce("t", "v").timestamp < before + DAY * 1000


def test_a_directory_has_no_snapshots(tmp_path):
    with EmbeddedBroker(data=tmp_path / "data") as broker:
        for ask in (broker.snapshot, broker.reset):
            with pytest.raises(EmbeddedBrokerError, match=r"a data directory cannot do this; start one without data=$"):
                ask()


def test_a_week_later_what_is_older_is_gone(broker):
    broker.create_topic("t", configs={"retention.ms": 7 * DAY * 1000})
    broker.produce("t", "old")
    broker.advance(6 * DAY)
    broker.produce("t", "new")
    assert values(broker) == [b"old", b"new"]
    broker.advance(8 * DAY)
    assert values(broker) == []


def test_time_does_not_go_back(broker):
    with pytest.raises(EmbeddedBrokerError, match="time does not go back"):
        broker.advance(-1)


def test_a_snapshot_that_no_broker_can_begin_with_ends_it_and_says_why(broker):
    snapshot = broker.snapshot()
    snapshot.files.open(MEMORY_DIRECTORY / "archive" / "manifest").write([b"damaged"], 0)
    with pytest.raises(EmbeddedBrokerError, match=r"^restore: /embedded: .*manifest"):
        broker.restore(snapshot)
    with pytest.raises(EmbeddedBrokerError, match=r"^the broker has ended$"):
        broker.topics()
    broker.close()
