"""A server without free file descriptors serves its connections, and new ones once descriptors are free again."""

import resource
import socket
import subprocess
import sys
import textwrap

from stages.acceptor import DESCRIPTORS_KEPT_MAX, _is_kept

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

SCARCE = textwrap.dedent(
    """
    import resource, socket
    from stages.acceptor import SocketSource
    from stages.listener import open_listener

    listener = open_listener("PLAINTEXT", "127.0.0.1", 0)
    source = SocketSource(listener.sock)
    clients = [socket.create_connection((listener.host, listener.port)) for _ in range(2)]
    accepted = []

    def accept():
        try:
            accepted.append(source.accept())
            print("taken")
        except OSError as error:
            print(error.strerror)

    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (clients[-1].fileno() + 1 + 2, limits[1]))
    accept()
    accept()
    resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    accept()
    for one in (*clients, *accepted, listener.sock):
        one.close()
    """
)


def is_served(client):
    client.settimeout(10)
    client.sendall(b"\0\0\0\1s")
    return client.recv(16) == b"\0\0\0\1s"


def test_running_out_of_descriptors_is_survived():
    """Case 23."""
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


def test_a_quarter_of_the_descriptors_is_reserved_up_to_a_bound():
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    found = {}
    try:
        for limit in (40, 4 * DESCRIPTORS_KEPT_MAX, 5 * DESCRIPTORS_KEPT_MAX):
            resource.setrlimit(resource.RLIMIT_NOFILE, (limit, before[1]))
            found[limit] = next(number for number in range(limit + 1) if _is_kept(number))
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
    assert found == {40: 30, 512: 384, 640: 512}


def test_no_descriptor_is_reserved_without_a_limit(monkeypatch):
    monkeypatch.setattr(resource, "getrlimit", lambda _: (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    assert not _is_kept(1 << 20)


def test_no_connection_is_accepted_after_one_with_a_reserved_descriptor():
    """Runs in a process of its own, in which no other code opens or closes descriptors."""
    run = subprocess.run([sys.executable, "-c", SCARCE], stdout=subprocess.PIPE, text=True, timeout=20, check=True)
    assert run.stdout.split("\n") == ["taken", "Too many open files", "taken", ""]
