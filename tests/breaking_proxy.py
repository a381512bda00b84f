"""A TCP proxy with latency and connection resets, for tests of slow and unreliable networks.

One thread forwards all connections, so chunks leave in the order of their times. Every `chunks_per_reset` chunks, the
connection of the chunk is reset at both ends, and data in transit is lost.
"""

import heapq
import selectors
import socket
import struct
import threading
import time

import attrs

CHUNK_BYTES = 1 << 16
TURN_SECONDS = 0.01
LINGER_RESET = struct.pack("ii", 1, 0)


@attrs.define(eq=False)
class Side:
    """A socket; received data goes to the other side."""

    sock: socket.socket
    other: "Side | None" = None
    is_open: bool = True


@attrs.define
class Proxy:
    """A proxy to a local port; a context manager.

    Attributes:
        latency_seconds: the delay of each chunk.
        chunks_per_reset: one of this many chunks resets its connection instead of being forwarded; None: none.
        target_port: the port of the broker.
        resets: the number of reset connections.
    """

    latency_seconds: float
    chunks_per_reset: int | None = None
    target_port: int = 0
    resets: int = 0
    _listening: socket.socket = attrs.field(factory=lambda: socket.create_server(("127.0.0.1", 0)))
    _selector: selectors.BaseSelector = attrs.field(factory=selectors.DefaultSelector)
    _due: list = attrs.field(factory=list)
    _sides: set = attrs.field(factory=set)
    _is_stopped: bool = False
    _thread: threading.Thread | None = None

    @property
    def port(self):
        return self._listening.getsockname()[1]

    def __enter__(self):
        self._selector.register(self._listening, selectors.EVENT_READ, None)
        self._thread = threading.Thread(target=self._run)
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._is_stopped = True
        self._thread.join()
        for side in tuple(self._sides):
            self._end(side)
        self._selector.close()
        self._listening.close()

    def _run(self):
        number = 0
        while not self._is_stopped:
            for key, _ in self._selector.select(TURN_SECONDS / 2):
                if key.data is None:
                    self._accept()
                    continue
                side = key.data
                if not side.is_open:  # the reset of its other side, a moment ago, has closed it
                    continue
                data = self._receive(side)
                number += 1
                if data and self.chunks_per_reset is not None and not number % self.chunks_per_reset:
                    self._reset(side)
                elif side.is_open:
                    heapq.heappush(self._due, (time.monotonic() + self.latency_seconds, number, side, data))
                    if not data:
                        self._selector.unregister(side.sock)
            while self._due and self._due[0][0] <= time.monotonic():
                self._forward(*heapq.heappop(self._due)[2:])

    def _accept(self):
        client = Side(self._listening.accept()[0])
        try:
            server = Side(socket.create_connection(("127.0.0.1", self.target_port)), client)
        except ConnectionRefusedError:
            client.sock.close()
            return
        client.other = server
        for side in (client, server):
            side.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._sides.add(side)
            self._selector.register(side.sock, selectors.EVENT_READ, side)

    @staticmethod
    def _receive(side):
        try:
            return side.sock.recv(CHUNK_BYTES)
        except ConnectionResetError:
            return b""

    def _forward(self, side, data):
        """Forward a chunk. The end of one side closes both: half-closed connections do not occur here."""
        if not side.is_open or not side.other.is_open:
            return
        try:
            side.other.sock.sendall(data)
        except OSError:
            data = b""
        if not data:
            self._end(side)

    def _reset(self, side):
        self.resets += 1
        for one in (side, side.other):
            if one.is_open:
                one.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, LINGER_RESET)
        self._end(side)

    def _end(self, side):
        for one in (side, side.other):
            if one.is_open:
                one.is_open = False
                self._sides.discard(one)
                if one.sock in self._selector.get_map():
                    self._selector.unregister(one.sock)
                one.sock.close()
