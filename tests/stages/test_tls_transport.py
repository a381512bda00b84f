"""TLS behaves like plaintext: whole, in pieces, slow, ended early, and with bytes that are not TLS.

Longer than most files: every test uses the same two ends.
"""

import logging
import ssl
import struct
import threading
from contextlib import suppress
from pathlib import Path

import attrs
import pytest
import trio
import trio.lowlevel
from trio.testing import MockClock, wait_all_tasks_blocked

from stages.listener import open_listener
from stages.mode import CLASSIC, PIPELINED
from stages.request import PARKED, Close, Send
from stages.socket_server import SocketServer
from stages.testing.memory_server import open_memory_server
from stages.testing.memory_storage import MemoryStorage
from stages.testing.memory_transport import memory_connection
from stages.tls_transport_layer import TLS_HANDSHAKE_SECONDS, TlsTransportLayer
from stages.transport_layer import HandshakeError
from tests.stages.connection_bench import limits
from tests.stages.sabotage import replaced
from tests.stages.test_authentication import Guard

FOLDER = Path(__file__).parent / "tls"
CERTIFICATE, KEY = FOLDER / "certificate.pem", FOLDER / "key.pem"
"""Made by `openssl req -x509 -newkey ec -nodes -days 36500 -subj /CN=localhost`; it protects nothing."""


def server_context():
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(CERTIFICATE, KEY)
    return context


def client_context():
    return ssl.create_default_context(cafile=CERTIFICATE)


class Repeat:
    """Answers with as many bytes as the request says."""

    def handle(self, request):
        return Send(bytes(int(bytes(request.frame))))

    def failed(self, request, error):
        return Close(str(error))

    def connection_closed(self, session):
        pass


class ClientStream(trio.abc.Stream):
    """The part of a stream that trio's SSLStream needs, for the client's end."""

    def __init__(self, client):
        self.client = client

    async def send_all(self, data):
        await trio.lowlevel.checkpoint()
        self.client.send_bytes(bytes(data))

    async def wait_send_all_might_not_block(self):
        await trio.lowlevel.checkpoint()

    async def receive_some(self, max_bytes=None):
        return await self.client.receive_bytes()

    async def aclose(self):
        self.client.half_close()
        await trio.lowlevel.checkpoint()


async def connect(memory, open_session=None, **options):
    transport, client = memory_connection(**options)
    tls = TlsTransportLayer(transport, server_context(), in_threads=False)
    await memory.server.connect(tls, peer="client", listener="TLS", open_session=open_session)
    return client, trio.SSLStream(ClientStream(client), client_context(), server_hostname="localhost")


async def ask(stream, *counts):
    requests = [str(count).encode() for count in counts]
    await stream.send_all(b"".join(struct.pack(">i", len(request)) + request for request in requests))


async def receive(stream, count):
    data = b""
    while len(data) < count:
        more = await stream.receive_some()
        if not more:
            break
        data += more
    return data


def answer(*counts):
    return b"".join(struct.pack(">i", count) + bytes(count) for count in counts)


def run(test):
    async def main():
        async with open_memory_server(PIPELINED, Repeat()) as memory:
            with trio.fail_after(3600):
                await test(memory)

    trio.run(main, clock=MockClock(autojump_threshold=0))


@pytest.mark.parametrize(
    "options", [{}, {"receive_sizes": (1,), "send_sizes": (1, 0)}, {"receive_sizes": (0, 100), "capacity_bytes": 50}]
)
def test_responses_arrive_whole_and_in_pieces(options):
    """Behaviour 57."""

    async def test(memory):
        _, stream = await connect(memory, **options)
        await ask(stream, 1, 0, 3000)
        assert await receive(stream, 3013) == answer(1, 0, 3000)

    run(test)


def test_a_client_that_disconnects_without_close_notify_has_its_connection_closed():
    """As when its process is killed: the socket ends without a TLS alert."""

    async def test(memory):
        client, stream = await connect(memory)
        await ask(stream, 3)
        assert await receive(stream, 7) == answer(3)
        client.half_close()
        await wait_all_tasks_blocked()
        assert client.is_closed_by_server

    run(test)


def test_large_responses_to_a_slow_reader_arrive():
    """Bytes wait in the TLS layer, and each time the socket takes only some of them.

    Behaviour testWriteCompletesSendWithNoBytesWritten.
    """

    async def test(memory):
        client, stream = await connect(memory, capacity_bytes=900)
        await ask(stream, 10, 200_000, 70_000, 5)
        first = await receive(stream, 14)
        await wait_all_tasks_blocked()
        assert client.unread_bytes <= 900
        expected = answer(10, 200_000, 70_000, 5)
        assert first + await receive(stream, len(expected) - len(first)) == expected

    run(test)


