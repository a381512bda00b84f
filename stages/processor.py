"""Processors, which own connections and their tasks.

They correspond to Kafka's network threads, but all of them run on one event loop.

Counterpart in Kafka: `Processor`; a Trio nursery with the tasks of its connections, not a thread.
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
"""Size of a processor's queue of new connections, fixed in Kafka, too. A full one makes the acceptor wait."""
OVERDUE_CHECK_SECONDS: Final = 1.0
OVERDUE_CHECKS_MAX: Final = 500
"""Connections checked in one turn of the event loop."""


@attrs.frozen
class NewConnection:
    transport: TransportLayer
    address: str
    peer: str
    listener: str
    index: int
    is_counted: bool = True  # the connection quotas count it
    open_session: OpenSession | None = None  # replaces the listener's


@attrs.define
class Shared:
    """The objects that all processors of a listener share.

    Attributes:
        channel: the request queues.
        handlers: carries out results that leave a slot open.
        application: learns of closed connections.
        limits: bounds of each connection; may be replaced while they are served.
        release: called with listener and address of each closed connection that the quotas counted.
        changed: woken whenever a connection closes.
        timeline: observer of the server, if any.
        response_order: creates the response order of a connection.
        open_session: see `stages.listener.OpenSession`.
        handshake_failed: see `stages.listener.HandshakeFailed`.
        sender: flushes marked connections.
        response_budget: bounds the unsent responses of all connections.
        partial_frames: bounds the arriving large frames of all connections.
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
    """Statistics of one processor.

    Attributes:
        id: number of the processor in the server.
        connections: open connections.
        connections_total: all connections so far.
        blocked: connections whose client does not read its responses.
        expired: connections closed because they were idle or kept a slot open for too long.
        new_waiting: accepted connections that wait for the processor.
        listener: name of its listener.
        counters: a copy of its counters.
        unsent_responses: released responses of timed requests that have not left; 0 without an observer.
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
    """A nursery that owns the tasks of its connections; it is their `ConnectionOwner`.

    Each connection has one task, which reads. A task that writes exists only while a client does not read its
    responses.
    """

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

    # ConnectionOwner

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
        # Each counted connection must be released exactly once, or the quotas would drift.
        if connection in self._uncounted:
            self._uncounted.remove(connection)
        else:
            self._shared.release(connection.listener, connection.peer)
        self._shared.changed.unpark_all()
        if connection.session is not None:
            try:
                self._shared.application.connection_closed(connection.session)
            except Exception:
                logger.exception("the application failed to clean up after the closed connection %s", connection.id)

    def observe(self, timeline: Timeline | None) -> None:
        self.timeline = timeline
        for connection in self.connections:
            connection.observe(timeline)

    # Tasks

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
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
        with suppress(trio.WouldBlock):
            while True:
                new = self._receive_new.receive_nowait()
                new.transport.close()
                if new.is_counted:
                    self._shared.release(new.listener, new.peer)
        self._receive_new.close()

    def offer(self, new: NewConnection) -> bool:
        """Hand over a new connection; return False if the queue is full or the processor has ended."""
        try:
            self._send_new.send_nowait(new)
        except (trio.WouldBlock, trio.BrokenResourceError):
            return False
        return True

    async def put(self, new: NewConnection) -> bool:
        """Hand over a new connection, waiting for room; return False if the processor has ended."""
        try:
            await self._send_new.send(new)
        except trio.BrokenResourceError:
            return False
        return True

    @property
    def has_ended(self) -> bool:
        """True once the processor has stopped and closed all its connections."""
        return self._ended.is_set()

    async def wait_ended(self) -> None:
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
        # It waited for this processor during `stop_reading`, which did not reach it.
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
            while not connection.closed:  # end this task with the connection, even if the throttle lasts longer
                await connection.muting.wait()
            return
        try:
            connection.muting.end_throttle(until)
        except Exception as error:  # noqa: BLE001 - see _wait_writable
            connection.fail(error)

    def set_limits(self, limits: ConnectionLimits) -> None:
        """Change the bounds of all connections; a new frame size applies to new connections only."""
        self.limits = limits
        self._limits_changed.unpark_all()

    async def _close_overdue(self) -> None:
        while True:
            if math.isinf(self.limits.idle_seconds_max) and math.isinf(self.limits.slot_seconds_max):
                await self._limits_changed.park()
                continue
            await trio.sleep(OVERDUE_CHECK_SECONDS)
            # A copy, because connections open and close during the checkpoints.
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
        """Admit no more requests: each connection answers its requests in flight, then closes."""
        self._is_draining = True
        for connection in tuple(self.connections):
            connection.stop_reading()

    def end(self) -> None:
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
