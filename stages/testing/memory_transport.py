"""A connection in memory: a TransportLayer for the server, and a client that sends frames and receives responses.

It simulates everything a network may do to a connection: split reads and writes, false readiness, a client that reads
slowly or never, a half-close and a reset.
"""

import itertools
import struct
from collections.abc import Iterable, Iterator, Sequence

import trio

from stages.file_range import FileRange
from stages.frames import FrameReader
from stages.request import Buffer
from stages.transport_layer import RECEIVE_BYTES, BrokenTransportError

__all__ = ["MemoryClient", "MemoryTransportLayer", "memory_connection"]

CAPACITY_BYTES = 64 * 1024
"""Bytes of unread responses that the connection holds, like a socket's buffer."""
RESPONSE_BYTES_MAX = 2**31 - 1


class _Wire:
    __slots__ = ("capacity_bytes", "is_closed", "is_ended", "is_reset", "to_client", "to_server", "waiting")

    def __init__(self, capacity_bytes: int) -> None:
        self.capacity_bytes = capacity_bytes
        self.to_server = bytearray()
        self.to_client = bytearray()
        self.is_ended = False  # the client will send no more
        self.is_reset = False  # by the client
        self.is_closed = False  # by the server
        self.waiting = trio.lowlevel.ParkingLot()  # tasks of both ends; each checks what has changed

    def changed(self) -> None:
        self.waiting.unpark_all()


def _sizes(sizes: Iterable[int]) -> Iterator[int] | None:
    """Return the sizes in an endless cycle; None without sizes, for no limit.

    Raises:
        ValueError: if no size is above 0.
    """
    given = tuple(sizes)
    if not given:
        return None
    if not any(size > 0 for size in given):
        raise ValueError(f"the sizes {given} would let no byte pass: include one above 0")
    return itertools.cycle(given)


class MemoryTransportLayer:
    """The server's end; see `stages.transport_layer.TransportLayer`.

    Args:
        wire: state shared with the client's end.
        receive_sizes: maximum bytes of each receive, repeated; 0 simulates false readiness.
        send_sizes: the same for each send.
    """

    has_unsent = False
    sends_ranges = True
    peer_certificate = None

    def __init__(self, wire: _Wire, receive_sizes: Iterable[int] = (), send_sizes: Iterable[int] = ()) -> None:
        self._wire = wire
        self._receive_sizes = _sizes(receive_sizes)
        self._send_sizes = _sizes(send_sizes)

    async def start(self) -> None: ...

    def _check(self) -> None:
        if self._wire.is_closed:
            raise BrokenTransportError("closed by the server")
        if self._wire.is_reset:
            raise BrokenTransportError("reset by the client")

    def _take(self, count: int) -> bytes:
        self._check()
        wire = self._wire
        if not wire.to_server:
            if wire.is_ended:
                return b""
            raise BlockingIOError
        if self._receive_sizes is not None:
            count = min(count, next(self._receive_sizes))
            if not count:
                raise BlockingIOError
        data = bytes(wire.to_server[:count])
        del wire.to_server[:count]
        return data

    def receive(self) -> bytes:
        return self._take(RECEIVE_BYTES)

    def receive_into(self, room: memoryview) -> int:
        data = self._take(len(room))
        room[: len(data)] = data
        return len(data)

    def send_range(self, part: FileRange) -> int:
        return self.send((bytes(part),))

    def send(self, parts: Sequence[Buffer], *, is_continued: bool = False) -> int:  # noqa: ARG002 - nothing waits
        self._check()
        wire = self._wire
        data = b"".join(parts)
        count = min(len(data), wire.capacity_bytes - len(wire.to_client))
        if self._send_sizes is not None:
            count = min(count, next(self._send_sizes))
        if data and count <= 0:
            raise BlockingIOError
        wire.to_client += data[:count]
        wire.changed()
        return count

    async def wait_readable(self) -> None:
        wire = self._wire
        await trio.lowlevel.checkpoint()
        while not (wire.to_server or wire.is_ended or wire.is_reset or wire.is_closed):
            await wire.waiting.park()
        self._check_open()

    async def wait_writable(self) -> None:
        wire = self._wire
        await trio.lowlevel.checkpoint()
        while not (len(wire.to_client) < wire.capacity_bytes or wire.is_reset or wire.is_closed):
            await wire.waiting.park()
        self._check_open()

    def _check_open(self) -> None:
        if self._wire.is_closed:
            raise trio.ClosedResourceError

    def close(self) -> None:
        """Close; the client can still receive the bytes sent before."""
        self._wire.is_closed = True
        self._wire.changed()


