"""A TLS connection returns the sent bytes, however they are split, and reports how it ended."""

import functools
import socket
import ssl
import struct
import threading

import pytest
import trio
import trio.testing
import trustme

from pipeline_broker.client.bearer_tokens import Bearer
from pipeline_broker.client.errors import ClientError
from pipeline_broker.client.secure_connection import TlsConnection, connect_securely
from pipeline_broker.client.security import ClientSecurity

HOST = "broker.example"
LARGE = bytes(range(256)) * 4096  # more than a socket's buffer and than one read


class SlicedStream(trio.abc.Stream):
    """A stream that sends and receives a few bytes at a time."""

    def __init__(self, stream, size):
        self._stream, self._size = stream, size

    async def send_all(self, data):
        for start in range(0, len(data), self._size):
            await self._stream.send_all(data[start : start + self._size])

    async def wait_send_all_might_not_block(self):
        await self._stream.wait_send_all_might_not_block()

    async def receive_some(self, max_bytes=None):
        return await self._stream.receive_some(self._size)

    async def aclose(self):
        await self._stream.aclose()


@pytest.fixture(scope="module")
def contexts():
    """The TLS contexts of the client and of the broker."""
    authority = trustme.CA()
    client = ssl.create_default_context()
    authority.configure_trust(client)
    server = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert(HOST).configure_cert(server)
    return client, server


def talk(contexts, serve, drive, *, host=HOST, size=1 << 16):
    """Run both ends of a connection; return the result of the client."""

    async def main():
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        stream = trio.SocketStream(trio.socket.from_stdlib_socket(theirs))
        tls = trio.SSLStream(SlicedStream(stream, size), contexts[1], server_side=True)
        try:
            with trio.fail_after(30):
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(serve, tls)
                    connection = TlsConnection(ours, contexts[0], host)
                    nursery.start_soon(connection.run_writer)
                    result = await drive(connection)
                    nursery.cancel_scope.cancel()
                    return result
        finally:
            ours.close()
            await trio.aclose_forcefully(stream)

    try:
        return trio.run(main)
    except ExceptionGroup as group:
        (error,) = group.exceptions
        raise error from None


async def echo(stream):
    async for data in stream:
        await stream.send_all(data)


async def receive(connection, count):
    data = b""
    while len(data) < count:
        data += await connection.receive()
    return data


@pytest.mark.parametrize(("size", "sent"), [(1, b"a request"), (7, LARGE[:5000]), (1 << 16, LARGE)])
def test_bytes_arrive_unchanged_however_they_are_split(contexts, size, sent):
    async def drive(connection):
        await connection.shake_hands()
        connection.send_nowait(sent)
        return await receive(connection, len(sent))

    assert talk(contexts, echo, drive, size=size) == sent


def test_many_small_messages_keep_their_order(contexts):
    async def drive(connection):
        await connection.shake_hands()
        for number in range(500):
            connection.send_nowait(b"%03d" % number)
        return await receive(connection, 1500)

    assert talk(contexts, echo, drive) == b"".join(b"%03d" % number for number in range(500))


def test_bytes_before_the_end_are_returned_before_the_end_is_reported(contexts):
    async def serve(stream):
        await stream.send_all(b"last words")
        await stream.aclose()

    async def drive(connection):
        await connection.shake_hands()
        assert await receive(connection, 10) == b"last words"
        with pytest.raises(ClientError, match="the broker closed the connection"):
            await connection.receive()

    talk(contexts, serve, drive)


def test_bytes_before_a_tls_error_are_returned_before_the_error(contexts):
    async def serve(stream):
        await stream.send_all(b"last words")
        await stream.transport_stream.send_all(b"no record of TLS")

    async def drive(connection):
        await connection.shake_hands()
        await trio.testing.wait_all_tasks_blocked()  # both have come
        assert await connection.receive() == b"last words"
        with pytest.raises(ClientError, match="TLS with the broker broke: WRONG_VERSION_NUMBER"):
            await connection.receive()

    talk(contexts, serve, drive)


def test_a_certificate_for_another_host_is_rejected(contexts):
    async def serve(stream):
        with pytest.raises(trio.BrokenResourceError):
            await stream.do_handshake()

    async def drive(connection):
        with pytest.raises(ClientError, match=r"TLS handshake with the broker failed: .*other\.example") as caught:
            await connection.shake_hands()
        assert "\n" not in str(caught.value)

    talk(contexts, serve, drive, host="other.example")


def test_a_broker_without_tls_is_one_line(contexts):
    async def serve(stream):
        await stream.transport_stream.send_all(b"\0\0\0\x0a0123456789")

    async def drive(connection):
        with pytest.raises(ClientError, match="TLS handshake with the broker failed"):
            await connection.shake_hands()

    talk(contexts, serve, drive)


def offering(drive, error_code, *mechanisms):
    """Run a client against a broker that answers the SASL handshake with these mechanisms, and nothing else."""

    async def serve(stream):
        async with stream:
            request = await stream.receive_some()
            offered = b"".join(struct.pack(">h", len(name)) + name for name in mechanisms)
            answer = request[8:12] + struct.pack(">hi", error_code, len(mechanisms)) + offered
            await stream.send_all(struct.pack(">i", len(answer)) + answer)
            asked = await stream.receive_some()
            assert asked == b"", "the client continues"

    async def main():
        with trio.fail_after(30):
            async with trio.open_nursery() as nursery:
                serving = functools.partial(trio.serve_tcp, serve, 0, host="127.0.0.1")
                (listener,) = await nursery.start(serving)
                await drive(*listener.socket.getsockname()[:2])
                nursery.cancel_scope.cancel()

    trio.run(main)


def test_a_mechanism_that_the_broker_does_not_offer_is_not_tried():
    """Otherwise any server that answers could receive the proof of a password."""

    async def drive(host, port):
        security = ClientSecurity(mechanism="PLAIN", username="ada", password="secret")
        with pytest.raises(ClientError, match=r"SASL PLAIN: .*it offers SCRAM-SHA-256, GSSAPI") as caught:
            async with connect_securely(host, port, security):
                raise AssertionError("it is let in")
        assert "secret" not in str(caught.value)

    offering(drive, 33, b"SCRAM-SHA-256", b"GSSAPI")


def test_a_cancelled_task_does_not_wait_for_a_token():
    is_wanted, was_given = threading.Event(), threading.Event()
    is_asked = trio.Event()

    class Late:
        def token(self):
            trio.from_thread.run_sync(is_asked.set)
            is_wanted.wait(5)
            was_given.set()
            return "token"

    async def drive(host, port):
        async with trio.open_nursery() as nursery:

            async def connect():
                async with connect_securely(host, port, ClientSecurity(mechanism="OAUTHBEARER", bearer=Bearer(Late()))):
                    raise AssertionError("it is let in")

            nursery.start_soon(connect)
            await is_asked.wait()
            nursery.cancel_scope.cancel()
        assert not was_given.is_set()

    try:
        offering(drive, 0, b"OAUTHBEARER")
    finally:
        is_wanted.set()
        assert was_given.wait(5)
