"""A connection that encrypts gives what the other side sent, however it is cut, and says how it ended."""

import socket
import ssl

import pytest
import trio
import trio.testing
import trustme

from pipeline_broker.client.errors import ClientError
from pipeline_broker.client.secure_connection import TlsConnection

HOST = "broker.example"
LARGE = bytes(range(256)) * 4096  # more than a socket's buffer and than one read


class SlicedStream(trio.abc.Stream):
    """Sends and receives a few bytes at a time."""

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
    """Of the client and of the broker."""
    authority = trustme.CA()
    client = ssl.create_default_context()
    authority.configure_trust(client)
    server = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert(HOST).configure_cert(server)
    return client, server


def talk(contexts, serve, drive, *, host=HOST, size=1 << 16):
    """Run both ends of a connection; the result of the client's."""

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
def test_what_is_sent_comes_back_however_it_is_cut(contexts, size, sent):
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


def test_what_came_before_the_end_is_given_and_the_end_is_told(contexts):
    async def serve(stream):
        await stream.send_all(b"last words")
        await stream.aclose()

    async def drive(connection):
        await connection.shake_hands()
        assert await receive(connection, 10) == b"last words"
        with pytest.raises(ClientError, match="the broker closed the connection"):
            await connection.receive()

    talk(contexts, serve, drive)


def test_what_came_before_tls_broke_is_given_and_the_break_is_told(contexts):
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


def test_a_broker_of_another_name_is_refused(contexts):
    async def serve(stream):
        with pytest.raises(trio.BrokenResourceError):
            await stream.do_handshake()

    async def drive(connection):
        with pytest.raises(ClientError, match=r"TLS handshake with the broker failed: .*other\.example") as caught:
            await connection.shake_hands()
        assert "\n" not in str(caught.value)

    talk(contexts, serve, drive, host="other.example")


def test_a_broker_that_does_not_speak_tls_is_one_line(contexts):
    async def serve(stream):
        await stream.transport_stream.send_all(b"\0\0\0\x0a0123456789")

    async def drive(connection):
        with pytest.raises(ClientError, match="TLS handshake with the broker failed"):
            await connection.shake_hands()

    talk(contexts, serve, drive)
