"""Snapshots, resets and the clock of an embedded broker."""

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


@pytest.fixture
def broker():
    with EmbeddedBroker() as started:
        yield started


def values(broker, topic="t"):
    return [record.value for record in broker.records(topic)]


def test_a_snapshot_can_be_restored_several_times(broker):
    broker.produce("t", "one")
    snapshot = broker.snapshot()
    assert snapshot.size_bytes > 0
    for _ in range(2):
        broker.produce("t", "two")
        broker.create_topic("u")
        assert values(broker) == [b"one", b"two"]
        broker.restore(snapshot)
        assert (broker.topics(), values(broker)) == ({"t": 1}, [b"one"])


def test_records_after_a_restore_continue_the_offsets_of_the_snapshot(broker):
    broker.produce("t", "one")
    snapshot = broker.snapshot()
    broker.produce("t", "two")
    broker.restore(snapshot)
    assert broker.produce("t", "three").offset == 1


def test_a_snapshot_can_be_restored_to_another_broker(broker):
    broker.produce("t", "one")
    snapshot = broker.snapshot()
    with EmbeddedBroker(mode="pipelined" if broker.mode == "classic" else "classic") as other:
        other.restore(snapshot)
        assert values(other) == [b"one"]


def test_a_wait_during_a_restore_continues_with_the_restored_broker(broker):
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
    """Send an ApiVersions request, and expect a response."""
    host, _, port = address.rpartition(":")
    with socket.create_connection((host, int(port))) as client:
        client.sendall(struct.pack(">ihhih", 10, ApiKey.API_VERSIONS, 0, 1, -1))
        assert client.recv(4)
        client.recv(1 << 16)


def test_a_reset_keeps_only_the_address(broker):
    address = broker.bootstrap_servers
    broker.produce("t", "one")
    ask_versions(address)
    wait_until(broker.requests)
    broker.advance(DAY)
    broker.reset()
    assert (broker.topics(), broker.groups(), broker.requests()) == ({}, [], [])
    assert broker.bootstrap_servers == address
    assert broker.produce("t", "again").offset == 0


def test_a_reset_resets_the_clock(broker):
    before = broker.produce("t", "v").timestamp
    broker.advance(DAY)
    assert broker.produce("t", "v").timestamp >= before + DAY * 1000
    broker.reset()
    assert broker.produce("t", "v").timestamp < before + DAY * 1000


def test_a_restore_restores_the_clock(broker):
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


def test_advance_deletes_expired_records(broker):
    broker.create_topic("t", configs={"retention.ms": 7 * DAY * 1000})
    broker.produce("t", "old")
    broker.advance(6 * DAY)
    broker.produce("t", "new")
    assert values(broker) == [b"old", b"new"]
    broker.advance(8 * DAY)
    assert values(broker) == []


def test_the_clock_cannot_move_backwards(broker):
    with pytest.raises(EmbeddedBrokerError, match="the clock cannot move backwards"):
        broker.advance(-1)


def test_a_damaged_snapshot_ends_the_broker_with_the_reason(broker):
    snapshot = broker.snapshot()
    snapshot.files[0].open(MEMORY_DIRECTORY / "archive" / "manifest").write([b"damaged"], 0)
    with pytest.raises(EmbeddedBrokerError, match=r"^restore: /embedded: .*manifest"):
        broker.restore(snapshot)
    with pytest.raises(EmbeddedBrokerError, match=r"^the broker has ended; start another one$"):
        broker.topics()
    broker.close()
