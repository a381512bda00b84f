"""A whole server over loopback sockets: dealing, half closes, resets, slow readers, and ends in time."""

import errno
import socket
import struct
import threading

import attrs
import pytest
import trio

from stages.committer import CommitFailedError, Submission
from stages.connection_limits import ConnectionLimits
from stages.connection_quotas import ConnectionQuotaLimits
from stages.listener import Listener, open_listener
from stages.mode import CLASSIC, MODES, PIPELINED
from stages.mute import MuteReason
from stages.request import PARKED, Close, Parked, Pending, Send
from stages.socket_server import ServerLimits, SocketServer
from stages.testing.memory_storage import MemoryStorage

both_modes = pytest.mark.parametrize("mode", MODES.values(), ids=MODES)
SECONDS_MAX = 20
"""Far more than any of these tests needs; a hang becomes a failure."""


class Answering:
    """Handles a request by its first byte: park it, answer it, answer much, block a thread, or commit it first."""

    def __init__(self):
        self.parked, self.closed, self.until = [], [], threading.Event()

    def handle(self, request):
        frame = bytes(request.frame)
        request.connection.session = request.connection.id
        match frame[:1]:
            case b"p":
                self.parked.append(request)
                return PARKED
            case b"b":
                return Send(bytes(100_000))
            case b"w":
                return Parked(self.until.wait)
            case b"s":
                return Send(frame)
        return Pending([frame], Send(frame))

    def failed(self, request, error):
        return Close(str(error))

    def connection_closed(self, session):
        self.closed.append(session)


class Client:
    def __init__(self, stream):
        self.stream = stream
        self.data = b""

    async def send(self, *payloads):
        await self.stream.send_all(b"".join(struct.pack(">i", len(one)) + one for one in payloads))

    async def receive(self):
        while len(self.data) < 4 or len(self.data) < 4 + int.from_bytes(self.data[:4], "big"):
            more = await self.stream.receive_some()
            if not more:
                raise EOFError
            self.data += more
        end = 4 + int.from_bytes(self.data[:4], "big")
        payload, self.data = self.data[4:end], self.data[end:]
        return payload

    async def receive_count(self, count):
        return [await self.receive() for _ in range(count)]

    async def is_closed(self):
        try:
            return not await self.stream.receive_some()
        except trio.BrokenResourceError:
            return True

    def reset(self):
        self.stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.stream.socket.close()


class Bench:
    def __init__(self, mode, listener, **limits):
        self.application, self.storage, self.listener = Answering(), MemoryStorage(), listener
        self.server = SocketServer(mode, self.application, self.storage, limits=ServerLimits(**limits))
        self.clients = []

    async def connect(self, receive_buffer=None):
        sock = trio.socket.socket()
        if receive_buffer is not None:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        await sock.connect(("127.0.0.1", self.listener.port))
        self.clients.append(Client(trio.SocketStream(sock)))
        return self.clients[-1]

    async def until(self, condition):
        """Run the event loop until `condition()` holds; the test's deadline bounds it."""
        while not condition():
            await trio.sleep(0.001)

    def connections(self):
        return [one for processor in self.server.processors for one in processor.connections]


def run(test, mode=PIPELINED, listener=None, *, is_stopped=True, **limits):
    """Run `test(bench)`, and check that the server ends in time and releases everything."""

    async def main():
        bench = Bench(mode, listener or open_listener("PLAINTEXT", "127.0.0.1", 0), **limits)
        with trio.fail_after(SECONDS_MAX):
            async with trio.open_nursery() as nursery:
                await nursery.start(bench.server.run, [bench.listener])
                await test(bench)
                bench.server.stop()
            for client in bench.clients:
                await client.stream.aclose()
        assert bench.connections() == []
        assert bench.server.quotas.total == 0
        assert bench.server.channel.bytes_held == 0

    trio.run(main)


@both_modes
def test_requests_are_committed_and_answered_in_order_in_both_modes(mode):
    """Behaviour 1."""

    async def test(bench):
        client = await bench.connect()
        requests = [f"c{number}".encode() for number in range(200)]
        await client.send(*requests)
        assert await client.receive_count(200) == requests
        assert bench.storage.durable == requests
        statistics = bench.server.statistics()
        assert statistics.acceptors[0].accepted == 1
        assert statistics.committer.entries == statistics.handlers.handled == 200
        assert sum(queue.put for queue in statistics.queues) == 200
        assert statistics.committer.entries_max == 1 or mode is PIPELINED

    run(test, mode)