class MemoryClient:
    """The client's end.

    Attributes:
        sent: the payloads sent by `send`, in order.
        received: the received payloads, in order.
    """

    def __init__(self, wire: _Wire) -> None:
        self._wire = wire
        self._reader = FrameReader(RESPONSE_BYTES_MAX)
        self.sent: list[bytes] = []
        self.received: list[bytes] = []

    # Sending

    def send(self, *payloads: bytes) -> None:
        """Send each payload with its length, as one burst; never waits. Raises like `send_bytes`."""
        self.sent += payloads
        self.send_bytes(b"".join(struct.pack(">i", len(payload)) + payload for payload in payloads))

    def send_bytes(self, data: bytes) -> None:
        """Send bytes as they are, such as half a frame or a false length.

        Raises:
            trio.ClosedResourceError: if `half_close` or `reset` was called.
            trio.BrokenResourceError: if the server has closed the connection.
        """
        if self._wire.is_ended:
            raise trio.ClosedResourceError
        if self._wire.is_closed:
            raise trio.BrokenResourceError
        self._wire.to_server += data
        self._wire.changed()

    def half_close(self) -> None:
        """Send no more; responses can still be received."""
        self._wire.is_ended = True
        self._wire.changed()

    def reset(self) -> None:
        """Disconnect at once: the server can no longer receive or send."""
        self._wire.is_ended = self._wire.is_reset = True
        self._wire.to_server.clear()
        self._wire.to_client.clear()
        self._wire.changed()

    # Receiving

    @property
    def unread_bytes(self) -> int:
        return len(self._wire.to_client)

    @property
    def is_closed_by_server(self) -> bool:
        """True if the server closed the connection; responses may still be unread."""
        return self._wire.is_closed

    async def receive_bytes(self) -> bytes:
        """Return the available bytes, waiting for some; empty at the end, once the server has closed the connection.

        Raises:
            trio.BrokenResourceError: if this end was reset.
        """
        wire = self._wire
        await trio.lowlevel.checkpoint()
        while not wire.to_client:
            if wire.is_reset:
                raise trio.BrokenResourceError
            if wire.is_closed:
                return b""
            await wire.waiting.park()
        data = bytes(wire.to_client)
        wire.to_client.clear()
        wire.changed()
        return data

    async def receive(self) -> bytes:
        """Return the payload of the next response.

        Raises:
            trio.EndOfChannel: if the server closed the connection after a whole response.
            trio.BrokenResourceError: if the server closed the connection within a response, or this end was reset.
        """
        while (frame := self._reader.next_frame()) is None:
            data = await self.receive_bytes()
            if data:
                self._reader.receive_data(data)
            elif self._reader.buffered_bytes:
                raise trio.BrokenResourceError
            else:
                raise trio.EndOfChannel
        self.received.append(bytes(frame))
        return self.received[-1]

    async def receive_count(self, count: int) -> list[bytes]:
        return [await self.receive() for _ in range(count)]

    async def receive_all(self) -> list[bytes]:
        """Return all responses until the server closes the connection.

        Raises:
            trio.BrokenResourceError: if the server closed the connection within a response, or this end was reset.
        """
        responses = []
        try:
            while True:
                responses.append(await self.receive())
        except trio.EndOfChannel:
            return responses


def memory_connection(
    *, capacity_bytes: int = CAPACITY_BYTES, receive_sizes: Iterable[int] = (), send_sizes: Iterable[int] = ()
) -> tuple[MemoryTransportLayer, MemoryClient]:
    """Return the two ends of a new connection.

    Args:
        capacity_bytes: bytes of responses that the connection holds while the client does not read.
        receive_sizes: see MemoryTransportLayer; `(1,)` is byte by byte.
        send_sizes: the same for the bytes that the server sends.

    Raises:
        ValueError: if sizes are given and none of them is above 0.
    """
    wire = _Wire(capacity_bytes)
    return MemoryTransportLayer(wire, receive_sizes, send_sizes), MemoryClient(wire)
