"""Many connections that do little or the wrong thing: what each of them costs, and that others are served meanwhile.

Rules: the broker's memory and sockets are looked at from outside. LONG=1 in the environment makes crowds as large as
they are in the worst case.
"""

import os
import socket
import struct
from contextlib import ExitStack

import pytest

from pipeline_broker.log.partition.tail_cache import CACHE_BYTES_MAX
from pipeline_broker.records.batch import NewRecord, build_batch
from pipeline_broker.wire.messages.cluster.api_versions import ApiVersionsRequest
from tests.bad_input.conftest import PRODUCE_VERSION
from tests.bad_input.raw_client import (
    WAIT_SECONDS_MAX,
    RawClient,
    batch_of,
    create_topic,
    fetch_request,
    frame_of,
    produce_answers,
    produce_request,
    wait_until,
)

LONG = os.environ.get("LONG") == "1"
MEGABYTE = 1 << 20
GROUP = 40
LORIS_COUNT = 1000
IDLE_COUNT = 10_000 if LONG else 1000
STORM_COUNT = 60_000 if LONG else 1500
READERS = 100 if LONG else 12
CONNECTION_BYTES_MAX = 25_000
"""What one connection may cost of the broker's memory."""
GROWTH_BYTES_MAX = 10 * MEGABYTE
"""What bad input may cost beyond that."""
LEFT_BYTES_MAX = 3 * MEGABYTE
"""What may be left of a crowd that has gone: less than one large answer, or 4 KB for each connection of a storm."""
UNSENT_BYTES_MAX = 8 * MEGABYTE
READ_BYTES_MAX = 4 * MEGABYTE
"""Responses that wait for one client, and the most that one fetch reads: the last one may go beyond the bound."""
REQUEST = frame_of(ApiVersionsRequest(), 0)


def framed(payload):
    return struct.pack(">i", len(payload)) + payload


def reset(client):
    client.reset_when_closed()
    client.socket.close()


def crowd(stack, broker, count):
    """So many connections, closed with the stack; the well-behaved client is served in between."""
    clients = []
    while len(clients) < count:
        clients += [stack.enter_context(broker.connect()) for _ in range(min(GROUP, count - len(clients)))]
        broker.check_healthy()
    return clients


@pytest.fixture
def sockets_come_back(broker):
    """After the test the broker has no more sockets open than before: that many."""
    broker.check_healthy()  # its connection is accepted by now, and counts
    before = broker.open_sockets()
    yield before
    broker.wait_for_sockets(before)


def test_a_thousand_connections_that_send_a_byte_now_and_then(broker, sockets_come_back):
    """Case 47: nobody else waits, and whoever has sent a whole request in the end is answered."""
    before = broker.memory_bytes()
    with ExitStack() as stack:
        clients = crowd(stack, broker, LORIS_COUNT)
        data = framed(REQUEST)
        for position in range(10):
            for client in clients:
                client.send(data[position : position + 1])
            broker.check_healthy()
        assert broker.memory_bytes() - before < LORIS_COUNT * CONNECTION_BYTES_MAX + GROWTH_BYTES_MAX
        for client in clients[::100]:
            client.send(data[10:])
            assert client.receive_frame() is not None


def test_idle_connections_cost_little_each(broker, sockets_come_back):
    """Case 50: after one request each, as a client leaves its connections."""
    before = broker.memory_bytes()
    with ExitStack() as stack:
        for client in crowd(stack, broker, IDLE_COUNT):
            assert client.ask_raw(REQUEST) is not None
        assert broker.memory_bytes() - before < IDLE_COUNT * CONNECTION_BYTES_MAX + MEGABYTE
        broker.check_healthy()


def come_and_go(broker, number):
    """One connection of a storm; how it ends depends on its number."""
    client = broker.connect()
    match number % 4:
        case 0:
            client.send(framed(REQUEST)[:7])
        case 1:
            assert client.ask_raw(REQUEST) is not None
        case 2:
            client.send(framed(REQUEST) * 3)
    if number % 3:
        client.socket.close()
    else:
        reset(client)


def test_a_storm_of_connections_leaves_nothing_behind(broker, sockets_come_back):
    """Case 49: silent ones, half requests, answered ones, unread answers; ended or reset."""
    for number in range(GROUP):
        come_and_go(broker, number)
    broker.wait_for_sockets(sockets_come_back)
    before = broker.memory_at_rest()
    for number in range(STORM_COUNT):
        come_and_go(broker, number)
        if number % 500 == 0:
            broker.check_healthy()
    broker.wait_for_memory(before + LEFT_BYTES_MAX)


