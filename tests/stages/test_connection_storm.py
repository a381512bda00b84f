"""Closed connections leave nothing: no count, no object, no descriptor, no memory."""

import gc
import socket
import tracemalloc
from contextlib import suppress
from itertools import pairwise
from pathlib import Path

import trio
import trio.lowlevel

from stages.connection import Connection
from stages.listener import open_listener
from stages.mode import PIPELINED
from stages.socket_server import SocketServer
from stages.testing.memory_storage import MemoryStorage
from tests.stages.listening_bench import SETTLED, ByFirstByte, run

ROUND = 60
LEAK_BYTES_MIN = 25 * ROUND
"""Growth of a round that counts as a leak. A connection takes some thousand bytes, an address about a hundred."""


def open_sockets():
    """Return every socket of this process. Those of other tests may be closed at any time, so only new ones count."""
    names = set()
    for descriptor in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):  # the descriptor that lists the folder
            names.add(str(descriptor.readlink()))
    return {name for name in names if name.startswith("socket:")}


def test_many_closed_connections_use_as_much_memory_as_few():
    """Every address is new and limited; some connections are throttled, and some refused."""

    async def storm(serving, first):
        for number in range(first, first + ROUND):
            clients = [serving.connect("L", f"address {number}") for _ in range(3)]
            clients[0].send(b"hello")
            await SETTLED()
            for client in clients:
                if not client.is_closed_by_server:
                    client.reset()
            await trio.sleep(0.05)
        await trio.sleep(5)
        serving.application.ids.clear()

    def connections():
        return [one for one in gc.get_objects() if isinstance(one, Connection)]

    async def test(serving):
        gc.collect()
        before = len(connections())  # kept by other tests
        tracemalloc.start()
        sizes_bytes = []
        for place in range(6):
            await storm(serving, place * ROUND)
            gc.collect()
            sizes_bytes.append(tracemalloc.get_traced_memory()[0])
        tracemalloc.stop()
        growth_bytes = [later - earlier for earlier, later in pairwise(sizes_bytes[1:])]
        assert min(growth_bytes) < LEAK_BYTES_MIN, growth_bytes  # memory kept once, such as a log line, is not a leak
        assert len(connections()) <= before
        assert serving.server.quotas.total == 0
        statistics = serving.server.statistics().acceptors[0]
        assert statistics.accepted == 6 * ROUND
        assert statistics.rejected == statistics.throttled_total == 6 * ROUND

    run(test, quotas={"connections_max_per_ip": 1, "creation_rate_max_per_ip": 2.0, "windows": 2}, processors=3)


def test_connections_over_sockets_leave_no_descriptor():
    async def main():
        server = SocketServer(PIPELINED, ByFirstByte(), MemoryStorage())
        listener = open_listener("PLAINTEXT", "127.0.0.1", 0)
        port = listener.port
        with trio.fail_after(20):
            async with trio.open_nursery() as nursery:
                await nursery.start(server.run, [listener])
                before = open_sockets()
                for number in range(200):
                    client = socket.create_connection(("127.0.0.1", port))
                    if number % 2:
                        client.sendall(b"\0\0\0\1s")
                    await trio.lowlevel.checkpoint()
                    client.close()
                while server.statistics().listeners[0].counters.closed < 200:
                    await trio.sleep(0.001)
                while not open_sockets() <= before:  # tasks of another test may open one for a moment
                    await trio.sleep(0.01)
                server.stop()

    trio.run(main)
