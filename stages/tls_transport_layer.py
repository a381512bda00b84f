"""TLS over another transport layer, by OpenSSL on two memory buffers.

Counterpart in Kafka: `SaslServerAuthenticator`, `SslTransportLayer`.
"""

import ssl
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

import trio

from stages.file_range import FileRange
from stages.request import Buffer
from stages.transport_layer import JOIN_BYTES_MAX, RECEIVE_BYTES, BrokenTransportError, HandshakeError, TransportLayer

__all__ = ["TlsTransportLayer"]

TLS_HANDSHAKE_SECONDS: Final = 10.0
HANDSHAKE_THREADS_MAX: Final = 4

_handshake_threads: Final = trio.CapacityLimiter(HANDSHAKE_THREADS_MAX)


def _joined(parts: Sequence[Buffer]) -> Buffer:
    if len(parts) == 1 or len(parts[0]) >= JOIN_BYTES_MAX:
        return memoryview(parts[0])[:JOIN_BYTES_MAX]
    pieces: list[Buffer] = []
    left = JOIN_BYTES_MAX
    for part in parts:
        pieces.append(part if len(part) <= left else memoryview(part)[:left])
        left -= len(pieces[-1])
        if not left:
            break
    return b"".join(pieces)


class TlsTransportLayer:
    """TLS on top of a lower layer, which does all I/O. Renegotiation is always refused.

    Args:
        lower: carries the encrypted bytes; owned by this layer from now on.
        context: a server-side context; its options are changed to refuse renegotiation.
        in_threads: whether handshake steps run in threads, which a mock clock does not wait for.
    """

    __slots__ = ("_ended", "_in_threads", "_incoming", "_is_in_thread", "_lower", "_outgoing", "_tls", "_unsent")

    def __init__(self, lower: TransportLayer, context: ssl.SSLContext, *, in_threads: bool = True) -> None:
        context.options |= ssl.OP_NO_RENEGOTIATION
        self._lower = lower
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        self._unsent = b""
        self._ended = False
        self._in_threads = in_threads
        self._is_in_thread = False

    sends_ranges = False  # OpenSSL needs the bytes

    @property
    def has_unsent(self) -> bool:
        return bool(self._unsent)

    @property
    def peer_certificate(self) -> bytes | None:
        return self._tls.getpeercert(binary_form=True)

    # Handshake

    async def start(self) -> None:
        """Do the handshake within TLS_HANDSHAKE_SECONDS.

        Raises:
            HandshakeError: if it fails or takes too long.
            BrokenTransportError: if the client disconnects.
        """
        with trio.move_on_after(TLS_HANDSHAKE_SECONDS):
            is_done = False
            while not is_done:
                await self._lower.wait_readable()
                if not self._feed():
                    continue
                is_done = await self._handshake_step()
                while not self._flush():
                    await self._lower.wait_writable()
                if self._ended:  # no more bytes will arrive to finish the handshake
                    raise BrokenTransportError("the peer closed the connection during the TLS handshake")
            return
        raise HandshakeError(f"the TLS handshake took more than {TLS_HANDSHAKE_SECONDS:g} s")

    async def _handshake_step(self) -> bool:
        # A handshake takes OpenSSL 0.3 ms with an EC key and 4 ms with a 4096-bit RSA key, without Python's lock.
        # Everything after it takes microseconds and runs on the event loop.
        if self._in_threads:
            self._is_in_thread = True
            try:
                error = await trio.to_thread.run_sync(self._handshake_error, limiter=_handshake_threads)
            finally:
                self._is_in_thread = False
        else:
            error = self._handshake_error()
        if error is None:
            return True
        if isinstance(error, ssl.SSLWantReadError):
            return False
        with suppress(BrokenTransportError):
            self._flush()  # sends the TLS alert, which tells the client the reason
        if isinstance(error, ssl.SSLEOFError):
            raise BrokenTransportError("the peer closed the connection during the TLS handshake")
        raise HandshakeError(f"TLS handshake: {error}")

    def _handshake_error(self) -> ssl.SSLError | ssl.CertificateError | None:
        try:
            self._tls.do_handshake()
        except (ssl.SSLError, ssl.CertificateError) as error:
            # Returned, not raised: an exception raised in a thread would be part of a cycle.
            return error.with_traceback(None)
        return None

    # Receiving

    def _feed(self) -> bool:
        """Move received bytes of the lower layer into OpenSSL; return False if none are available."""
        try:
            data = self._lower.receive()
        except BlockingIOError:
            return False
        if data:
            self._incoming.write(data)
        elif not self._ended:
            self._ended = True
            self._incoming.write_eof()
        return True

    def _decrypt(self, count: int) -> bytes:
        try:
            return self._tls.read(count)
        except ssl.SSLWantReadError:
            raise BlockingIOError from None
        # An end without close_notify is a normal end: frames have a length, so a truncated one is noticed.
        except (ssl.SSLZeroReturnError, ssl.SSLEOFError):
            return b""
        except ssl.SSLError as error:
            raise BrokenTransportError(f"TLS: {error}") from error

    @property
    def _has_received(self) -> bool:
        """True if OpenSSL holds received bytes, of which the socket's readiness says nothing."""
        return bool(self._tls.pending() or self._incoming.pending)

    def receive(self) -> bytes:
        return self._receive_at_most(RECEIVE_BYTES)

    def _receive_at_most(self, count: int) -> bytes:
        """Return up to `count` bytes from all available records; OpenSSL returns at most 16 KB at a time."""
        if not self._has_received and not self._feed():
            raise BlockingIOError
        try:
            data = self._decrypt(count)
            data += self._decrypt_more(count - len(data))
        finally:
            if self._outgoing.pending:
                self._flush()  # responses of TLS itself, such as key updates
        return data

    def _decrypt_more(self, count: int) -> bytes:
        pieces = []
        with suppress(BlockingIOError):
            while self._has_received:
                piece = self._decrypt(count)
                if not piece:
                    break  # `count` is reached, or the stream has ended, which the next receive reports
                pieces.append(piece)
                count -= len(piece)
        return b"".join(pieces)

    def receive_into(self, room: memoryview) -> int:
        data = self._receive_at_most(min(len(room), RECEIVE_BYTES))
        room[: len(data)] = data
        return len(data)

    async def wait_readable(self) -> None:
        if self._has_received:
            await trio.lowlevel.checkpoint()
            return
        await self._lower.wait_readable()

    # Sending

    def _flush(self) -> bool:
        """Hand encrypted bytes to the lower layer; return True if none are left."""
        if self._outgoing.pending:
            # OpenSSL hands out encrypted bytes once, so the layer must keep what the lower layer does not take.
            self._unsent += self._outgoing.read()
        while self._unsent:
            try:
                sent = self._lower.send((self._unsent,))
            except BlockingIOError:
                return False
            self._unsent = self._unsent[sent:]
        return True

    def send_range(self, part: FileRange) -> int:
        return self.send((part.source.read(part.position, min(part.size_bytes, JOIN_BYTES_MAX)),))

    def send(self, parts: Sequence[Buffer], *, is_continued: bool = False) -> int:  # noqa: ARG002 - a record leaves at once
        """Hand over bytes to OpenSSL; they count as sent even while the lower layer does not take them."""
        if not self._flush():
            raise BlockingIOError
        if not parts:
            return 0
        try:
            sent = self._tls.write(_joined(parts))
        except ssl.SSLError as error:
            raise BrokenTransportError(f"TLS: {error}") from error
        self._flush()
        return sent

    async def wait_writable(self) -> None:
        await self._lower.wait_writable()

    def close(self) -> None:
        """Close, and send close_notify if that is possible without waiting."""
        if not self._is_in_thread:  # an OpenSSL object must not be used in two threads at the same time
            with suppress(ssl.SSLError, BrokenTransportError):
                with suppress(ssl.SSLWantReadError):  # raised because the client's close_notify is missing
                    self._tls.unwrap()
                self._flush()
        self._lower.close()
