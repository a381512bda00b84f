"""A nursery that owns the tasks of its connections.

Rules of this room: new connections come through a queue of NEW_CONNECTIONS_MAX, which makes the acceptor wait when the
processor is behind; a task for writing exists only while a client does not take what is sent.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from contextlib import suppress
from typing import Final, NamedTuple

import attrs
import trio

from stages.connection import Connection
from stages.connection_limits import ConnectionLimits
from stages.listener import HandshakeFailed, OpenSession
from stages.network_counters import NetworkCounters
from stages.partial_frames import PartialFrameBudget
from stages.request import Parked, Pending, Request, Result, Unfinished
from stages.request_channel import RequestChannel, RequestQueue
from stages.request_handler import Application, RequestHandlerPool
from stages.response_order import ResponseOrder
from stages.response_sender import ResponseSender
from stages.timeline import Timeline
from stages.transport_layer import TransportLayer
from stages.unsent_responses import ResponseBudget

logger = logging.getLogger(__name__)

__all__ = ["NewConnection", "Processor", "ProcessorStatistics", "Shared"]

NEW_CONNECTIONS_MAX: Final = 20
"""Kafka's fixed size of a processor's queue of new connections."""
OVERDUE_CHECK_SECONDS: Final = 1.0
OVERDUE_CHECKS_MAX: Final = 500
"""Connections that are looked at before others get their turn."""


@attrs.frozen
class NewConnection:
    """An accepted connection on its way to a processor."""

    transport: TransportLayer
    address: str
    peer: str
    listener: str
    index: int
    is_counted: bool = True  # by the connection quotas
    open_session: OpenSession | None = None  # in place of the listener's


@attrs.define
class Shared:
    """What all processors of a listener share.

    Attributes:
        channel: the request queues.
        handlers: carries out results that do not end a slot.
        application: is told of closed connections.
        limits: bounds of each connection; may be replaced while they are served.
        release: told, with listener and address, of each closed connection that the quotas counted.
        changed: woken when a connection was closed.
        timeline: observes, if anybody does.
        response_order: makes the response order of a connection.
        open_session: see `stages.listener.OpenSession`.
        handshake_failed: see `stages.listener.HandshakeFailed`.
        sender: flushes connections that were marked.
        response_budget: bounds the unsent responses of all connections.
        partial_frames: bounds the large frames of all connections that are still arriving.
    """

    channel: RequestChannel
    handlers: RequestHandlerPool
    application: Application
    limits: ConnectionLimits
    release: Callable[[str, str], None]
    changed: trio.lowlevel.ParkingLot
    timeline: Timeline | None
    response_order: Callable[[], ResponseOrder[Request]]
    open_session: OpenSession | None
    handshake_failed: HandshakeFailed | None
    sender: ResponseSender
    response_budget: ResponseBudget
    partial_frames: PartialFrameBudget


class ProcessorStatistics(NamedTuple):
    """One processor as it stands.

    Attributes:
        id: its number in the server.
        connections: open ones.
        connections_total: all it ever had.
        blocked: connections whose client does not take what is sent.
        expired: connections closed for idleness or by the watchdog.
        new_waiting: connections that were accepted and not begun.
        listener: name of the listener that it serves.
        counters: its sums.
        unsent_responses: responses of timed requests that were released and did not leave yet.
    """

    id: int
    connections: int
    connections_total: int
    blocked: int
    expired: int
    new_waiting: int
    listener: str
    counters: NetworkCounters
    unsent_responses: int


class Processor:
    """See the rules of the room; it is the `ConnectionOwner` of its connections."""

    def __init__(self, processor_id: int, shared: Shared, listener: str = "") -> None:
        self.id = processor_id
        self.listener = listener
        self.channel = shared.channel
        self.limits = shared.limits
        self.timeline = shared.timeline
        self.open_session, self.handshake_failed = shared.open_session, shared.handshake_failed
        self.counters = NetworkCounters()
        self.sender = shared.sender
        self.response_budget = shared.response_budget
        self.partial_frames = shared.partial_frames
        self.connections: set[Connection] = set()
        self._shared = shared
        self._send_new, self._receive_new = trio.open_memory_channel[NewConnection](NEW_CONNECTIONS_MAX)
        self._nursery: trio.Nursery | None = None
        self._is_draining = False
        self._blocked = 0
        self._uncounted: set[Connection] = set()
        self._limits_changed = trio.lowlevel.ParkingLot()
        self._ended = trio.Event()

    # What a connection asks of its owner

    def blocked(self, connection: Connection) -> None:
        if self._nursery is not None:
            self.response_budget.begin_blocked(connection)
            self._nursery.start_soon(self._wait_writable, connection)

    def settle(self, request: Request, result: Pending | Parked | Unfinished) -> None:
        self._shared.handlers.settle(request, result)

    def call_back(self, queue: RequestQueue, request: Request, callback: Callable[[], Result]) -> None:
        self._shared.handlers.call_back(queue, request, callback)

    def new_response_order(self) -> ResponseOrder[Request]:
        return self._shared.response_order()

    def throttled(self, connection: Connection, until: float) -> None:
        if self._nursery is not None:
            self._nursery.start_soon(self._end_throttle, connection, until)

    def closed(self, connection: Connection) -> None:
        self.connections.discard(connection)
        self.counters.closed += 1
        if connection in self._uncounted:
            self._uncounted.remove(connection)
        else:
            self._shared.release(connection.listener, connection.peer)
        self._shared.changed.unpark_all()
        if connection.session is not None:
            try:
                self._shared.application.connection_closed(connection.session)
            except Exception:
                logger.exception("the end of connection %s was not taken note of", connection.id)

    def observe(self, timeline: Timeline | None) -> None:
        """Report to this timeline, or to nobody, from now on."""
        self.timeline = timeline
        for connection in self.connections:
            connection.observe(timeline)

    # Tasks

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Serve connections until cancelled."""
        try:
            async with trio.open_nursery() as nursery:
                self._nursery = nursery
                nursery.start_soon(self._close_overdue)
                task_status.started()
                async for new in self._receive_new:
                    self._begin(new, nursery)
        finally:
            self._refuse_waiting()  # the connections have ended with their tasks
            self._ended.set()

    def _refuse_waiting(self) -> None:
        """Close what was handed over and not begun, and take nothing more."""
        with suppress(trio.WouldBlock):
            while True:
                new = self._receive_new.receive_nowait()
                new.transport.close()
                if new.is_counted:
                    self._shared.release(new.listener, new.peer)
        self._receive_new.close()

    def offer(self, new: NewConnection) -> bool:
        """Hand over a new connection; False when the queue is full, or nobody takes from it any more."""
        try:
            self._send_new.send_nowait(new)
        except (trio.WouldBlock, trio.BrokenResourceError):
            return False
        return True

    async def put(self, new: NewConnection) -> bool:
        """Hand over a new connection, waiting for room; False when nobody takes from the queue any more."""
        try:
            await self._send_new.send(new)
        except trio.BrokenResourceError:
            return False
        return True

    @property
    def has_ended(self) -> bool:
        """Whether it serves nothing any more and has let go of everything."""
        return self._ended.is_set()

    async def wait_ended(self) -> None:
        """Wait until `has_ended`."""
        await self._ended.wait()

    def _begin(self, new: NewConnection, nursery: trio.Nursery) -> None:
        connection = Connection(
            self,
            new.transport,
            f"{new.address}-{self.id}-{self.counters.created}",
            new.index,
            new.peer,
            new.listener,
            new.open_session or self.open_session,
        )
        self.counters.created += 1
        self.connections.add(connection)
        if not new.is_counted:
            self._uncounted.add(connection)
        if self._is_draining:
            connection.close()
            return
        nursery.start_soon(connection.run, name=connection.id)

    async def _wait_writable(self, connection: Connection) -> None:
        self._blocked += 1
        try:
            await connection.wait_writable()
        except Exception as error:  # noqa: BLE001 - the error costs this connection only
            connection.fail(error)
        finally:
            self._blocked -= 1
            self.response_budget.end_blocked(connection)

    @staticmethod
    async def _end_throttle(connection: Connection, until: float) -> None:
        with trio.move_on_at(until):
            while not connection.closed:  # the end of one that is closed must not wait for that of its throttle
                await connection.muting.wait()
            return
        try:
            connection.muting.end_throttle(until)
        except Exception as error:  # noqa: BLE001 - see _wait_writable
            connection.fail(error)

    def set_limits(self, limits: ConnectionLimits) -> None:
        """Change the bounds of its connections; the size of frames counts for new ones."""
        self.limits = limits
        self._limits_changed.unpark_all()

    async def _close_overdue(self) -> None:
        """Idle expiry, and the watchdog against slots that nobody completes."""
        while True:
            if math.isinf(self.limits.idle_seconds_max) and math.isinf(self.limits.slot_seconds_max):
                await self._limits_changed.park()
                continue
            await trio.sleep(OVERDUE_CHECK_SECONDS)
            waiting = tuple(self.connections)
            for start in range(0, len(waiting), OVERDUE_CHECKS_MAX):
                now = trio.current_time()
                for connection in waiting[start : start + OVERDUE_CHECKS_MAX]:
                    if not connection.closed and connection.is_overdue(now):
                        self.counters.expired += 1
                        connection.close()
                await trio.lowlevel.checkpoint()

    # Ending

    def stop_reading(self) -> None:
        """Admit nothing more: every connection answers what is in flight and closes."""
        self._is_draining = True
        for connection in tuple(self.connections):
            connection.stop_reading()

    def end(self) -> None:
        """End now: connections that are left are closed."""
        if self._nursery is not None:
            self._nursery.cancel_scope.cancel()

    def statistics(self) -> ProcessorStatistics:
        return ProcessorStatistics(
            id=self.id,
            connections=len(self.connections),
            connections_total=self.counters.created,
            blocked=self._blocked,
            expired=self.counters.expired,
            new_waiting=self._send_new.statistics().current_buffer_used,
            listener=self.listener,
            counters=self.counters.copy(),
            unsent_responses=(
                0 if self.timeline is None else sum(connection.unsent_responses for connection in self.connections)
            ),
        )
