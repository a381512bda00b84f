"""A closed-loop client for large requests or responses, used by other benchmarks: threads with blocking sockets.

All requests of a connection are the same bytes, and only the size of responses is read. A thread waits in the kernel,
without the GIL, for nearly all of its time.
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
    """A connection that keeps a window of equal requests in flight."""

    port: int
    frame: bytes
    received: bytearray = attrs.Factory(lambda: bytearray(4 * MEGABYTE))
    count: int = 0
    response_bytes: int = 0

    def run(self, in_flight: int, until: Callable[[], bool]) -> None:
        """Send requests until `until` returns True, and receive all responses."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=30) as connection:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connection.settimeout(None)  # MSG_WAITALL needs a blocking socket
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
    until = time.perf_counter() + seconds
    threads = [
        threading.Thread(target=one.run, args=(in_flight, lambda: time.perf_counter() >= until)) for one in exchanges
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(one.count for one in exchanges) / seconds
