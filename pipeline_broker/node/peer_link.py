"""A connection to another broker of the machine: frames of requests, and their responses in the same order."""

from __future__ import annotations

import json
import struct
from collections import deque
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import trio

from pipeline_broker.node.peer_socket import HELLO_BYTES_MAX, PeerError, connect_peer

__all__ = ["FrameReader", "PeerLink"]

RESPONSE_BYTES_MAX = 256 << 20
CONNECT_SECONDS = 5.0
RETRY_SECONDS = 0.1
_LENGTH = struct.Struct(">i")


class FrameReader:
    """Reads whole parts of a stream.

    Raises:
        PeerError: from all methods, if the stream ends or a part is too long.
    """

    def __init__(self, stream: trio.SocketStream) -> None:
        self._stream = stream
        self._received = b""

    async def line(self) -> Mapping[str, Any]:
        while b"\n" not in self._received:
            await self._more()
            if len(self._received) > HELLO_BYTES_MAX:
                raise PeerError("the first line is too long")
        line, _, self._received = self._received.partition(b"\n")
        try:
            found = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise PeerError("the first line is not JSON") from error
        if not isinstance(found, dict):
            raise PeerError("the first line is not a JSON object")
        return found

    async def exactly(self, size: int) -> bytes:
        while len(self._received) < size:
            await self._more()
        taken, self._received = self._received[:size], self._received[size:]
        return taken

    async def frame(self) -> bytes:
        (size,) = _LENGTH.unpack(await self.exactly(_LENGTH.size))
        if not 0 <= size <= RESPONSE_BYTES_MAX:
            raise PeerError(f"a response has {size} bytes")
        return await self.exactly(size)

    async def _more(self) -> None:
        chunk = await self._stream.receive_some()
        if not chunk:
            raise PeerError("the other broker closed the connection")
        self._received += chunk


class PeerLink:
    """Requests to another broker, under one identity.

    Args:
        directory: directory of the cluster.
        node_id: id of the other broker.
        identity: the session under which the other broker handles the requests.
    """

    def __init__(self, directory: Path, node_id: int, identity: Mapping[str, Any]) -> None:
        self._directory = directory
        self._node_id = node_id
        self._identity = identity
        self._unsent: deque[tuple[bytes, Callable[[bytes | None], None]]] = deque()
        self._sent: deque[Callable[[bytes | None], None]] = deque()
        self._added = trio.lowlevel.ParkingLot()
        self.scope = trio.CancelScope()

    def add(self, frame: bytes, done: Callable[[bytes | None], None]) -> None:
        """Send a request.

        Args:
            frame: the request without its length.
            done: called once with the response without its length, or None if the connection broke before it.
        """
        self._unsent.append((frame, done))
        self._added.unpark_all()

    async def run(self) -> None:
        """Send requests and receive responses until cancelled, or until the connection breaks.

        Raises:
            PeerError, OSError, trio.BrokenResourceError, trio.TooSlowError: in an exception group.
        """
        try:
            with self.scope:
                with trio.fail_after(CONNECT_SECONDS):
                    stream = await self._connect()
                async with stream, trio.open_nursery() as nursery:
                    nursery.start_soon(self._send, stream)
                    reader = FrameReader(stream)
                    while True:
                        response = await reader.frame()
                        if not self._sent:
                            raise PeerError("the other broker sent a response without a request")
                        self._sent.popleft()(response)
        finally:
            unanswered = [*self._sent, *(done for _, done in self._unsent)]
            self._sent.clear()
            self._unsent.clear()
            for done in unanswered:
                done(None)

    async def _connect(self) -> trio.SocketStream:
        while True:
            try:
                return await connect_peer(self._directory, self._node_id, {"client": self._identity})
            except (OSError, trio.BrokenResourceError):
                await trio.sleep(RETRY_SECONDS)

    async def _send(self, stream: trio.SocketStream) -> None:
        while True:
            while not self._unsent:
                await self._added.park()
            frame, done = self._unsent.popleft()
            self._sent.append(done)
            await stream.send_all(_LENGTH.pack(len(frame)) + frame)
