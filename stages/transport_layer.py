"""What carries the bytes of a connection: one small interface of calls that never block and two waits; plaintext.

Rules of this room: bytes only; no frame, no request. `receive` and `send` are tried first by whoever owns the
connection; only when they would block does a task wait. Foreign exceptions become three endings: `BlockingIOError` (try
again after the wait), `BrokenTransportError` (the peer or the world ended it), and an empty receive (clean end).
"""

import socket
from collections.abc import Sequence
from typing import Final, Protocol

import trio

from stages.request import Buffer

__all__ = [
    "JOIN_BYTES_MAX",
    "RECEIVE_BYTES",
    "BrokenTransportError",
    "HandshakeError",
    "PlaintextTransportLayer",
    "TransportLayer",
]

RECEIVE_BYTES: Final = 64 * 1024
"""Bytes asked of the kernel at a time: what a burst of some hundred small requests needs."""
JOIN_BYTES_MAX: Final = 64 * 1024
"""Parts that are together smaller are joined: one copy is cheaper than one vector element each."""
PARTS_MAX: Final = 512
"""Vector elements of one `sendmsg`; Linux accepts 1024."""
HAS_SENDMSG = hasattr(socket.socket, "sendmsg")
"""Not on Windows: there the parts are sent one by one."""


class BrokenTransportError(Exception):
    """The peer reset the connection, or it broke in another way; nothing more can be received or sent."""


class HandshakeError(BrokenTransportError):
    """The peer and this side do not agree on how to speak, or on who they are; a peer that merely left is none."""


class TransportLayer(Protocol):
    """A connected byte stream.

    Attributes:
        has_unsent: bytes that `send` accepted wait inside the layer; after `wait_writable`, `send(())` hands them on.
        peer_certificate: the client's certificate in DER form, if it had to show one and did.
    """

    @property
    def has_unsent(self) -> bool: ...

    @property
    def peer_certificate(self) -> bytes | None: ...

    async def start(self) -> None:
        """Do what must be done before the first byte of payload (a TLS handshake)."""

    def receive(self) -> bytes:
        """The bytes at hand, at most RECEIVE_BYTES; empty at the end; BlockingIOError if there are none now."""

    def receive_into(self, room: memoryview) -> int:
        """Like `receive`, into `room`; returns how many."""

    def send(self, parts: Sequence[Buffer]) -> int:
        """Hand over as many bytes as fit; returns how many; BlockingIOError if none do."""

    async def wait_readable(self) -> None:
        """Wait until `receive` may succeed."""

    async def wait_writable(self) -> None:
        """Wait until `send` may succeed."""

    def close(self) -> None:
        """Close at once; tasks in a wait get trio.ClosedResourceError."""


class PlaintextTransportLayer:
    """A socket as it is.

    Args:
        sock: a connected stream socket; becomes non-blocking and is owned from here on.
    """

    __slots__ = ("_sock",)
    has_unsent = False
    peer_certificate = None

    def __init__(self, sock: socket.socket) -> None:
        sock.setblocking(False)
        self._sock = sock

    async def start(self) -> None:
        """Nothing to do."""

    def receive(self) -> bytes:
        try:
            return self._sock.recv(RECEIVE_BYTES)
        except BlockingIOError:
            raise
        except OSError as error:
            raise BrokenTransportError(str(error)) from error

    def receive_into(self, room: memoryview) -> int:
        try:
            return self._sock.recv_into(room)
        except BlockingIOError:
            raise
        except OSError as error:
            raise BrokenTransportError(str(error)) from error

    def send(self, parts: Sequence[Buffer]) -> int:
        try:
            if len(parts) == 1:
                return self._sock.send(parts[0])
            if sum(map(len, parts)) <= JOIN_BYTES_MAX:
                return self._sock.send(b"".join(parts))
            if not HAS_SENDMSG:
                return self._sock.send(parts[0] or b"".join(parts))
            return self._sock.sendmsg(parts[:PARTS_MAX])
        except BlockingIOError:
            raise
        except OSError as error:
            raise BrokenTransportError(str(error)) from error

    async def wait_readable(self) -> None:
        await trio.lowlevel.wait_readable(self._sock)

    async def wait_writable(self) -> None:
        await trio.lowlevel.wait_writable(self._sock)

    def close(self) -> None:
        trio.lowlevel.notify_closing(self._sock)
        self._sock.close()
