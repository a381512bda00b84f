"""Plaintext and TLS behind one small interface of calls that never block and two waits.

Rules of this room: bytes only; no frame, no request. `receive` and `send` are tried first by whoever owns the
connection; only when they would block does a task wait. Foreign exceptions become three endings: `BlockingIOError` (try
again after the wait), `BrokenTransportError` (the peer or the world ended it), and an empty receive (clean end).
"""

import socket
import ssl
from collections.abc import Sequence
from contextlib import suppress
from typing import Protocol

import trio

from stages.request import Buffer

__all__ = ["BrokenTransportError", "PlaintextTransportLayer", "TlsTransportLayer", "TransportLayer"]

RECEIVE_BYTES = 64 * 1024
"""Bytes asked of the kernel at a time: what a burst of some hundred small requests needs."""
JOIN_BYTES_MAX = 64 * 1024
"""Parts that are together smaller are joined: one copy is cheaper than one vector element each."""
PARTS_MAX = 512
"""Vector elements of one `sendmsg`; Linux accepts 1024."""
TLS_HANDSHAKE_SECONDS = 10.0


class BrokenTransportError(Exception):
    """The peer reset the connection, or it broke in another way; nothing more can be received or sent."""


class TransportLayer(Protocol):
    """A connected byte stream.

    Attributes:
        has_unsent: bytes that `send` accepted wait inside the layer; after `wait_writable`, `send(())` hands them on.
    """

    @property
    def has_unsent(self) -> bool:
        """See the class."""

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

    __slots__ = ("_closed", "_sock")
    has_unsent = False

    def __init__(self, sock: socket.socket) -> None:
        sock.setblocking(False)
        self._sock = sock
        self._closed = False

    async def start(self) -> None:
        """Nothing to do."""

    def receive(self) -> bytes:
        """See TransportLayer."""
        try:
            return self._sock.recv(RECEIVE_BYTES)
        except BlockingIOError:
            raise
        except OSError as error:
            raise BrokenTransportError(str(error)) from error

    def receive_into(self, room: memoryview) -> int:
        """See TransportLayer."""
        try:
            return self._sock.recv_into(room)
        except BlockingIOError:
            raise
        except OSError as error:
            raise BrokenTransportError(str(error)) from error

    def send(self, parts: Sequence[Buffer]) -> int:
        """See TransportLayer."""
        try:
            if len(parts) == 1:
                return self._sock.send(parts[0])
            if sum(map(len, parts)) <= JOIN_BYTES_MAX:
                return self._sock.send(b"".join(parts))
            return self._sock.sendmsg(parts[:PARTS_MAX])
        except BlockingIOError:
            raise
        except OSError as error:
            raise BrokenTransportError(str(error)) from error

    async def wait_readable(self) -> None:
        """See TransportLayer."""
        await trio.lowlevel.wait_readable(self._sock)

    async def wait_writable(self) -> None:
        """See TransportLayer."""
        await trio.lowlevel.wait_writable(self._sock)

    def close(self) -> None:
        """See TransportLayer."""
        if self._closed:
            return
        self._closed = True
        trio.lowlevel.notify_closing(self._sock)
        self._sock.close()


def _joined(parts: Sequence[Buffer]) -> bytes:
    """As many of the first parts as reach JOIN_BYTES_MAX, in one piece."""
    size_bytes = count = 0
    for part in parts:
        if size_bytes >= JOIN_BYTES_MAX:
            break
        size_bytes += len(part)
        count += 1
    return b"".join(parts[:count])


