"""The interface of a connection's byte stream, and its plaintext implementation.

Calls never block; only two methods wait. A caller tries `receive` and `send` first, and waits only after
BlockingIOError. All other errors of a transport become `BrokenTransportError`.
"""

import os
import socket
import sys
from collections.abc import Sequence
from typing import Final, Protocol

import trio

from stages.file_range import FileRange
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
"""Size of one receive, enough for a burst of some hundred small requests."""
JOIN_BYTES_MAX: Final = 64 * 1024
"""Total size up to which parts are joined, since one copy is cheaper than one vector element for each part."""
PARTS_MAX: Final = 512
"""Vector elements of one `sendmsg`; Linux accepts 1024."""
SENDS_RANGES: Final = sys.platform == "linux" and hasattr(os, "RWF_NOWAIT")
MSG_MORE: Final = getattr(socket, "MSG_MORE", 0)
HAS_SENDMSG = hasattr(socket.socket, "sendmsg")
"""False on Windows, where parts are sent one by one."""


class BrokenTransportError(Exception):
    """The client reset the connection, or it failed otherwise; it can neither receive nor send."""


class HandshakeError(BrokenTransportError):
    """The handshake failed: the client and the server do not agree on a protocol or an identity.

    A client that disconnects during the handshake raises BrokenTransportError instead.
    """


class TransportLayer(Protocol):
    """A connected byte stream.

    Attributes:
        has_unsent: whether the layer holds bytes that `send` accepted; after `wait_writable`, `send(())` passes them
            on.
        sends_ranges: whether `send_range` is cheaper than to read the range and send its bytes.
        peer_certificate: certificate of the client in DER form, if the server requested one and the client sent it.
    """

    @property
    def has_unsent(self) -> bool: ...

    @property
    def sends_ranges(self) -> bool: ...

    @property
    def peer_certificate(self) -> bytes | None: ...

    async def start(self) -> None:
        """Prepare the stream for the first byte of payload (a TLS handshake).

        Raises:
            HandshakeError: if the handshake fails.
            BrokenTransportError: if the client disconnects.
        """

    def receive(self) -> bytes:
        """Return the received bytes, at most RECEIVE_BYTES; empty at the end of the stream.

        Raises:
            BlockingIOError: if no bytes are available.
            BrokenTransportError: if the connection is broken.
        """

    def receive_into(self, room: memoryview) -> int:
        """Receive into `room`, and return the number of bytes; 0 at the end of the stream. Raises like `receive`."""

    def send(self, parts: Sequence[Buffer], *, is_continued: bool = False) -> int:
        """Hand over as many bytes as fit, and return their number.

        Args:
            is_continued: more bytes follow at once, so the system may wait for them.

        Raises:
            BlockingIOError: if none fit.
            BrokenTransportError: if the connection is broken.
        """

    def send_range(self, part: FileRange) -> int:
        """Hand over as many bytes of a file as fit. Raises like `send`.

        Returns 0 if the bytes are not in memory. Then call `load` of the range in a thread.
        """

    async def wait_readable(self) -> None: ...

    async def wait_writable(self) -> None: ...

    def close(self) -> None:
        """Close at once; waiting tasks get trio.ClosedResourceError."""


class PlaintextTransportLayer:
    """A plain socket.

    Args:
        sock: a connected stream socket; it becomes non-blocking and is owned by the layer from now on.
    """

    __slots__ = ("_sock",)
    has_unsent = False
    sends_ranges = SENDS_RANGES
    peer_certificate = None

    def __init__(self, sock: socket.socket) -> None:
        sock.setblocking(False)
        self._sock = sock

    async def start(self) -> None: ...

    def receive(self) -> bytes:
        try:
            return self._sock.recv(RECEIVE_BYTES)
        # An OSError, too, but it means "try again after `wait_readable`".
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

    def send(self, parts: Sequence[Buffer], *, is_continued: bool = False) -> int:
        flags = MSG_MORE if is_continued else 0
        try:
            if len(parts) == 1:
                return self._sock.send(parts[0], flags)
            if sum(map(len, parts)) <= JOIN_BYTES_MAX:
                return self._sock.send(b"".join(parts), flags)
            if not HAS_SENDMSG:
                # An empty first part would make no progress.
                return self._sock.send(parts[0] or b"".join(parts))
            return self._sock.sendmsg(parts[:PARTS_MAX], (), flags)
        except BlockingIOError:
            raise
        except OSError as error:
            raise BrokenTransportError(str(error)) from error

    def send_range(self, part: FileRange) -> int:
        try:
            return part.source.send_to(self._sock.fileno(), part.position, part.size_bytes)
        except BlockingIOError:
            raise
        except OSError as error:
            raise BrokenTransportError(str(error)) from error

    async def wait_readable(self) -> None:
        await trio.lowlevel.wait_readable(self._sock)

    async def wait_writable(self) -> None:
        await trio.lowlevel.wait_writable(self._sock)

    def close(self) -> None:
        # Before `close`: a waiting task would otherwise wait on a descriptor that the system may reuse.
        trio.lowlevel.notify_closing(self._sock)
        self._sock.close()