def test_the_next_frame_of_a_conversation_waits_until_the_tls_layer_has_sent_the_reply_to_the_last():
    """Bytes in the layer count as sent, but a client that never reads holds only one frame and one reply."""

    async def test(memory):
        guard = Guard()
        _, stream = await connect(memory, guard.open_session, capacity_bytes=20)
        hello, who = struct.pack(">i", 5) + b"hello", struct.pack(">i", 4) + b"who?"
        await stream.send_all(hello)
        assert await receive(stream, 8) == who
        await stream.send_all(hello * 10)
        await trio.sleep(60)
        connection = guard.connection
        assert (connection.unsent_bytes, connection.is_blocked) == (0, True), "otherwise this is about nothing"
        assert len(guard.seen) == 2
        assert await receive(stream, 80) == who * 10

    run(test)


async def after_handshake():
    """Return the TLS layer of a server, its client in memory, and that client's TLS stream."""
    lower, client = memory_connection()
    tls = TlsTransportLayer(lower, server_context(), in_threads=False)
    stream = trio.SSLStream(ClientStream(client), client_context(), server_hostname="localhost")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(tls.start)
        await stream.do_handshake()
    return tls, client, stream


def test_sending_no_parts_flushes_the_tls_layer_and_returns_zero():
    async def main():
        tls, client, _ = await after_handshake()
        while not tls.has_unsent:
            assert tls.send((bytes(1000),)) == 1000
        with pytest.raises(BlockingIOError):
            tls.send(())
        await client.receive_bytes()
        assert (tls.send(()), tls.has_unsent) == (0, False)

    trio.run(main)


class Parking(Repeat):
    """Parks every request for the test."""

    def __init__(self):
        self.parked = []

    def handle(self, request):
        self.parked.append(request)
        return PARKED


@pytest.mark.parametrize("mode", [CLASSIC, attrs.evolve(PIPELINED, in_flight_max=2)], ids=lambda mode: mode.name)
def test_requests_in_the_tls_layer_are_handled_when_the_connection_is_unmuted_without_another_byte(mode):
    """Behaviours 48 and 57: all came in one record, and the socket has nothing more to say; no time passes."""

    async def main():
        application = Parking()
        async with open_memory_server(mode, application) as memory:
            client, stream = await connect(memory)
            await ask(stream, *[1] * 20)
            for number in range(20):
                await wait_all_tasks_blocked()
                assert len(application.parked) == min(number + mode.in_flight_max, 20)
                application.parked[number].complete(Send(b"x"))
            assert await receive(stream, 5 * 20) == (struct.pack(">i", 1) + b"x") * 20
            assert trio.current_time() == 0
            client.reset()

    trio.run(main, clock=MockClock(autojump_threshold=0))


def test_records_that_are_left_in_the_tls_layer_are_received_without_waiting():
    """Behaviour 57: more than one receive takes, handed over at once by the layer below."""

    class Bulk(Repeat):
        def handle(self, request):
            return Send(str(len(request.frame)).encode())

    async def main():
        async with open_memory_server(PIPELINED, Bulk()) as memory:
            client, stream = await connect(memory)
            await ask(stream, 1)
            await receive(stream, 5)
            request = bytes(60_000)
            with trio.fail_after(1):
                await stream.send_all((struct.pack(">i", len(request)) + request) * 30)
                assert await receive(stream, 9 * 30) == (struct.pack(">i", 5) + b"60000") * 30
            (connection,) = (one for processor in memory.server.processors for one in processor.connections)
            connection.transport._incoming.write(b"\0")
            with trio.testing.assert_checkpoints():  # or one client's bytes would delay the others
                await connection.transport.wait_readable()
            client.reset()

    trio.run(main, clock=MockClock(autojump_threshold=0))


@pytest.mark.parametrize("room_bytes", [7, 1000])
def test_decrypted_bytes_are_readable_although_the_lower_layer_has_none(room_bytes):
    """The rest of a record, or further records: the socket's readiness shows neither."""

    async def main():
        tls, _, stream = await after_handshake()
        records, received = [bytes([number]) * 1000 for number in range(3)], b""
        for record in records:
            await stream.send_all(record)
        while len(received) < 3000:
            with trio.fail_after(1):
                await tls.wait_readable()
            room = bytearray(room_bytes)
            received += room[: tls.receive_into(memoryview(room))]
        assert received == b"".join(records)
        with pytest.raises(BlockingIOError):
            tls.receive()

    trio.run(main, clock=MockClock(autojump_threshold=0))


