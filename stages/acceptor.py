"""The acceptor of a listener: it accepts connections, checks the quotas, and deals connections to processors.

Counterpart in Kafka: `Acceptor`; one task for each listener.
"""

from __future__ import annotations

import errno
import heapq
import itertools
import logging
import math
import os
import resource
import socket
import struct
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import trio

from stages.connection_quotas import ConnectionQuotas, Refuse, Throttle
from stages.listener import SYSTEM_DEFAULT, Accepted, AcceptSource, Listener
from stages.processor import NewConnection, Processor
from stages.transport_layer import PlaintextTransportLayer, TransportLayer

__all__ = ["Acceptor", "AcceptorStatistics", "SocketSource", "plain_ip"]

logger = logging.getLogger(__name__)

ACCEPTS_MAX = 50
"""Connections accepted in one pass of the event loop, so that a flood of clients cannot stop other tasks."""
EXHAUSTED_PAUSE_SECONDS = 0.1
THROTTLED_MAX = 500
"""Maximum of throttled connections kept open; beyond it the one whose throttle ends first is closed early."""
WARNING_SECONDS = 60.0
"""Minimum time between two warnings about missing file descriptors."""
DESCRIPTORS_KEPT_MAX = 128
DESCRIPTORS_KEPT_SHARE = 4
"""File descriptors that connections never use: a quarter of the process's limit, at most DESCRIPTORS_KEPT_MAX.

They remain for files, lazily imported modules and other ports. An import without a descriptor fails, and so does the
request that needs it. Importing all modules at startup would cost every server about 20 MB and half a second, and would
help neither files nor ports."""
_MAPPED = "::ffff:"
_SO_MEMINFO = 55
_MEMINFO = struct.Struct("9I")  # the last number counts drops: of a listening socket, attempts to connect
_EXHAUSTED = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOBUFS})


def plain_ip(address: str) -> str:
    """Return the same address for a client over IPv4 and over an IPv6 socket, which reports `::ffff:192.0.2.1`."""
    return address.removeprefix(_MAPPED) if "." in address else address


class AcceptedSocket:
    __slots__ = ("_sock", "ip")

    def __init__(self, sock: socket.socket, ip: str) -> None:
        self.ip = ip
        self._sock = sock

    def configure(self, send_buffer_bytes: int) -> tuple[TransportLayer, str]:
        sock = self._sock
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, True)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, True)
        if send_buffer_bytes != SYSTEM_DEFAULT:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, send_buffer_bytes)
        local, remote = sock.getsockname(), sock.getpeername()
        return PlaintextTransportLayer(sock), f"{local[0]}:{local[1]}-{remote[0]}:{remote[1]}"

    def close(self) -> None:
        self._sock.close()


