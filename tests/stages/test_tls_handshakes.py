"""Handshakes on real sockets: in threads, beside others, and with client certificates."""

import ssl
import subprocess
import threading
from contextlib import asynccontextmanager

import pytest
import trio
import trustme

from stages.mode import PIPELINED
from stages.request import Send
from stages.socket_server import SocketServer
from stages.testing.memory_storage import MemoryStorage
from stages.tls_transport_layer import HANDSHAKE_THREADS_MAX, TlsTransportLayer, _handshake_threads, _joined
from stages.transport_layer import JOIN_BYTES_MAX, PlaintextTransportLayer
from tests.required import require_tool
from tests.stages.connection_bench import ByHand, limits

FRAME = b"\0\0\0\1s"
PATIENCE_SECONDS = 20.0


class Certificates(ByHand):
    """Answers with the size of the client's certificate."""

    def open_session(self, connection, transport):
        connection.session = transport.peer_certificate

    def handle(self, request):
        return Send(request.connection.session or b"none")


@asynccontextmanager
async def serving(application, context):
    """Run a server; yield it and a function that connects a TCP stream to it."""
    server = SocketServer(PIPELINED, application, MemoryStorage(), limits=limits())
    listener = trio.socket.socket()
    await listener.bind(("127.0.0.1", 0))
    listener.listen(50)
    open_session = getattr(application, "open_session", None)

    async def connect():
        stream = await trio.open_tcp_stream("127.0.0.1", listener.getsockname()[1])
        accepted, _ = await listener.accept()
        transport = TlsTransportLayer(PlaintextTransportLayer(_plain(accepted)), context)
        await server.connect(transport, peer="client", listener="TLS", open_session=open_session)
        return stream

    with trio.fail_after(PATIENCE_SECONDS), listener:
        async with trio.open_nursery() as nursery:
            await nursery.start(server.run, ())
            yield server, connect
            server.stop()


def _plain(accepted):
    sock = accepted._sock.dup()
    accepted.close()
    return sock


@pytest.fixture(scope="module")
def authority():
    return trustme.CA()


def server_context(authority, verify=ssl.CERT_NONE):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("localhost").configure_cert(context)
    authority.configure_trust(context)
    context.verify_mode = verify
    return context


def client_context(authority, name=None):
    context = ssl.create_default_context()
    authority.configure_trust(context)
    if name is not None:
        authority.issue_cert(name, common_name=name).configure_cert(context)
    return context


async def ask(stream, context):
    """Exchange one request over a new TLS stream; return None if the server refused the handshake or closed."""
    tls = trio.SSLStream(stream, context, server_hostname="localhost", https_compatible=True)
    try:
        await tls.send_all(FRAME)
        response = await tls.receive_some()
    except trio.BrokenResourceError:
        return None
    finally:
        await trio.aclose_forcefully(tls)
    return response[4:] or None


@pytest.mark.parametrize(
    ("verify", "name", "is_served"),
    [
        (ssl.CERT_NONE, None, True),
        (ssl.CERT_OPTIONAL, None, True),
        (ssl.CERT_OPTIONAL, "duke", True),
        (ssl.CERT_REQUIRED, "duke", True),
        (ssl.CERT_REQUIRED, None, False),
    ],
)
def test_the_session_is_opened_with_the_certificate_that_the_client_showed(authority, verify, name, is_served):
    async def main():
        async with serving(Certificates(), server_context(authority, verify)) as (_, connect):
            response = await ask(await connect(), client_context(authority, name))
            if name is None:
                assert response == (b"none" if is_served else None)
            else:
                assert b"duke" in response  # the certificate itself

    trio.run(main)


def test_a_certificate_of_another_authority_is_refused(authority):
    async def main():
        async with serving(Certificates(), server_context(authority, ssl.CERT_REQUIRED)) as (_, connect):
            stranger = client_context(authority)
            trustme.CA().issue_cert("duke").configure_cert(stranger)
            assert await ask(await connect(), stranger) is None
            assert await ask(await connect(), client_context(authority, "duke")) is not None

    trio.run(main)


