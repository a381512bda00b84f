"""A listener without a socket, so that a mock clock sees every wait of its acceptor."""

from collections import deque

import trio

from stages.listener import Accepted
from stages.testing.memory_transport import MemoryClient, MemoryTransportLayer, memory_connection
from stages.transport_layer import TransportLayer

__all__ = ["MemoryListener"]


class _Accepted:
    def __init__(self, transport: MemoryTransportLayer, ip: str, number: int, fault: OSError | None) -> None:
        self.ip = ip
        self._transport = transport
        self._number = number
        self._fault = fault

    def configure(self, send_buffer_bytes: int) -> tuple[TransportLayer, str]:  # noqa: ARG002 - has no buffers
        if self._fault is not None:
            raise self._fault
        return self._transport, f"memory:0-{self.ip}:{self._number}"

    def close(self) -> None:
        self._transport.close()


class MemoryListener:
    """The `source` of a `stages.listener.Listener`, to which clients in memory connect.

    Attributes:
        accept_faults: errors that the next accepts raise.
        configure_faults: errors that `configure` raises for the next connections.
        is_closed: whether new connections are refused.
    """

    overflows = 0

    def __init__(self) -> None:
        self.accept_faults: deque[OSError] = deque()
        self.configure_faults: deque[OSError] = deque()
        self.is_closed = False
        self._waiting: deque[Accepted] = deque()
        self._connected = trio.lowlevel.ParkingLot()
        self._number = 0

    @property
    def backlog(self) -> int:
        return len(self._waiting)

    def connect(self, ip: str = "192.0.2.1") -> MemoryClient:
        """Return a new client, which may still wait to be served; never waits.

        Raises:
            ConnectionRefusedError: if the listener is closed.
        """
        if self.is_closed:
            raise ConnectionRefusedError
        transport, client = memory_connection()
        fault = self.configure_faults.popleft() if self.configure_faults else None
        self._waiting.append(_Accepted(transport, ip, self._number, fault))
        self._number += 1
        self._connected.unpark_all()
        return client

    async def wait_readable(self) -> None:
        await trio.lowlevel.checkpoint()
        while not self._waiting:
            await self._connected.park()

    def accept(self) -> Accepted:
        if self.accept_faults:
            raise self.accept_faults.popleft()
        if not self._waiting:
            raise BlockingIOError
        return self._waiting.popleft()

    def close(self) -> None:
        """Refuse new connections and close those that wait to be accepted."""
        self.is_closed = True
        while self._waiting:
            self._waiting.popleft().close()