def _is_kept(descriptor: int) -> bool:
    """Return whether a descriptor is reserved. This relies on the system always assigning the lowest free one."""
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]  # read each time, because it may change at run time
    if limit == resource.RLIM_INFINITY:
        return False
    return descriptor >= limit - min(DESCRIPTORS_KEPT_MAX, limit // DESCRIPTORS_KEPT_SHARE)


class SocketSource:
    __slots__ = ("_is_scarce", "_overflows", "_sock")

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._overflows = 0
        self._is_scarce = False  # the last connection got a reserved descriptor

    @property
    def overflows(self) -> int:
        if sys.platform == "linux" and self._sock.fileno() >= 0:
            self._overflows = _MEMINFO.unpack(self._sock.getsockopt(socket.SOL_SOCKET, _SO_MEMINFO, _MEMINFO.size))[-1]
        return self._overflows

    async def wait_readable(self) -> None:
        await trio.lowlevel.wait_readable(self._sock)

    def accept(self) -> Accepted:
        """Accept a connection.

        Raises:
            BlockingIOError: if no connection waits.
            OSError: if the connection could not be accepted. Without free descriptors it stays in the system's backlog.
        """
        if self._is_scarce:
            self._check_descriptors()
        sock, address = self._sock.accept()
        self._is_scarce = _is_kept(sock.fileno())
        return AcceptedSocket(sock, plain_ip(str(address[0])))

    def _check_descriptors(self) -> None:
        probe = os.dup(self._sock.fileno())
        os.close(probe)
        if _is_kept(probe):
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    def close(self) -> None:
        trio.lowlevel.notify_closing(self._sock)
        self._sock.close()


class AcceptorStatistics(NamedTuple):
    """Statistics of one acceptor.

    Attributes:
        accepted: connections handed to a processor.
        rejected: connections closed because their address has too many.
        blocked_seconds: total wait for a slot, a rate, or a processor.
        throttled: throttled connections that are open now.
        throttled_total: throttled connections so far.
        failed: connections that broke before they could be served.
        exhausted: accepts that failed for lack of file descriptors or memory.
        overflows: attempts to connect that the system dropped because the backlog was full.
    """

    listener: str
    accepted: int
    rejected: int
    blocked_seconds: float
    throttled: int = 0
    throttled_total: int = 0
    failed: int = 0
    exhausted: int = 0
    overflows: int = 0


class Acceptor:
    """The acceptor of one listener, which deals connections round robin to its processors.

    No single connection ends the accept loop. If all processors are busy, the acceptor waits for the last one it tried,
    so that a slow server slows down new clients. A lack of file descriptors pauses accepting only.

    Args:
        source: source of connections; closed at the end.
        processors: receivers of connections; the list may change at any time but is never empty.
        quotas: the connection quotas, which know the listener.
        slot_freed: woken when a connection closes or a limit changes.
        next_index: returns the number of the next connection.
    """

    def __init__(
        self,
        listener: Listener,
        source: AcceptSource,
        processors: Sequence[Processor],
        quotas: ConnectionQuotas,
        slot_freed: trio.lowlevel.ParkingLot,
        next_index: Callable[[], int],
    ) -> None:
        self.listener = listener
        self._source = source
        self._slot_freed = slot_freed
        self._processors = processors
        self._quotas = quotas
        self._next_index = next_index
        self._next_processor = -1
        self._accepted = self._rejected = self._failed = self._exhausted = self._throttled_total = 0
        self._blocked_seconds = 0.0
        self._blocked_since: float | None = None
        self._next_warning_at = -math.inf
        self._throttled: list[tuple[float, int, Accepted]] = []  # a heap ordered by closing time
        self._throttled_number = itertools.count()
        self._throttle_began = trio.lowlevel.ParkingLot()

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Accept until cancelled, then close the source and all throttled connections."""
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._close_throttled)
                task_status.started()
                while True:
                    await self._source.wait_readable()
                    exhausted_before = self._exhausted
                    for accepted in self._burst():
                        await self._admit(accepted)
                    if self._exhausted > exhausted_before:
                        await trio.sleep(EXHAUSTED_PAUSE_SECONDS)
        finally:
            self._source.close()
            while self._throttled:
                self._close_first_throttled()

    def _burst(self) -> Iterator[Accepted]:
        for _ in range(ACCEPTS_MAX):
            try:
                accepted = self._source.accept()
            except BlockingIOError:
                return
            except OSError as error:
                if error.errno in _EXHAUSTED:
                    self._warn_exhausted(error)
                    self._exhausted += 1
                return  # a client has disconnected from the backlog, or accepting must pause
            yield accepted

    def _warn_exhausted(self, error: OSError) -> None:
        now = trio.current_time()
        if now >= self._next_warning_at:
            self._next_warning_at = now + WARNING_SECONDS
            logger.warning("listener %s pauses accepting connections: %s", self.listener.name, error.strerror)

    async def _admit(self, accepted: Accepted) -> None:
        name, ip, arrived = self.listener.name, accepted.ip, trio.current_time()
        try:
            await self._wait_for_slot(arrived)
        # A cancelled accept must not leak the socket.
        except BaseException:
            accepted.close()
            raise
        verdict = self._quotas.enter(name, ip, trio.current_time(), arrived)
        if isinstance(verdict, Throttle):
            self._keep_throttled(accepted, verdict.seconds)
            return
        if isinstance(verdict, Refuse):
            self._rejected += 1
            accepted.close()
            self._quotas.release(name, ip)
            return
        new = self._new_connection(accepted)
        if new is None:
            self._failed += 1
            accepted.close()
            self._quotas.release(name, ip)
            return
        try:
            await self._deal(new)
        except BaseException:
            new.transport.close()
            self._quotas.release(name, ip)
            raise
        self._accepted += 1

    async def _wait_for_slot(self, arrived: float) -> None:
        quotas, name = self._quotas, self.listener.name
        until = arrived + quotas.arrive(name, arrived)
        if until <= arrived and quotas.has_slot(name):
            return
        self._blocked_since = arrived
        try:
            while (now := trio.current_time()) < until or not quotas.has_slot(name):
                with trio.move_on_at(until) if now < until else trio.CancelScope():
                    await self._slot_freed.park()
        finally:
            self._unblock()

    def _unblock(self) -> None:
        if self._blocked_since is not None:
            self._blocked_seconds += trio.current_time() - self._blocked_since
            self._blocked_since = None

    def _new_connection(self, accepted: Accepted) -> NewConnection | None:
        listener = self.listener
        try:
            transport, address = accepted.configure(listener.send_buffer_bytes)
            if listener.tls is not None:
                from stages.tls_transport_layer import TlsTransportLayer  # noqa: PLC0415 - needed for TLS only

                transport = TlsTransportLayer(transport, listener.tls())
        except OSError:
            return None  # the client has disconnected
        except Exception:
            logger.exception("listener %s could not set up a connection and closed it", listener.name)
            return None
        return NewConnection(
            transport=transport, address=address, peer=accepted.ip, listener=listener.name, index=self._next_index()
        )

    async def _deal(self, new: NewConnection) -> None:
        """Offer the connection to each processor in turn, then wait for the last one; start again if that has ended."""
        while True:
            for _ in range(len(self._processors)):
                self._next_processor = (self._next_processor + 1) % len(self._processors)
                if self._processors[self._next_processor].offer(new):
                    return
            self._blocked_since = trio.current_time()
            try:
                if await self._processors[self._next_processor].put(new):
                    return
            finally:
                self._unblock()

    # Throttled addresses

    def _keep_throttled(self, accepted: Accepted, seconds: float) -> None:
        # An open connection makes the client wait; after a close it would try again at once.
        self._throttled_total += 1
        # Each one holds a file descriptor, so a flood of throttled clients must not keep them all open.
        if len(self._throttled) >= THROTTLED_MAX:
            self._close_first_throttled()
        heapq.heappush(self._throttled, (trio.current_time() + seconds, next(self._throttled_number), accepted))
        self._throttle_began.unpark()

    def _close_first_throttled(self) -> None:
        heapq.heappop(self._throttled)[2].close()

    async def _close_throttled(self) -> None:
        while True:
            with trio.move_on_at(self._throttled[0][0]) if self._throttled else trio.CancelScope():
                await self._throttle_began.park()
            now = trio.current_time()
            while self._throttled and self._throttled[0][0] <= now:
                self._close_first_throttled()

    def statistics(self) -> AcceptorStatistics:
        blocked = 0.0 if self._blocked_since is None else trio.current_time() - self._blocked_since
        return AcceptorStatistics(
            listener=self.listener.name,
            accepted=self._accepted,
            rejected=self._rejected,
            blocked_seconds=self._blocked_seconds + blocked,
            throttled=len(self._throttled),
            throttled_total=self._throttled_total,
            failed=self._failed,
            exhausted=self._exhausted,
            overflows=self._source.overflows,
        )
