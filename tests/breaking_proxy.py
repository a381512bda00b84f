"""A network between a client and a broker that is slow and breaks: a TCP proxy with latency and resets.

Rules: one thread for all connections, so that chunks leave in the order in which they are due; every so many chunks a
connection is reset, whichever it is. A reset ends both sides at once, with whatever was on its way.
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
    """One socket; what is received from it goes to the other side."""

    sock: socket.socket
    other: "Side | None" = None
    is_open: bool = True


@attrs.define
class Proxy:
    """Forwards connections to a port; used as a context manager.

    Attributes:
        latency_seconds: from the receipt of a chunk until it is forwarded.
        chunks_per_reset: one chunk of so many resets its connection instead of being forwarded; None: none does.
        target_port: where the broker listens.
        resets: connections that were reset so far.
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
        """Hand a chunk on; an end ends both sides, because nobody here uses half a connection."""
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
