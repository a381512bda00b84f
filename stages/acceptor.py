"""One listener: it accepts, asks the quotas, and deals connections round robin to its processors.

Rules of this room: the accept loop never ends because of one connection; the last processor that is tried makes it
wait, which is how a server that is behind slows newcomers; running out of file descriptors pauses accepting only, and
connections leave some of them for files. A connection whose address comes too fast is kept open and unserved until
its throttle is over, so that the client waits in place of trying again; at most THROTTLED_MAX are kept.
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
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import trio

from stages.connection_quotas import ConnectionQuotas, Refuse, Throttle
from stages.listener import BACKLOG, SYSTEM_DEFAULT, Accepted, AcceptSource, Listener
from stages.processor import NewConnection, Processor
from stages.transport_layer import PlaintextTransportLayer, TransportLayer

__all__ = ["Acceptor", "AcceptorStatistics", "SocketSource", "plain_ip"]

logger = logging.getLogger(__name__)

EXHAUSTED_PAUSE_SECONDS = 0.1
THROTTLED_MAX = 500
"""Connections that are kept open though their address is throttled; beyond them the one due first is closed early."""
TELL_AGAIN_SECONDS = 60.0
"""How often it is logged, at most, that newcomers wait for a file descriptor."""
DESCRIPTORS_KEPT_MAX = 128
DESCRIPTORS_KEPT_SHARE = 4
"""Connections leave the last descriptors of the process, a quarter of its limit and at most so many, to everything
else: files that are read and written, modules that are imported when they are needed first, other ports. An import
that finds none fails, and with it the request that needed it; to import all that may ever be needed at the start
instead would cost every server some 20 MB and half a second, and help neither files nor ports."""
_MAPPED = "::ffff:"
_EXHAUSTED = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOBUFS})


def plain_ip(address: str) -> str:
    """One address for one client: an IPv6 socket tells an IPv4 client as `::ffff:192.0.2.1`."""
    return address.removeprefix(_MAPPED) if "." in address else address


class AcceptedSocket:
    """See `stages.listener.Accepted`."""

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
    """Whether a descriptor is one of those that connections leave; the system always gives the lowest that is free."""
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]  # asked each time: it may be changed from outside
    if limit == resource.RLIM_INFINITY:
        return False
    return descriptor >= limit - min(DESCRIPTORS_KEPT_MAX, limit // DESCRIPTORS_KEPT_SHARE)


class SocketSource:
    """A listening socket, as `stages.listener.AcceptSource`."""

    __slots__ = ("_is_scarce", "_sock")

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._is_scarce = False  # the last connection got a descriptor that should have been kept

    async def wait_readable(self) -> None:
        await trio.lowlevel.wait_readable(self._sock)

    def accept(self) -> Accepted:
        """See AcceptSource; without descriptors to spare the client waits in the backlog of the system."""
        if self._is_scarce:
            self._check_descriptors()
        sock, address = self._sock.accept()
        self._is_scarce = _is_kept(sock.fileno())
        return AcceptedSocket(sock, plain_ip(str(address[0])))

    def _check_descriptors(self) -> None:
        """Raise OSError while the next descriptor is one of those that are kept."""
        probe = os.dup(self._sock.fileno())
        os.close(probe)
        if _is_kept(probe):
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    def close(self) -> None:
        trio.lowlevel.notify_closing(self._sock)
        self._sock.close()


class AcceptorStatistics(NamedTuple):
    """One acceptor as it stands.

    Attributes:
        accepted: connections that went to a processor.
        rejected: connections that were closed because their address has too many.
        blocked_seconds: time it waited for a slot, a rate, or a processor.
        throttled: connections that are kept open, unserved, because their address comes too fast.
        throttled_total: all that ever were.
        failed: connections that broke before they could be served.
        exhausted: times that there was no file descriptor, or no memory, for another one.
    """

    listener: str
    accepted: int
    rejected: int
    blocked_seconds: float
    throttled: int = 0
    throttled_total: int = 0
    failed: int = 0
    exhausted: int = 0


class Acceptor:
    """See the rules of the room.

    Args:
        listener: what it serves.
        source: where connections come from; closed at the end.
        processors: to deal to; may change at any time, and never becomes empty.
        quotas: are asked; they know the listener.
        slot_freed: wakes who waits for a slot.
        next_index: numbers connections.
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
        self._told_again_at = -math.inf
        self._throttled: list[tuple[float, int, Accepted]] = []  # a heap by the time at which each is closed
        self._throttled_number = itertools.count()
        self._throttle_began = trio.lowlevel.ParkingLot()

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Accept until cancelled; closes the source and what is throttled."""
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
        """What the backlog holds, taken at once."""
        for _ in range(BACKLOG):
            try:
                accepted = self._source.accept()
            except BlockingIOError:
                return
            except OSError as error:
                if error.errno in _EXHAUSTED:
                    self._tell_exhausted(error)
                    self._exhausted += 1
                return  # the client gave up while it waited, or the pause is over
            yield accepted

    def _tell_exhausted(self, error: OSError) -> None:
        """Say now and then that newcomers wait."""
        now = trio.current_time()
        if now >= self._told_again_at:
            self._told_again_at = now + TELL_AGAIN_SECONDS
            logger.warning("new connections of %s wait: %s", self.listener.name, error.strerror)

    async def _admit(self, accepted: Accepted) -> None:
        name, ip, arrived = self.listener.name, accepted.ip, trio.current_time()
        try:
            await self._wait_for_slot(arrived)
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
        """Ready to be served; None when it cannot be."""
        listener = self.listener
        try:
            transport, address = accepted.configure(listener.send_buffer_bytes)
            if listener.tls is not None:
                from stages.tls_transport_layer import TlsTransportLayer  # noqa: PLC0415 - for TLS only

                transport = TlsTransportLayer(transport, listener.tls())
        except OSError:
            return None  # the client is gone
        except Exception:
            logger.exception("a connection by %s cannot be served", listener.name)  # the others can
            return None
        return NewConnection(
            transport=transport, address=address, peer=accepted.ip, listener=listener.name, index=self._next_index()
        )

    async def _deal(self, new: NewConnection) -> None:
        """Offer to each processor in turn; wait at the last, and look again if that one is taken away meanwhile."""
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
        self._throttled_total += 1
        if len(self._throttled) >= THROTTLED_MAX:
            self._close_first_throttled()
        heapq.heappush(self._throttled, (trio.current_time() + seconds, next(self._throttled_number), accepted))
        self._throttle_began.unpark()

    def _close_first_throttled(self) -> None:
        heapq.heappop(self._throttled)[2].close()

    async def _close_throttled(self) -> None:
        """Close what was throttled long enough."""
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
        )
