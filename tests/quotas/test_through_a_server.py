"""KIP-219 through a whole server in memory, on a virtual clock."""

from __future__ import annotations

from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st
from trio.testing import MockClock

from pipeline_broker.apis.dispatch import Dispatcher
from pipeline_broker.broker.broker import Broker
from pipeline_broker.broker.ports import Ports
from pipeline_broker.config.broker_config import BrokerConfig
from pipeline_broker.log.journal.journal import Journal
from pipeline_broker.log.log_manager import LogManager
from pipeline_broker.node.assembly import JournalStorage
from pipeline_broker.quotas.entities import entity_of
from pipeline_broker.records.batch import NewRecord, build_batch
from pipeline_broker.wire.codec import decode, encode
from pipeline_broker.wire.header import RequestHeader, encode_request_header, read_response_header
from pipeline_broker.wire.messages.data.produce import ProduceRequest, ProduceResponse
from pipeline_broker.wire.messages.groups.list_groups import ListGroupsRequest
from pipeline_broker.wire.messages.topics.create_topics import CreateTopicsRequest
from stages.mode import MODES
from stages.testing.memory_server import open_memory_server
from tests.files.memory_file_system import MemoryFileSystem

VERSION = 9
LIMIT = 1_000.0
"""Bytes per second."""
each_mode = pytest.mark.parametrize("mode", ["classic", "pipelined"])


def run(main, *arguments):
    async def limited():
        with trio.fail_after(1_000_000):
            await main(*arguments)

    trio.run(limited, clock=MockClock(autojump_threshold=0))


def frame(message, version, number=0):
    header = RequestHeader(type(message).SCHEMA.key, version, number, "client")
    return encode_request_header(header) + b"".join(map(bytes, encode(message, version)))


def produce(size, number=0, acks=-1):
    data = ProduceRequest.PartitionProduceData(0, build_batch([NewRecord(b"x" * size, None, 1)]))
    topics = [ProduceRequest.TopicProduceData(name="t", partition_data=[data])]
    return frame(ProduceRequest(acks=acks, topic_data=topics), VERSION, number)


def throttle_seconds(answer):
    _, position = read_response_header(ProduceRequest.SCHEMA.key, VERSION, answer)
    return decode(ProduceResponse, VERSION, answer, position)[0].throttle_time_ms / 1_000


def now_ns():
    return round(trio.current_time() * 1_000_000_000)


@asynccontextmanager
async def throttling_server(mode):
    """Run a server with topic `t` and a produce quota for clients named `client`."""
    journal = Journal.open(Path("/data"), flush="always", segment_bytes=1 << 20, files=MemoryFileSystem())
    ports = Ports(clock_ms=lambda: now_ns() // 1_000_000 + 1)
    broker = Broker(BrokerConfig(), LogManager(journal), ports=ports)
    broker.recover(1)
    broker.quotas.clock_ns = now_ns
    entries = broker.first_entries(1)
    journal.sync(journal.write(entries))
    application = Dispatcher(broker)
    async with open_memory_server(MODES[mode], application, storage=JournalStorage(journal)) as server:
        client = await server.connect()
        client.send(frame(CreateTopicsRequest([CreateTopicsRequest.CreatableTopic("t", 1, 1)]), 7))
        await client.receive()
        write = broker.quotas.catalogue.alter({entity_of([("client-id", "client")]): {"producer_byte_rate": LIMIT}})
        broker.quotas.durable(write)
        yield server, client
    journal.close()


async def is_read_at(client, when):
    """Send a request now and check that the server answers it at that time."""
    client.send(frame(ListGroupsRequest(), 0))
    await client.receive()
    assert trio.current_time() == pytest.approx(when, abs=0.001)


@each_mode
def test_the_response_is_immediate_and_reading_resumes_at_the_deadline(mode):
    async def main():
        async with throttling_server(mode) as (_, client):
            began = trio.current_time()
            client.send(produce(20_000))
            seconds = throttle_seconds(await client.receive())
            assert trio.current_time() == began
            assert seconds == pytest.approx(10.13, abs=0.05)
            await is_read_at(client, began + seconds)

    run(main)


@each_mode
def test_other_connections_are_served_during_a_throttle(mode):
    async def main():
        async with throttling_server(mode) as (server, client):
            client.send(produce(20_000))
            await client.receive()
            for _ in range(10):
                other = await server.connect()
                await is_read_at(other, trio.current_time())

    run(main)


@each_mode
def test_a_request_without_a_response_mutes_the_connection_too(mode):
    async def main():
        async with throttling_server(mode) as (_, client):
            began = trio.current_time()
            request = produce(20_000, acks=0)
            client.send(request)
            await trio.testing.wait_all_tasks_blocked()
            await is_read_at(client, began + (len(request) - 10 * LIMIT) / LIMIT)

    run(main)


def test_requests_in_flight_are_answered_in_pipelined_mode():
    """All were read before the first was decided; a throttle affects requests that are not read yet."""

    async def main():
        async with throttling_server("pipelined") as (_, client):
            began = trio.current_time()
            client.send(*(produce(20_000, number) for number in range(3)))
            told = [throttle_seconds(await client.receive()) for _ in range(3)]
            assert trio.current_time() == began
            assert told == sorted(told)
            await is_read_at(client, began + told[-1])

    run(main)


def test_later_requests_wait_for_the_deadline_in_classic_mode():
    """One request is in flight, as in Kafka: the second is read after the throttle of the first."""

    async def main():
        async with throttling_server("classic") as (_, client):
            began = trio.current_time()
            client.send(produce(20_000), produce(10))
            seconds = throttle_seconds(await client.receive())
            assert trio.current_time() == began
            await client.receive()
            assert trio.current_time() == pytest.approx(began + seconds, abs=0.001)

    run(main)


@each_mode
@settings(max_examples=30)
@given(st.lists(st.tuples(st.integers(1, 40_000), st.floats(0, 15)), min_size=1, max_size=8), st.random_module())
def test_no_throttle_is_lost_or_ends_early(mode, requests, schedule):
    """Reading resumes at the latest deadline, however throttles overlap."""

    async def main():
        async with throttling_server(mode) as (_, client):
            latest = trio.current_time()
            for size, pause in requests:
                client.send(produce(size))
                seconds = throttle_seconds(await client.receive())
                assert trio.current_time() >= latest - 0.001
                latest = max(latest, trio.current_time() + seconds)
                await trio.sleep(pause)
            await is_read_at(client, max(latest, trio.current_time()))

    run(main)


@settings(max_examples=30)
@given(st.lists(st.lists(st.integers(1, 40_000), min_size=1, max_size=5), min_size=1, max_size=4), st.random_module())
def test_the_latest_of_overlapping_throttles_applies(bursts, schedule):
    """Pipelined: each burst is answered at once, and the next is read after the last throttle."""

    async def main():
        async with throttling_server("pipelined") as (_, client):
            latest = trio.current_time()
            for sizes in bursts:
                client.send(*(produce(size, number) for number, size in enumerate(sizes)))
                told = [throttle_seconds(await client.receive()) for _ in sizes]
                assert trio.current_time() == pytest.approx(latest, abs=0.001)
                latest = max(latest, trio.current_time() + max(told))

    run(main)
