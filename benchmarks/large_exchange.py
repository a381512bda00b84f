"""Large requests or responses in a closed loop, for the other scripts here: threads with blocking sockets.

Rules of this file: every request of a connection is the same bytes; an answer is taken whole and not looked at, but for
its size. A thread waits in the kernel, without Python's lock, for nearly all of its time.
"""

import socket
import threading
import time
from collections.abc import Callable, Sequence

import attrs

__all__ = ["MEGABYTE", "Exchange", "exchange"]

MEGABYTE = 1_000_000


@attrs.define
class Exchange:
    """One connection that keeps a window of the same requests in flight."""

    port: int
    frame: bytes
    received: bytearray = attrs.Factory(lambda: bytearray(4 * MEGABYTE))
    count: int = 0
    response_bytes: int = 0

    def run(self, in_flight: int, until: Callable[[], bool]) -> None:
        """Ask until it is over, and take every answer."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=30) as connection:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connection.settimeout(None)  # else the kernel would not wait for all
            for _ in range(in_flight):
                connection.sendall(self.frame)
            missing = in_flight
            while missing:
                self._receive(connection)
                if until():
                    missing -= 1
                else:
                    connection.sendall(self.frame)
                    self.count += 1

    def _receive(self, connection: socket.socket) -> None:
        view = memoryview(self.received)
        connection.recv_into(view, 4, socket.MSG_WAITALL)
        size = int.from_bytes(view[:4], "big")
        if connection.recv_into(view, size, socket.MSG_WAITALL) != size:
            raise RuntimeError("the broker closed the connection")
        self.response_bytes = size


def exchange(exchanges: Sequence[Exchange], in_flight: int, seconds: float) -> float:
    """Requests per second of all connections together."""
    until = time.perf_counter() + seconds
    threads = [
        threading.Thread(target=one.run, args=(in_flight, lambda: time.perf_counter() >= until)) for one in exchanges
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(one.count for one in exchanges) / seconds