def test_connections_are_dealt_round_robin():
    async def test(bench):
        for _ in range(6):
            client = await bench.connect()
            await client.send(b"s")
            await client.receive()
        assert [processor.connections for processor in bench.server.statistics().processors] == [2, 2, 2]

    run(test)


class Exhausted(socket.socket):
    """A listening socket whose first accepts find no descriptor."""

    failures = 0

    def accept(self):
        if self.failures:
            self.failures -= 1
            raise OSError(errno.EMFILE, "too many open files")
        return super().accept()


def test_running_out_of_descriptors_pauses_accepting_only():
    listener = open_listener("PLAINTEXT", "127.0.0.1", 0)
    sock = Exhausted(fileno=listener.sock.detach())
    sock.setblocking(False)

    async def test(bench):
        first = await bench.connect()
        await first.send(b"s1")
        assert await first.receive() == b"s1"
        sock.failures = 2
        second = await bench.connect()
        await second.send(b"s2")
        await first.send(b"s3")
        assert await first.receive() == b"s3"
        assert await second.receive() == b"s2"
        assert sock.failures == 0

    run(test, listener=Listener("PLAINTEXT", sock))


def test_an_address_with_too_many_connections_is_rejected_and_freed_by_a_close():
    """Behaviour 17."""

    async def test(bench):
        first = await bench.connect()
        await first.send(b"s")
        await first.receive()
        assert await (await bench.connect()).is_closed()
        await first.stream.aclose()
        await bench.until(lambda: bench.server.quotas.total == 0)
        third = await bench.connect()
        await third.send(b"s")
        assert await third.receive() == b"s"
        assert bench.server.statistics().acceptors[0].rejected == 1

    run(test, quotas=ConnectionQuotaLimits(connections_max_per_ip=1))


def test_a_full_server_makes_newcomers_wait():
    """Behaviour 82."""

    async def test(bench):
        first, second = await bench.connect(), await bench.connect()
        await first.send(b"s1")
        await second.send(b"s2")
        assert await first.receive() == b"s1"
        first.reset()
        assert await second.receive() == b"s2"

    run(test, quotas=ConnectionQuotaLimits(connections_max=1))


@both_modes
def test_a_half_closed_connection_is_answered_and_closed(mode):
    async def test(bench):
        client = await bench.connect()
        await client.send(b"c1", b"s2")
        await client.stream.send_eof()
        assert await client.receive_count(2) == [b"c1", b"s2"]
        assert await client.is_closed()

    run(test, mode)


@both_modes
def test_a_reset_with_requests_in_flight_hurts_nobody(mode):
    """Behaviours 36 and 37."""

    async def test(bench):
        client, other = await bench.connect(), await bench.connect()
        await client.send(b"p", b"c", b"c")
        await bench.until(lambda: bench.application.parked)
        client.reset()
        await other.send(b"c other")
        assert await other.receive() == b"c other"
        for request in bench.application.parked:
            request.complete(Send(b"late"))
        await bench.until(lambda: len(bench.application.closed) == 1)

    run(test, mode)


def test_a_slow_reader_is_bounded_and_everything_arrives_when_it_reads():
    bound = 300_000

    async def test(bench):
        client = await bench.connect(receive_buffer=4096)
        await client.send(*[b"b"] * 100)
        await bench.until(lambda: bench.connections() and MuteReason.UNSENT_BYTES in bench.connections()[0].mute)
        connection = bench.connections()[0]
        assert connection.unsent_bytes < bound + 4 * 100_004
        other = await bench.connect()
        await other.send(b"s")
        assert await other.receive() == b"s"
        assert bench.server.statistics().processors[0].blocked == 1
        assert await client.receive_count(100) == [bytes(100_000)] * 100

    run(
        test,
        attrs.evolve(PIPELINED, in_flight_max=4),
        processors=1,
        connection=ConnectionLimits(unsent_bytes_max=bound),
    )