class TlsTransportLayer:
    """TLS over another transport layer, by OpenSSL on two memory buffers.

    Args:
        lower: carries the encrypted bytes; owned from here on.
        context: a server-side context.
    """

    __slots__ = ("_ended", "_incoming", "_lower", "_outgoing", "_tls", "_unsent")

    def __init__(self, lower: TransportLayer, context: ssl.SSLContext) -> None:
        self._lower = lower
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        self._unsent = b""
        self._ended = False

    @property
    def has_unsent(self) -> bool:
        """See TransportLayer."""
        return bool(self._unsent)

    @property
    def peer_certificate(self) -> bytes | None:
        """The client's certificate in DER form, if it showed one."""
        return self._tls.getpeercert(binary_form=True)

    async def start(self) -> None:
        """Do the handshake within TLS_HANDSHAKE_SECONDS.

        Raises:
            BrokenTransportError: it failed, ended early, or took too long.
        """
        with trio.move_on_after(TLS_HANDSHAKE_SECONDS):
            while not self._handshake_done():
                if not self._flush():
                    await self._lower.wait_writable()
                    continue
                if self._ended:
                    raise BrokenTransportError("the peer closed during the TLS handshake")
                await self._lower.wait_readable()
                self._feed()
            while not self._flush():
                await self._lower.wait_writable()
            return
        raise BrokenTransportError("the TLS handshake took too long")

    def _handshake_done(self) -> bool:
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            return False
        except (ssl.SSLError, ssl.CertificateError) as error:
            self._flush()  # the alert tells the peer why
            raise BrokenTransportError(f"TLS handshake: {error}") from error
        return True

    def _feed(self) -> None:
        """Move what the lower layer has into OpenSSL; BlockingIOError is for the caller of `receive` only."""
        try:
            data = self._lower.receive()
        except BlockingIOError:
            return
        if data:
            self._incoming.write(data)
        else:
            self._ended = True
            self._incoming.write_eof()

    def _flush(self) -> bool:
        """Hand encrypted bytes to the lower layer; True when none are left."""
        if self._outgoing.pending:
            self._unsent += self._outgoing.read()
        while self._unsent:
            try:
                sent = self._lower.send((self._unsent,))
            except BlockingIOError:
                return False
            self._unsent = self._unsent[sent:]
        return True

    def _decrypt(self, count: int) -> bytes:
        try:
            return self._tls.read(count)
        except ssl.SSLWantReadError:
            raise BlockingIOError from None
        except (ssl.SSLZeroReturnError, ssl.SSLEOFError):
            return b""
        except ssl.SSLError as error:
            raise BrokenTransportError(f"TLS: {error}") from error

    def receive(self) -> bytes:
        """See TransportLayer."""
        try:
            return self._decrypt(RECEIVE_BYTES)  # decrypted bytes may be left where the socket has none
        except BlockingIOError:
            self._feed()
        try:
            return self._decrypt(RECEIVE_BYTES)
        finally:
            self._flush()  # answers of the TLS layer itself, such as key updates

    def receive_into(self, room: memoryview) -> int:
        """See TransportLayer."""
        data = self.receive() if len(room) >= RECEIVE_BYTES else self._receive_at_most(len(room))
        room[: len(data)] = data
        return len(data)

    def _receive_at_most(self, count: int) -> bytes:
        try:
            return self._decrypt(count)
        except BlockingIOError:
            self._feed()
        return self._decrypt(count)

    def send(self, parts: Sequence[Buffer]) -> int:
        """See TransportLayer; bytes count as handed over once OpenSSL has them."""
        if not self._flush():
            raise BlockingIOError
        if not parts:
            return 0
        data = memoryview(parts[0] if len(parts) == 1 else _joined(parts))[:JOIN_BYTES_MAX]
        try:
            sent = self._tls.write(data)
        except ssl.SSLError as error:
            raise BrokenTransportError(f"TLS: {error}") from error
        self._flush()
        return sent

    async def wait_readable(self) -> None:
        """See TransportLayer."""
        if self._tls.pending() or self._incoming.pending:
            await trio.lowlevel.checkpoint()
            return
        await self._lower.wait_readable()

    async def wait_writable(self) -> None:
        """See TransportLayer."""
        await self._lower.wait_writable()

    def close(self) -> None:
        """See TransportLayer; tells the peer, as far as that can be done at once, that nothing was cut off."""
        with suppress(ssl.SSLError, BrokenTransportError):
            with suppress(ssl.SSLWantReadError):  # it does not wait for the peer to say the same
                self._tls.unwrap()
            self._flush()
        self._lower.close()
