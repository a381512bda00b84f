"""Processors are added and removed while the server runs; removed ones answer their requests in flight, then end."""

import struct

import attrs
import pytest
import trio
from trio.testing import MockClock

from stages.listener import open_listener
from stages.mode import MODES
from stages.processor import NewConnection
from stages.request import PARKED, Close, Send
from stages.socket_server import ServerLimits, SocketServer
from stages.testing.memory_server import open_memory_server
from stages.testing.memory_storage import MemoryStorage
from stages.testing.memory_transport import memory_connection

SECONDS_MAX = 20


class Parking:
    """Echoes requests, but keeps those that begin with p."""

    def __init__(self):
        self.parked = []

    def handle(self, request):
        frame = bytes(request.frame)
        if frame.startswith(b"p"):
            self.parked.append(request)
            return PARKED
        return Send(frame)

    def failed(self, request, error):
        return Close(str(error))

    def connection_closed(self, session):
        pass


async def ask(stream, payload):
    await stream.send_all(struct.pack(">i", len(payload)) + payload)


async def answer(stream):
    data = b""
    while len(data) < 4 or len(data) < 4 + struct.unpack_from(">i", data)[0]:
        more = await stream.receive_some()
        if not more:
            return None
        data += more
    return data[4:]


def serve(mode, scenario):
    """Run `scenario(server, application, connect)` against a server with two processors."""

    async def main():
        application = Parking()
        server = SocketServer(mode, application, MemoryStorage(), limits=attrs.evolve(ServerLimits(), processors=2))
        listener = open_listener("PLAINTEXT", "127.0.0.1", 0)
        streams = []

        async def connect():
            stream = await trio.open_tcp_stream("127.0.0.1", listener.port)
            streams.append(stream)
            await ask(stream, b"hello")
            assert await answer(stream) == b"hello"
            return stream

        with trio.fail_after(SECONDS_MAX):
            async with trio.open_nursery() as nursery:
                await nursery.start(server.run, [listener])
                await scenario(server, application, connect)
                for stream in streams:
                    await stream.aclose()
                server.stop()

    trio.run(main)


@pytest.mark.parametrize("mode", MODES.values(), ids=MODES)
def test_a_removed_processor_answers_requests_in_flight_and_ends(mode):
    async def scenario(server, application, connect):
        streams = [await connect() for _ in range(4)]
        for stream in streams:
            await ask(stream, b"parked")
        while len(application.parked) < 4:
            await trio.sleep(0.001)
        await server.resize_processors(1)
        for request in application.parked:
            request.complete(Send(b"late"))
        assert [await answer(stream) for stream in streams] == [b"late"] * 4
        while len(server.processors) > 1:
            await trio.sleep(0.001)
        remaining = []
        for stream in streams:
            try:
                await ask(stream, b"again")
                remaining.append(await answer(stream) == b"again")
            except trio.BrokenResourceError:
                remaining.append(False)
        assert sorted(remaining) == [False, False, True, True]

    serve(mode, scenario)


@pytest.mark.parametrize("mode", MODES.values(), ids=MODES)
def test_an_added_processor_gets_new_connections_and_others_keep_theirs(mode):
    async def scenario(server, application, connect):
        first = await connect()
        await server.resize_processors(4)
        streams = [await connect() for _ in range(8)]
        assert all(processor.statistics().connections_total for processor in server.processors)
        for stream in (first, *streams):
            await ask(stream, b"still")
            assert await answer(stream) == b"still"

    serve(mode, scenario)


def test_a_processor_that_has_ended_refuses_connections():
    """The caller then gives the connection to another processor."""

    async def main():
        limits = attrs.evolve(ServerLimits(), processors=2)
        async with open_memory_server(MODES["pipelined"], Parking(), limits=limits) as memory:
            _, removed = memory.server.processors
            await memory.server.resize_processors(1)
            await removed.wait_ended()
            transport, client = memory_connection()
            new = NewConnection(transport, "address", "peer", "MEMORY", 0)
            assert await removed.put(new) is removed.offer(new) is False
            assert not client.is_closed_by_server

    trio.run(main, clock=MockClock(autojump_threshold=0))


def test_one_processor_is_always_left():
    async def scenario(server, application, connect):
        await server.resize_processors(0)
        stream = await connect()
        assert stream is not None
        assert len(server.acceptors) == 1

    serve(MODES["pipelined"], scenario)