def test_a_muted_connection_with_requests_in_the_tls_layer_expires():
    """Behaviour 47: what waits there is no activity."""

    async def main():
        application = Parking()
        bounds = limits(idle_seconds_max=30.0)
        async with open_memory_server(CLASSIC, application, limits=bounds) as memory:
            client, stream = await connect(memory)
            await ask(stream, 1, 2, 3)
            await trio.sleep(29)
            assert not client.is_closed_by_server
            await trio.sleep(3)
            assert client.is_closed_by_server
            assert len(application.parked) == 1

    trio.run(main, clock=MockClock(autojump_threshold=0))


def test_a_large_request_in_pieces_is_received():
    async def test(memory):
        _, stream = await connect(memory, receive_sizes=(5000, 1))
        request = b"7".rjust(300_000, b"0")[-4000:].rjust(4000, b"0")
        await stream.send_all((struct.pack(">i", len(request)) + request) * 40)
        assert await receive(stream, 11 * 40) == answer(7) * 40

    run(test)


def test_a_stopping_server_sends_the_bytes_in_the_tls_layer():
    """These bytes count as sent, so the connection must not close before they leave."""

    async def test(memory):
        _, stream = await connect(memory, capacity_bytes=900)
        await ask(stream, 1)
        await receive(stream, 5)
        await ask(stream, 20_000)
        await wait_all_tasks_blocked()
        memory.server.stop()
        await wait_all_tasks_blocked()
        assert await receive(stream, 20_004) == answer(20_000)

    run(test)


@pytest.mark.parametrize("data", [b"GET / HTTP/1.1\r\n\r\n", b"\0\0\0\x03abc", b"\x16\x03\x01\xff\xff" + b"x" * 70_000])
def test_bytes_that_are_no_tls_close_only_their_connection(data, caplog):
    """Case 58."""

    async def test(memory):
        bad, _ = await connect(memory)
        _, stream = await connect(memory)
        await ask(stream, 1)
        bad.send_bytes(data)
        while await bad.receive_bytes():
            pass
        assert bad.is_closed_by_server
        await ask(stream, 2)
        assert await receive(stream, 11) == answer(1, 2)
        assert sum(processor.counters.authentication_failed for processor in memory.server.processors) == 1

    with caplog.at_level(logging.INFO, "stages"):
        run(test)
    (told,) = [record.getMessage() for record in caplog.records if record.name == "stages.connection"]
    assert "on listener" in told
    assert "TLS handshake: " in told


def test_renegotiation_is_refused_whatever_the_context_says():
    """Each costs the server a handshake and the client nothing."""
    lower, _ = memory_connection()
    context = server_context()
    context.options &= ~ssl.OP_NO_RENEGOTIATION
    TlsTransportLayer(lower, context)
    assert context.options & ssl.OP_NO_RENEGOTIATION


def test_the_client_receives_an_alert_when_a_handshake_fails():
    """A client shows this alert to its user."""

    async def main():
        lower, client = memory_connection()
        tls = TlsTransportLayer(lower, server_context(), in_threads=False)
        client.send_bytes(b"\x16\x03\x01\xff\xff" + bytes(70_000))
        with pytest.raises(HandshakeError):
            await tls.start()
        alert = await client.receive_bytes()
        assert (alert[:1], alert[-1:]) == (b"\x15", b"\x16")  # an alert: record overflow

    trio.run(main)


def test_a_handshake_counts_as_failed_even_if_the_client_has_disconnected():
    """A client that sends no TLS and disconnects counts like one that waits for the alert."""

    async def main():
        lower, client = memory_connection()
        receive = lower.receive

        def receive_the_last():
            data = receive()
            client.reset()
            return data

        lower.receive = receive_the_last
        tls = TlsTransportLayer(lower, server_context(), in_threads=False)
        client.send_bytes(b"\x16\x03\x01\xff\xff" + bytes(70_000))
        with pytest.raises(HandshakeError, match="TLS handshake: "):
            await tls.start()

    trio.run(main)


