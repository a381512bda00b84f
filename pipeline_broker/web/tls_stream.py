"""TLS for a connection of the HTTP server, by the layer of the broker's listeners."""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Iterator
from typing import TYPE_CHECKING

import trio

from stages.tls_transport_layer import TlsTransportLayer
from stages.transport_layer import RECEIVE_BYTES, BrokenTransportError, PlaintextTransportLayer

if TYPE_CHECKING:
    import ssl

__all__ = ["HANDSHAKE_SECONDS", "TlsStream"]

HANDSHAKE_SECONDS = 5.0
"""Time for the TLS handshake of an HTTP connection."""


@contextlib.contextmanager
def _as_broken_resource() -> Iterator[None]:
    try:
        yield
    except BrokenTransportError as error:
        raise trio.BrokenResourceError(str(error)) from None


class TlsStream(trio.abc.HalfCloseableStream):
    """A TLS connection as a stream of Trio. The stream cannot close one direction alone; `send_eof` does nothing.

    Args:
        stream: an accepted connection, which the TLS stream owns from now on.
    """

    def __init__(self, stream: trio.SocketStream, context: ssl.SSLContext) -> None:
        sock = socket.socket(fileno=os.dup(stream.socket.fileno()))
        stream.socket.close()
        self._layer = TlsTransportLayer(PlaintextTransportLayer(sock), context)

    async def start(self) -> None:
        """Do the handshake within HANDSHAKE_SECONDS.

        Raises:
            trio.BrokenResourceError: it failed or took too long.
        """
        with trio.move_on_after(HANDSHAKE_SECONDS), _as_broken_resource():
            await self._layer.start()
            return
        raise trio.BrokenResourceError("the TLS handshake took too long")

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        await trio.lowlevel.checkpoint()
        room = bytearray(max_bytes or RECEIVE_BYTES)
        with _as_broken_resource():
            while True:
                try:
                    count = self._layer.receive_into(memoryview(room))
                except BlockingIOError:
                    await self._layer.wait_readable()
                else:
                    return bytes(room[:count])

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        await trio.lowlevel.checkpoint()
        left = memoryview(data)
        with _as_broken_resource():
            while left or self._layer.has_unsent:
                try:
                    left = left[self._layer.send((left,) if left else ()) :]
                except BlockingIOError:
                    await self._layer.wait_writable()

    async def wait_send_all_might_not_block(self) -> None:
        await self._layer.wait_writable()

    async def send_eof(self) -> None:
        await trio.lowlevel.checkpoint()

    async def aclose(self) -> None:
        self._layer.close()
        await trio.lowlevel.checkpoint()
