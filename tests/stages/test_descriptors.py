"""A server that runs out of file descriptors serves those it has, and the others when there are some again."""

import contextlib
import os
import resource
import socket
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from stages.acceptor import DESCRIPTORS_KEPT_MAX, SocketSource, _is_kept
from stages.listener import open_listener

SERVER = textwrap.dedent(
    """
    import resource, sys
    import trio
    from stages.listener import open_listener
    from stages.mode import PIPELINED
    from stages.socket_server import SocketServer
    from stages.testing.memory_storage import MemoryStorage
    from tests.stages.listening_bench import ByFirstByte

    listener = open_listener("PLAINTEXT", "127.0.0.1", 0, backlog=128)

    async def main():
        server = SocketServer(PIPELINED, ByFirstByte(), MemoryStorage())
        async with trio.open_nursery() as nursery:
            await nursery.start(server.run, [listener])
            resource.setrlimit(resource.RLIMIT_NOFILE, (40, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
            print(listener.port, flush=True)
            await trio.to_thread.run_sync(sys.stdin.readline)
            print(server.statistics().acceptors[0].exhausted, server.quotas.total, flush=True)
            server.stop()

    trio.run(main)
    """
)


def is_served(client):
    client.settimeout(10)
    client.sendall(b"\0\0\0\1s")
    return client.recv(16) == b"\0\0\0\1s"


def test_running_out_of_descriptors_is_survived():
    command = [sys.executable, "-c", SERVER]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        port = int(server.stdout.readline())
        clients = [socket.create_connection(("127.0.0.1", port), timeout=10) for _ in range(60)]
        assert all(is_served(client) for client in clients[:20])
        for client in clients[:40]:
            client.close()
        assert all(is_served(client) for client in clients[40:])  # they waited in the backlog
        exhausted, open_ones = map(int, server.communicate("end\n", timeout=20)[0].split())
        for client in clients[40:]:
            client.close()
    assert exhausted > 0
    assert open_ones == 20
    assert server.returncode == 0


def test_a_quarter_of_the_descriptors_and_at_most_so_many_are_left_to_everything_else():
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    found = {}
    try:
        for limit in (40, 4 * DESCRIPTORS_KEPT_MAX, 5 * DESCRIPTORS_KEPT_MAX):
            resource.setrlimit(resource.RLIMIT_NOFILE, (limit, before[1]))
            found[limit] = next(number for number in range(limit + 1) if _is_kept(number))
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
    assert found == {40: 30, 512: 384, 640: 512}


def test_no_descriptor_is_kept_where_there_is_no_limit(monkeypatch):
    monkeypatch.setattr(resource, "getrlimit", lambda _: (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    assert not _is_kept(1 << 20)


@contextlib.contextmanager
def descriptors_left(count):
    """A limit that leaves so many descriptors, the highest ones: those below are taken first, holes among them too."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    highest = max(int(path.name) for path in Path("/proc/self/fd").iterdir())
    taken = [os.dup(0)]
    while taken[-1] <= highest:
        taken.append(os.dup(0))
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (taken[-1] + 1 + count, before[1]))
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
        for descriptor in taken:
            os.close(descriptor)


def test_no_further_connection_is_taken_after_one_that_got_a_descriptor_that_is_kept():
    listener = open_listener("PLAINTEXT", "127.0.0.1", 0)
    source = SocketSource(listener.sock)
    with listener.sock:
        clients = [socket.create_connection((listener.host, listener.port)) for _ in range(2)]
        with descriptors_left(2):
            accepted = [source.accept()]
            with pytest.raises(OSError, match="Too many open files"):
                source.accept()
        accepted.append(source.accept())
        for one in (*clients, *accepted):
            one.close()
