"""The end of a client connection: FIN or RST."""

import socket

import pytest
import trio

from pipeline_broker.client.connection import connect


def ended_by(before_close):
    """Return the other side's view of the end of a connection that closes with unread data."""

    async def main(port):
        async with connect("127.0.0.1", port) as connection:
            connection.send_nowait(b"x")
            before_close(connection)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        trio.run(main, listener.getsockname()[1])
        accepted, _ = listener.accept()
        with accepted:
            accepted.settimeout(30)
            return [accepted.recv(1), accepted.recv(1)]


def test_it_closes_in_order():
    assert ended_by(lambda _: None) == [b"x", b""]


def test_it_resets_if_requested():
    with pytest.raises(ConnectionResetError):
        ended_by(lambda connection: connection.reset_on_close())
