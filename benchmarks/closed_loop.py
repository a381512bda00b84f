"""A closed-loop client over many connections, used by other benchmarks: epoll, no threads, plaintext or TLS.

All requests of a connection are the same bytes, so all responses have the same size, and bytes are enough to count
them.
"""

import contextlib
import select
import socket
import ssl
import time
from collections import deque
from collections.abc import Callable, Sequence

__all__ = ["RECEIVE_BYTES", "Client", "drive"]

RECEIVE_BYTES = 1 << 18
DRAIN_SECONDS = 20.0


class Client:
    """A connection with a window of equal requests in flight."""

    def __init__(self, port: int, frame: bytes, *, is_tls: bool = False) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=30)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if is_tls:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
            self.socket = context.wrap_socket(self.socket)
        self.frame = frame
        self.is_tls = is_tls
        self.response_bytes = 0
        self.received_bytes = 0
        self.sent_at: deque[float] = deque()
        self.latencies: list[float] = []
        self.first_seconds = self._ask_once()
        self.socket.setblocking(False)

    def _ask_once(self) -> float:
        # The first request includes one-time work, and its response sets the size. The second one is timed.
        for _ in range(2):
            began = time.perf_counter()
            self.socket.sendall(self.frame)
            data = self.socket.recv(RECEIVE_BYTES)
            while len(data) < 4 or len(data) < 4 + int.from_bytes(data[:4], "big"):
                data += self.socket.recv(RECEIVE_BYTES)
            self.response_bytes = len(data)
        return time.perf_counter() - began

    def send(self, count: int) -> None:
        """Send requests without blocking. The kernel's buffer holds a window."""
        if self.socket.send(self.frame * count) != count * len(self.frame):
            raise RuntimeError("the broker does not read requests: the socket buffer is full")
        self.sent_at.extend([time.perf_counter()] * count)

    def receive(self) -> int:
        """Read available bytes; return the number of completed responses."""
        size = 0
        with contextlib.suppress(BlockingIOError, ssl.SSLWantReadError):
            while data := self.socket.recv(RECEIVE_BYTES):
                size += len(data)
                if not self.is_tls:
                    break
            else:
                raise RuntimeError("the broker closed the connection")
        count, self.received_bytes = divmod(self.received_bytes + size, self.response_bytes)
        now = time.perf_counter()
        for _ in range(count):
            self.latencies.append(now - self.sent_at.popleft())
        return count


def drive(clients: Sequence[Client], seconds: float, in_flight: Callable[[Client], int]) -> None:
    """Keep windows full for `seconds`, then wait for the missing answers."""
    poll = select.epoll()
    by_descriptor = {client.socket.fileno(): client for client in clients}
    for descriptor in by_descriptor:
        poll.register(descriptor, select.EPOLLIN)
    until = time.perf_counter() + seconds
    for client in clients:
        client.latencies.clear()
        client.send(in_flight(client))
    missing = len(clients)
    while missing:
        ready = poll.poll(DRAIN_SECONDS)
        if not ready:
            raise RuntimeError(f"{missing} connections were not answered")
        is_over = time.perf_counter() >= until
        for descriptor, _ in ready:
            client = by_descriptor[descriptor]
            count = client.receive()
            if count and not is_over:
                client.send(count)
            elif count and not client.sent_at:
                missing -= 1
    poll.close()