def test_an_exchange_over_tls_and_handshakes_that_take_long_delay_no_other(authority):
    """Behaviour 23: a TLS listener serves, also while OpenSSL works on the handshake of another connection."""

    async def main():
        context, entered, release = server_context(authority), threading.Event(), threading.Event()
        async with serving(ByHand(), context) as (_, connect), trio.open_nursery() as nursery:
            early = trio.SSLStream(await connect(), client_context(authority), server_hostname="localhost")
            await early.send_all(FRAME)
            assert await early.receive_some() == FRAME

            def slow(*of_handshake):
                entered.set()
                release.wait(PATIENCE_SECONDS)

            context.sni_callback = slow
            answers = []

            async def late():
                answers.append(await ask(await connect(), client_context(authority)))

            nursery.start_soon(late)
            while not entered.is_set():
                await trio.lowlevel.checkpoint()
            for _ in range(3):
                await early.send_all(FRAME)
                assert await early.receive_some() == FRAME
            assert answers == []
            release.set()
            while not answers:
                await trio.sleep(0.001)
            assert answers == [b"s"]
            await trio.aclose_forcefully(early)

    trio.run(main)


def test_a_connection_may_be_closed_while_a_thread_works_on_its_handshake(authority):
    async def main():
        context, entered, release = server_context(authority), threading.Event(), threading.Event()

        def slow(*of_handshake):
            entered.set()
            release.wait(PATIENCE_SECONDS)

        context.sni_callback = slow
        async with serving(ByHand(), context) as (server, connect), trio.open_nursery() as nursery:
            answers = []

            async def client():
                answers.append(await ask(await connect(), client_context(authority)))

            nursery.start_soon(client)
            while not entered.is_set():
                await trio.lowlevel.checkpoint()
            for connection in tuple(server.processors[0].connections):
                connection.close()
            release.set()
            while not answers:
                await trio.sleep(0.001)
            assert answers == [None]
            assert not server.processors[0].connections

    trio.run(main)


def test_handshakes_wait_for_a_thread_and_their_number_is_bounded(authority):
    async def main():
        async with serving(ByHand(), server_context(authority)) as (_, connect), trio.open_nursery() as nursery:
            for number in range(HANDSHAKE_THREADS_MAX):
                await _handshake_threads.acquire_on_behalf_of(number)
            answers = []

            async def client():
                answers.append(await ask(await connect(), client_context(authority)))

            nursery.start_soon(client)
            while not _handshake_threads.statistics().tasks_waiting:
                await trio.sleep(0.001)
            assert answers == []
            for number in range(HANDSHAKE_THREADS_MAX):
                _handshake_threads.release_on_behalf_of(number)
            while not answers:
                await trio.sleep(0.001)
            assert answers == [b"s"]

    trio.run(main)


def test_renegotiation_is_refused(authority):
    openssl = require_tool("openssl")

    def client(sock):
        with sock:
            process = subprocess.Popen(
                [openssl, "s_client", "-tls1_2", "-connect", f"127.0.0.1:{sock.getsockname()[1]}"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
            )
            return process, process.communicate(b"R\n", timeout=PATIENCE_SECONDS)[0]

    async def main():
        context = server_context(authority)
        server = SocketServer(PIPELINED, ByHand(), MemoryStorage(), limits=limits())
        listener = trio.socket.socket()
        await listener.bind(("127.0.0.1", 0))
        listener.listen(5)
        output = []
        with trio.fail_after(PATIENCE_SECONDS), listener:
            async with trio.open_nursery() as nursery:
                await nursery.start(server.run, ())

                async def run_client():
                    output.append(await trio.to_thread.run_sync(client, listener._sock.dup()))
                    server.stop()

                nursery.start_soon(run_client)
                accepted, _ = await listener.accept()
                tls = TlsTransportLayer(PlaintextTransportLayer(_plain(accepted)), context)
                await server.connect(tls, peer="client", listener="TLS")
        process, text = output[0]
        assert b"RENEGOTIATING" in text
        assert b"no renegotiation" in text
        assert process.returncode != 0

    trio.run(main)


def test_a_large_part_is_not_copied_once_a_send():
    large = bytes(10 * JOIN_BYTES_MAX)
    assert _joined([large, b"x"]).obj is large
    assert len(_joined([b"1234", large])) == JOIN_BYTES_MAX
    assert bytes(_joined([b"1234", b"5", memoryview(b"67")])) == b"1234567"
    assert len(_joined([b"x"])) == 1