def test_a_stop_answers_what_is_in_flight():
    """Behaviour 16."""

    async def test(bench):
        client = await bench.connect()
        await client.send(b"p", b"c")
        await bench.until(lambda: bench.application.parked)
        bench.server.stop()
        await trio.lowlevel.checkpoint()
        bench.application.parked[0].complete(Send(b"parked"))
        assert await client.receive_count(2) == [b"parked", b"c"]
        assert await client.is_closed()

    run(test)


@pytest.mark.parametrize("reason", ["parked for ever", "never reads", "work that hangs", "half a frame"])
def test_a_stop_ends_within_its_deadline_whatever_a_client_or_a_handler_does(reason):
    applications = []

    async def test(bench):
        applications.append(bench.application)
        client = await bench.connect(receive_buffer=4096)
        if reason == "parked for ever":
            await client.send(b"p")
            await bench.until(lambda: bench.application.parked)
        elif reason == "never reads":
            await client.send(*[b"b"] * 60)
            await bench.until(lambda: any(one.is_blocked for one in bench.connections()))
        elif reason == "work that hangs":
            await client.send(b"w")
            await bench.until(lambda: bench.server.statistics().handlers.blocking_works)
        else:
            await client.stream.send_all(b"\0\0\0\x09abc")

    try:
        run(test, drain_seconds=0.05)
    finally:
        applications[0].until.set()


def test_connections_that_were_accepted_and_not_begun_are_closed_at_the_end():
    """Behaviour 4."""

    async def test(bench):
        clients = [await bench.connect() for _ in range(5)]
        await bench.until(lambda: bench.server.statistics().acceptors[0].accepted == 5)
        bench.server.stop()
        for client in clients:
            assert await client.is_closed()

    run(test)


def test_a_stop_waits_for_a_commit_without_a_request():
    ended = []

    async def test(bench):
        bench.server.submit(Submission([b"entry"], on_ended=lambda one, error: ended.append(error)))

    run(test)
    assert ended == [None]


@both_modes
def test_a_failed_sync_closes_connections_and_ends_the_server(mode):
    async def main():
        bench = Bench(mode, open_listener("PLAINTEXT", "127.0.0.1", 0))
        bench.storage.sync_fault = 1
        seen = []

        async def serve(task_status):
            with pytest.raises(CommitFailedError):
                await bench.server.run([bench.listener], task_status=task_status)
            seen.append("failed")

        with trio.fail_after(SECONDS_MAX):
            async with trio.open_nursery() as nursery:
                await nursery.start(serve)
                client = await bench.connect()
                await client.send(b"c1")
                assert await client.receive() == b"c1"
                await client.send(b"c2")
                assert await client.is_closed()
            await client.stream.aclose()
        assert seen == ["failed"]
        assert bench.storage.durable == [b"c1"]

    trio.run(main)


def test_a_port_in_use_is_an_error_that_leaves_no_socket():
    """Behaviours 28 and 59."""
    listener = open_listener("PLAINTEXT", "127.0.0.1", 0)
    with pytest.raises(OSError, match="in use"):
        open_listener("PLAINTEXT", "127.0.0.1", listener.port)
    listener.sock.close()


@both_modes
def test_handlers_are_resized_under_load(mode):
    """Growing and shrinking lose no request; the pool ends with the requested size."""

    async def test(bench):
        clients = [await bench.connect() for _ in range(8)]
        async with trio.open_nursery() as nursery:
            for index, client in enumerate(clients):
                requests = [f"c{index} {number}".encode() for number in range(150)]

                async def load(client=client, requests=requests):
                    await client.send(*requests)
                    assert await client.receive_count(150) == requests

                nursery.start_soon(load)
            for count in (3, 1, 12, 2, 5, 1, 4):
                if mode is CLASSIC:
                    bench.server.handlers.resize_handlers(count)
                else:
                    bench.server.handlers.resize_queues(count)
                await trio.sleep(0.003)
        if mode is CLASSIC:
            await bench.until(lambda: bench.server.statistics().handlers.handlers == 4)
        else:
            for client in clients:  # each moves with its next request, which frees the old queues
                await client.send(b"c")
                await client.receive()
            await bench.until(lambda: len(bench.server.statistics().queues) == 4)
            assert bench.server.statistics().handlers.handlers == 4

    run(test, mode)