@pytest.fixture(scope="module")
def large_topic(running_broker):
    """A topic that is fetched by megabytes: partition 0 from files, into memory of each answer, 2 from the cache."""
    create_topic(running_broker.port, "large")
    records = build_batch([NewRecord(bytes(900_000), timestamp=1_700_000_000_000)])
    for partition in (0,) * 5 + (1,) * (CACHE_BYTES_MAX // len(records) + 1) + (2,) * 5:
        response = running_broker.healthy.ask(produce_request((partition, records), topic="large"), PRODUCE_VERSION)
        assert produce_answers(response) == [(partition, 0)]
    return "large"


def large_fetch(topic, partition=0):
    return framed(frame_of(fetch_request(topic, partition, bytes_max=50 * MEGABYTE), 11))


def test_slow_readers_of_large_fetches_are_bounded_and_answered(broker, sockets_come_back, large_topic):
    """Case 48: each asks for far more than may wait for it; what it then reads, slowly, are whole answers."""
    before = broker.memory_bytes()
    broker.reset_memory_peak()
    with ExitStack() as stack:
        clients = crowd(stack, broker, READERS)
        for client in clients:
            client.send(large_fetch(large_topic) * 12)
        for _ in range(20):
            broker.check_healthy()
        sizes = []
        for _ in range(12):
            sizes.append(len(clients[0].receive_frame()))
            broker.check_healthy()
        assert sizes[0] > 900_000  # some whole batches: as many as the system's cache has, or four from the disk
    growth = broker.memory_bytes("VmHWM") - before
    assert growth < READERS * (UNSENT_BYTES_MAX + READ_BYTES_MAX) + GROWTH_BYTES_MAX


def test_clients_that_vanish_with_answers_unread_leave_nothing_behind(broker, sockets_come_back, large_topic):
    """Case 46: what waited for them is freed, whether they end or are reset."""
    request = large_fetch(large_topic) * 3

    def vanish(number):
        client = broker.connect()
        client.send(request)
        broker.check_healthy()
        client.socket.close() if number % 2 else reset(client)

    for number in range(4):
        vanish(number)
    broker.wait_for_sockets(sockets_come_back)
    before = broker.memory_at_rest()
    for number in range(60 if LONG else 16):
        vanish(number)
    broker.wait_for_memory(before + LEFT_BYTES_MAX)


def test_a_client_that_ends_its_half_and_never_reads_goes_in_the_end(broker, sockets_come_back, large_topic):
    """Case 46: what was asked is answered as far as it is read, then the connection is closed, read or not."""
    with broker.connect() as client, broker.connect() as reader:
        for one in (client, reader):
            one.send(large_fetch(large_topic) * 2)
            one.socket.shutdown(socket.SHUT_WR)
        first, second = reader.receive_frame(), reader.receive_frame()
        assert first is not None
        assert second is not None
        assert reader.is_closed()
        broker.check_healthy()


@pytest.mark.parametrize("mode", ["classic", "pipelined"])
def test_limits_of_connections_hold(broker_process, mode):
    """Case 50: an address has its number and is turned away beyond it; the broker has its own and makes wait."""
    broker = broker_process(mode=mode, settings=["max.connections.per.ip=5"])
    with ExitStack() as stack:
        clients = [stack.enter_context(RawClient(broker.port)) for _ in range(5)]
        assert all(client.ask_raw(REQUEST) for client in clients)
        for _ in range(20):
            with RawClient(broker.port) as refused:
                assert refused.is_closed()
        clients[0].socket.close()
        wait_until(lambda: is_answered(broker.port), "the place of a connection that ended cannot be used")
        assert all(client.ask_raw(REQUEST) for client in clients[1:])


def is_answered(port):
    with RawClient(port) as client:
        return client.ask_raw(REQUEST) is not None


@pytest.mark.parametrize("mode", ["classic", "pipelined"])
def test_beyond_its_number_of_connections_a_broker_makes_newcomers_wait(broker_process, mode):
    """Case 50: they are connected, not answered, and served when there is a place."""
    broker = broker_process(mode=mode, settings=["max.connections=3"])
    with ExitStack() as stack:
        clients = [stack.enter_context(RawClient(broker.port)) for _ in range(3)]
        assert all(client.ask_raw(REQUEST) for client in clients)
        waiting = stack.enter_context(RawClient(broker.port))
        waiting.send(framed(REQUEST))
        waiting.socket.settimeout(0.2)
        with pytest.raises(TimeoutError):
            waiting.receive_frame()
        waiting.socket.settimeout(WAIT_SECONDS_MAX)
        clients[0].socket.close()
        assert waiting.receive_frame() is not None
        assert clients[1].ask_raw(frame_of(produce_request((0, batch_of(b"x")), topic="none"), PRODUCE_VERSION))
