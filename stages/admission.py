"""Admission of requests: parses a connection's bytes into frames, and puts them on its queue as requests.

Counterpart in Kafka: `KafkaChannel`.
"""

from __future__ import annotations

from typing import Protocol

import trio

from stages.authentication_gate import AuthenticationGate, GuardedConnection
from stages.connection_resources import ConnectionResources
from stages.frames import FrameReader
from stages.mute import Mute, MuteReason
from stages.partial_frames import FrameHolder, PartialFrame
from stages.request import Buffer, ConnectionHandle, Request
from stages.request_channel import Waiter
from stages.response_order import ResponseOrder
from stages.timeline import now_ns
from stages.transport_layer import RECEIVE_BYTES, TransportLayer

__all__ = ["Admission"]


class AdmittedConnection(ConnectionHandle, FrameHolder, GuardedConnection, Waiter, Protocol):
    id: str
    transport: TransportLayer
    order: ResponseOrder[Request]
    mute: Mute
    last_active: float


class Admission:
    """The admission of one connection's requests to a queue.

    A frame that finds no room is held, and its connection is muted and waits. When it is resumed and cannot use its
    turn, it passes the turn on. So connections are served in turn, however fast some of them send.

    Args:
        connection: the connection; this class mutes it, and queues and budgets resume it.
        resources: resources of the connection's processor.

    Attributes:
        reader: parses the received bytes.
        queue: queue of the connection's requests.
        gate: takes the frames that are not requests; None without authentication.
    """

    __slots__ = (
        "_channel",
        "_connection",
        "_generation",
        "_held_frame",
        "_partial",
        "_resources",
        "gate",
        "queue",
        "reader",
    )
    __deletable__ = ("_connection",)  # mypyc needs this for `del`

    def __init__(self, connection: AdmittedConnection, resources: ConnectionResources) -> None:
        self.reader = FrameReader(resources.limits.frame_bytes_max)
        self.gate: AuthenticationGate | None = None
        self.queue = resources.channel.route(connection.id)
        self._connection = connection
        self._resources = resources
        self._channel = resources.channel
        self._generation = resources.channel.generation
        self._held_frame: Buffer | None = None
        self._partial: PartialFrame | None = None

    async def receive(self) -> None:
        """Admit frames and receive more, until the stream ends or the connection is closed.

        Raises:
            InvalidFrameError: if a frame has a negative size, or is larger than allowed.
            BrokenTransportError: if the client disconnects.
        """
        connection, reader, counters = self._connection, self.reader, self._resources.counters
        transport, order, mute_reasons = connection.transport, connection.order, connection.mute.reasons
        is_full, admitted = False, 0
        while not connection.closed:
            self.admit()
            counters.requests_in += order.opened - admitted
            admitted = order.opened
            if reader.collects_large or self._partial is not None:
                self._follow_large_frame()
            if mute_reasons:
                await self._wait_to_read()
                continue
            # A receive that finds nothing costs more than this wait, and the wait lets a burst arrive whole.
            if not is_full:
                await transport.wait_readable()
            try:
                room = reader.large_frame_room()
                if room is None:
                    data = transport.receive()
                    count = len(data)
                    is_full = count == RECEIVE_BYTES
                    reader.receive_data(data)
                else:
                    count = transport.receive_into(room)
                    is_full = count == len(room)
                    room.release()
                    reader.received(count)
            except BlockingIOError:
                is_full = False
                continue
            if not count:
                return
            counters.bytes_in += count
            connection.last_active = trio.current_time()

    def _follow_large_frame(self) -> None:
        """Request memory before the buffer of a large frame grows, and return it once the frame is a request."""
        connection, reader, budget = self._connection, self.reader, self._resources.partial_frames
        partial = self._partial
        if reader.collects_large:
            if partial is None:
                partial = self._partial = PartialFrame(connection, reader, connection.mute)
            if not budget.take(partial, reader.large_buffer_bytes):
                connection.muting.begin(MuteReason.PARTIAL_BYTES)
        elif self._held_frame is None and (self.gate is None or self.gate.frame is None):
            assert partial is not None, "`receive` calls this only with a large frame"
            self._partial = None
            budget.release(partial)

    async def _wait_to_read(self) -> None:
        # The reader itself runs the conversation, so nothing is read during it.
        if self.gate is not None and self.gate.frame is not None:
            await self.gate.converse()
            return
        if self._held_frame is not None:  # it was resumed but cannot put its frame, so others may use the room
            self.queue.pass_turn(self._connection)
            self._channel.pass_turn_for_bytes(self._connection)
        await self._connection.muting.wait()

    def admit(self) -> None:
        """Parse frames and put them on the queue while the connection is not muted.

        Raises:
            InvalidFrameError: if a frame has a negative size, or is larger than allowed.
        """
        connection, reader, channel = self._connection, self.reader, self._channel
        order, mute_reasons, gate = connection.order, connection.mute.reasons, self.gate
        in_flight_max = self._resources.limits.in_flight_max
        received_ns, depth = 0, len(order)  # nothing completes during this call
        timeline = self._resources.timeline
        is_timed = timeline is not None and timeline.times_requests
        while not mute_reasons:
            frame = self._held_frame
            is_resumed = frame is not None
            if frame is None:
                frame = reader.next_frame()
                if frame is None or (gate is not None and gate.takes(frame)):
                    return
            else:
                self._held_frame = None
            # A connection changes its queue only without requests in flight, or they would not start in their order.
            if self._generation != channel.generation and not depth:
                self.change_queue()
            queue = self.queue
            if (
                # The third condition always admits a small request of a connection with nothing in flight. So clients
                # that use up the byte budget stop large requests and pipelining, but no client altogether.
                len(queue.requests) >= queue.capacity
                or (queue.waiters and not is_resumed)
                or (channel.bytes_held >= channel.bytes_max and (depth or len(frame) > channel.small_bytes_max))
            ):
                self.hold(frame, is_resumed=is_resumed)
                return
            if not received_ns:
                received_ns = now_ns()
            request = Request(connection, order.opened, frame, received_ns)
            order.open(request)
            depth += 1
            request.depth = depth
            channel.hold_bytes(request.size_bytes)
            if is_timed:
                request.enqueued_ns = now_ns()
            queue.put_nowait(request)
            if depth >= in_flight_max:
                connection.muting.begin(MuteReason.IN_FLIGHT)

    def hold(self, frame: Buffer, *, is_resumed: bool) -> None:
        """Hold a frame and wait for room in the queue or in the byte budget, after earlier waiters.

        Args:
            is_resumed: whether the frame was held before; its connection then waits before others.
        """
        connection, queue = self._connection, self.queue
        self._held_frame = frame
        if not queue.has_room or (queue.waiters and not is_resumed):
            connection.muting.begin(MuteReason.QUEUE_FULL)
            queue.wait_for_room(connection, is_next=is_resumed)
        else:
            connection.muting.begin(MuteReason.QUEUED_BYTES)
            self._channel.wait_for_bytes(connection)

    def admit_small(self) -> None:
        """Admit a small held frame despite a depleted byte budget, because nothing is in flight any more."""
        frame = self._held_frame
        if (
            frame is not None
            and len(frame) <= self._channel.small_bytes_max
            and self._channel.leave_line(self._connection)
        ):
            self._connection.resume(MuteReason.QUEUED_BYTES)

    def change_queue(self) -> None:
        """Move to the queue that the new number of queues selects, and resume the waiters of the old one."""
        channel, old = self._channel, self.queue
        self.queue = channel.route(self._connection.id, old)
        self._generation = channel.generation
        old.resume_waiters()  # waiters of the old queue must not wait for this connection

    def end(self) -> None:
        """Leave the queue and free all received bytes, because the connection is closed."""
        self._channel.leave(self.queue)
        self.abandon()
        self.gate = None
        # Breaks a cycle, so that the connection's memory is freed now and not by the garbage collector.
        del self._connection

    def abandon(self) -> None:
        """Stop admitting: stop waiting, and free received bytes that are not requests yet."""
        self.reader.abandon()
        if self._partial is not None:
            self._resources.partial_frames.release(self._partial)
            self._partial = None
        if self._held_frame is not None:
            self._held_frame = None
            # Both lines: a connection does not know in which one it waits.
            self.queue.stop_waiting(self._connection)
            self._channel.stop_waiting_for_bytes(self._connection)
