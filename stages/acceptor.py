"""One listener: it accepts, asks the quotas, and deals connections round robin to its processors.

Rules of this room: the accept loop never ends because of one connection; the last processor that is tried makes it
wait, which is how a server that is behind slows newcomers; running out of file descriptors pauses accepting only.
"""

from __future__ import annotations

import errno
import socket
from collections.abc import Callable
from typing import TYPE_CHECKING

import attrs
import trio

from stages.connection_quotas import Admit, ConnectionQuotas, Reject
from stages.processor import NewConnection, Processor
from stages.transport_layer import PlaintextTransportLayer, TlsTransportLayer, TransportLayer

if TYPE_CHECKING:
    import ssl

__all__ = ["Acceptor", "AcceptorStatistics", "Listener", "open_listener"]

BACKLOG = 50
"""Kafka's `socket.listen.backlog.size`."""
BUFFER_BYTES = 100 * 1024
"""Kafka's `socket.send.buffer.bytes` and `socket.receive.buffer.bytes`."""
SYSTEM_DEFAULT = -1
"""The size of a buffer that the system chooses."""
EXHAUSTED_PAUSE_SECONDS = 0.1
_EXHAUSTED = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOBUFS})


@attrs.frozen
class Listener:
    """A socket that listens, and how its connections are served.

    Attributes:
        name: for quotas and statistics, as `PLAINTEXT`.
        sock: bound and listening; owned by the acceptor.
        tls: the server's context, or None for plaintext.
        send_buffer_bytes: of each connection; -1 leaves it to the system.
    """

    name: str
    sock: socket.socket
    tls: ssl.SSLContext | None = None
    send_buffer_bytes: int = BUFFER_BYTES

    @property
    def port(self) -> int:
        """The port it is bound to."""
        port: int = self.sock.getsockname()[1]
        return port


@attrs.frozen
class AcceptorStatistics:
    """One acceptor as it stands.

    Attributes:
        listener: its name.
        accepted: connections that went to a processor.
        rejected: connections that a quota closed.
        blocked_seconds: time it waited for a slot or for a processor.
    """

    listener: str
    accepted: int
    rejected: int
    blocked_seconds: float


def open_listener(
    name: str,
    host: str,
    port: int,
    *,
    backlog: int = BACKLOG,
    tls: ssl.SSLContext | None = None,
    send_buffer_bytes: int = BUFFER_BYTES,
    receive_buffer_bytes: int = BUFFER_BYTES,
) -> Listener:
    """Bind and listen.

    Args:
        name: the listener's name.
        host: an address or a name; empty for all interfaces.
        port: 0 lets the system choose.
        backlog: connections that may wait to be accepted.
        tls: a server-side context, or None for plaintext.
        send_buffer_bytes: of each connection; -1 leaves it to the system.
        receive_buffer_bytes: the same for what is received.

    Raises:
        OSError: the address cannot be bound.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if receive_buffer_bytes != SYSTEM_DEFAULT:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer_bytes)
        sock.bind((host, port))
        sock.listen(backlog)
        sock.setblocking(False)
    except OSError:
        sock.close()
        raise
    return Listener(name, sock, tls, send_buffer_bytes)


class Acceptor:
    """See the rules of the room."""

    def __init__(
        self,
        listener: Listener,
        processors: list[Processor],
        quotas: ConnectionQuotas,
        slot_freed: trio.lowlevel.ParkingLot,
        next_index: Callable[[], int],
    ) -> None:
        self.listener = listener
        self._slot_freed = slot_freed
        self._processors = processors
        self._quotas = quotas
        self._next_index = next_index
        self._next_processor = 0
        self._accepted = self._rejected = 0
        self._blocked_seconds = 0.0

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Accept until cancelled; closes the listening socket."""
        sock = self.listener.sock
        task_status.started()
        try:
            while True:
                await trio.lowlevel.wait_readable(sock)
                for _ in range(BACKLOG):  # a burst that the backlog holds is taken at once
                    try:
                        accepted, address = sock.accept()
                    except BlockingIOError:
                        break
                    except OSError as error:
                        if error.errno in _EXHAUSTED:
                            await trio.sleep(EXHAUSTED_PAUSE_SECONDS)
                        break  # the client gave up while it waited, or the pause is over
                    await self._admit(accepted, str(address[0]))
        finally:
            trio.lowlevel.notify_closing(sock)
            sock.close()

    async def _admit(self, sock: socket.socket, ip: str) -> None:
        name = self.listener.name
        began = trio.current_time()
        while True:
            verdict = self._quotas.ask(name, ip, trio.current_time())
            if isinstance(verdict, Admit):
                break
            if isinstance(verdict, Reject):
                self._rejected += 1
                sock.close()
                return
            try:
                with trio.move_on_after(verdict.seconds):
                    await self._slot_freed.park()
            except BaseException:
                sock.close()
                raise
        try:
            new = self._new_connection(sock, ip)
        except OSError:
            self._release(ip)
            sock.close()
            return
        try:
            await self._deal(new)
        except BaseException:
            new.transport.close()
            self._release(ip)
            raise
        self._blocked_seconds += trio.current_time() - began
        self._accepted += 1

    def _new_connection(self, sock: socket.socket, ip: str) -> NewConnection:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        if self.listener.send_buffer_bytes != SYSTEM_DEFAULT:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, self.listener.send_buffer_bytes)
        local, remote = sock.getsockname(), sock.getpeername()
        transport: TransportLayer = PlaintextTransportLayer(sock)
        if self.listener.tls is not None:
            transport = TlsTransportLayer(transport, self.listener.tls)
        return NewConnection(
            transport=transport,
            address=f"{local[0]}:{local[1]}-{remote[0]}:{remote[1]}",
            peer=ip,
            listener=self.listener.name,
            index=self._next_index(),
            on_closed=lambda: self._release(ip),
        )

    def _release(self, ip: str) -> None:
        self._quotas.release(self.listener.name, ip)
        self._slot_freed.unpark_all()

    async def _deal(self, new: NewConnection) -> None:
        """Offer to each processor in turn; wait at the last."""
        processors = self._processors
        for _ in range(len(processors)):
            self._next_processor = (self._next_processor + 1) % len(processors)
            try:
                processors[self._next_processor].offer(new)
            except trio.WouldBlock:
                continue
            return
        await processors[self._next_processor].put(new)

    def statistics(self) -> AcceptorStatistics:
        """See AcceptorStatistics."""
        return AcceptorStatistics(
            listener=self.listener.name,
            accepted=self._accepted,
            rejected=self._rejected,
            blocked_seconds=self._blocked_seconds,
        )