def test_a_client_that_reads_nothing_of_a_handshake_is_closed():
    """Its socket buffer stays full."""

    async def main():
        lower, client = memory_connection(capacity_bytes=100)
        tls = TlsTransportLayer(lower, server_context(), in_threads=False)
        hello = ssl.MemoryBIO()
        with suppress(ssl.SSLWantReadError):
            client_context().wrap_bio(ssl.MemoryBIO(), hello, server_hostname="localhost").do_handshake()
        client.send_bytes(hello.read())
        ends = []

        async def start():
            try:
                await tls.start()
            except (HandshakeError, trio.ClosedResourceError) as error:
                ends.append((type(error), trio.current_time()))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(start)
            await trio.sleep(TLS_HANDSHAKE_SECONDS - 1)
            assert (client.unread_bytes, ends) == (100, []), "otherwise this is about nothing"
            await trio.sleep(2)
            tls.close()
        assert ends == [(HandshakeError, TLS_HANDSHAKE_SECONDS)]

    trio.run(main, clock=MockClock(autojump_threshold=0))


def test_a_connection_that_is_closed_during_a_handshake_step_leaves_openssl_to_its_thread():
    begun, may_end = threading.Event(), threading.Event()

    def step(tls):
        begun.set()
        assert may_end.wait(10)

    class Untouched:
        def unwrap(self):
            assert may_end.is_set(), "it is for one thread at a time"
            raise ssl.SSLError

    async def main():
        lower, client = memory_connection()
        tls = TlsTransportLayer(lower, server_context())
        tls._tls = Untouched()
        client.send_bytes(b"hello")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(tls.start)
            try:
                with trio.fail_after(10):
                    while not begun.is_set():
                        await trio.lowlevel.checkpoint()
                tls.close()
                assert client.is_closed_by_server
            finally:
                may_end.set()
        tls.close()

    with replaced(TlsTransportLayer, "_handshake_error", step):
        trio.run(main)


@pytest.mark.parametrize("is_ended", [False, True])
def test_a_handshake_that_is_not_finished_is_given_up(is_ended):
    async def test(memory):
        client, _ = await connect(memory)
        if is_ended:
            client.send_bytes(b"\x16\x03\x01")
            client.half_close()
        alert = await client.receive_bytes()
        assert alert == b"" or (is_ended and await client.receive_bytes() == b"")
        assert trio.current_time() == (0.0 if is_ended else TLS_HANDSHAKE_SECONDS)

    run(test)


def test_both_ends_send_close_notify():
    async def test(memory):
        client, stream = await connect(memory)
        await ask(stream, 9)
        await receive(stream, 13)
        await stream.aclose()  # SSLStream fails on a truncated connection
        await wait_all_tasks_blocked()
        assert client.is_closed_by_server
        _, stream = await connect(memory)
        await ask(stream, 9)
        await receive(stream, 13)
        memory.server.stop()
        assert await stream.receive_some() == b""

    run(test)


async def is_served_to_the_end(server, listener):
    """Serve a TLS client until the server stops."""
    stream = await trio.open_ssl_over_tcp_stream("127.0.0.1", listener.port, ssl_context=client_context())
    await ask(stream, 100_000, 1)
    assert await receive(stream, 100_009) == answer(100_000, 1)
    server.stop()
    assert await stream.receive_some() == b""
    await trio.aclose_forcefully(stream)


def test_a_listener_with_a_certificate_serves_tls_on_a_socket():
    """Behaviour 23."""

    async def main():
        listener = open_listener("TLS", "127.0.0.1", 0, tls=server_context)
        server = SocketServer(PIPELINED, Repeat(), MemoryStorage())
        async with trio.open_nursery() as nursery:
            await nursery.start(server.run, [listener])
            await is_served_to_the_end(server, listener)

    trio.run(main)


def test_handshake_failed_gets_address_and_reason_and_may_raise():
    """Other clients are served in any case."""

    async def main():
        told = []

        def tell(*failure):
            told.append(failure)
            raise RuntimeError("the callback fails")

        listener = open_listener("TLS", "127.0.0.1", 0, tls=server_context)
        server = SocketServer(PIPELINED, Repeat(), MemoryStorage())
        async with trio.open_nursery() as nursery:
            await nursery.start(server.run, [attrs.evolve(listener, handshake_failed=tell)])
            stranger = await trio.open_tcp_stream("127.0.0.1", listener.port)
            await stranger.send_all(b"no handshake at all")
            with suppress(trio.BrokenResourceError):
                async for _ in stranger:
                    pass
            await stranger.aclose()
            await is_served_to_the_end(server, listener)
        ((peer, reason),) = told
        assert peer == "127.0.0.1"
        assert reason.startswith("TLS handshake: ")

    trio.run(main)
