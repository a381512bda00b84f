"""Bytes of one connection become frames, and frames become requests on its queue, while nothing forbids it.

Rules of this room: one task reads, and only here. A frame that finds no room, or others in line for it, is held, the
connection is muted and stands in line; the line calls it, and a connection that cannot use its turn then passes it on.
So connections are served in turn, however fast some of them ask. A large frame takes room from the budget of the
server before its buffer grows, and stands in line for it in the same way. A connection changes its queue only with
nothing in flight. Clients that use up the byte budget stop large requests and pipelining, but no small requests: of a
connection with nothing unanswered one is always admitted.
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
    """What admission asks of its connection."""

    id: str
    transport: TransportLayer
    order: ResponseOrder[Request]
    mute: Mute
    last_active: float


class Admission:
    """See the rules of the room.

    Args:
        connection: whose frames these are; it is muted by this room and resumed by the lines.
        resources: what the connections of its processor share.

    Attributes:
        reader: cuts what was received.
        queue: where the connection's requests wait.
        gate: takes the frames that are no requests; None where nobody authenticates.
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
    __deletable__ = ("_connection",)  # asked by mypyc of what `del` takes out

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
        """Admit frames and receive more, until the end of the stream.

        It waits before it receives unless the last receive was full: an attempt that finds nothing costs more than the
        wait, and a wait lets a burst arrive whole.

        Raises:
            InvalidFrameError: see FrameReader.
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
        """Take room before the buffer of a large frame grows; give it back when the frame is held no more."""
        connection, reader, budget = self._connection, self.reader, self._resources.partial_frames
        partial = self._partial
        if reader.collects_large:
            if partial is None:
                partial = self._partial = PartialFrame(connection, reader, connection.mute)
            if not budget.take(partial, reader.large_buffer_bytes):
                connection.muting.begin(MuteReason.PARTIAL_BYTES)
        elif self._held_frame is None and (self.gate is None or self.gate.frame is None):
            assert partial is not None, "there is one, or there is nothing to follow"
            self._partial = None
            budget.release(partial)

    async def _wait_to_read(self) -> None:
        if self.gate is not None and self.gate.frame is not None:
            await self.gate.converse()
            return
        if self._held_frame is not None:  # it was called and cannot put the frame: others have the room
            self.queue.pass_turn(self._connection)
            self._channel.pass_turn_for_bytes(self._connection)
        await self._connection.muting.wait()

    def admit(self) -> None:
        """Cut frames and put them on the queue while nothing mutes the connection.

        Raises:
            InvalidFrameError: see FrameReader.
        """
        connection, reader, channel = self._connection, self.reader, self._channel
        order, mute_reasons, gate = connection.order, connection.mute.reasons, self.gate
        in_flight_max = self._resources.limits.in_flight_max
        received_ns, depth = 0, len(order)  # nothing is completed meanwhile
        timeline = self._resources.timeline
        is_timed = timeline is not None and timeline.times_requests
        while not mute_reasons:
            frame = self._held_frame
            is_called = frame is not None
            if frame is None:
                frame = reader.next_frame()
                if frame is None or (gate is not None and gate.takes(frame)):
                    return
            else:
                self._held_frame = None
            if self._generation != channel.generation and not depth:
                self.change_queue()
            queue = self.queue
            if (
                len(queue.requests) >= queue.capacity
                or (queue.waiters and not is_called)
                or (channel.bytes_held >= channel.bytes_max and (depth or len(frame) > channel.small_bytes_max))
            ):
                self.hold(frame, is_called=is_called)
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

    def hold(self, frame: Buffer, *, is_called: bool) -> None:
        """The queue or the byte budget has no room for the frame, or others have it first: hold it, stand in line."""
        connection, queue = self._connection, self.queue
        self._held_frame = frame
        if not queue.has_room or (queue.waiters and not is_called):
            connection.muting.begin(MuteReason.QUEUE_FULL)
            queue.wait_for_room(connection, is_next=is_called)
        else:
            connection.muting.begin(MuteReason.QUEUED_BYTES)
            self._channel.wait_for_bytes(connection)

    def admit_small(self) -> None:
        """The connection has nothing unanswered any more: a small frame need not wait for the byte budget."""
        frame = self._held_frame
        if (
            frame is not None
            and len(frame) <= self._channel.small_bytes_max
            and self._channel.leave_line(self._connection)
        ):
            self._connection.resume(MuteReason.QUEUED_BYTES)

    def change_queue(self) -> None:
        """Follow a change of the number of queues; those that wait at the old one must not wait for this one."""
        channel, old = self._channel, self.queue
        self.queue = channel.route(self._connection.id, old)
        self._generation = channel.generation
        old.room_was_made()

    def end(self) -> None:
        """The connection is closed: leave the queue and the lines, free what was received, and let go of it.

        Without a cycle its memory is free at once, not when Python searches for cycles.
        """
        self._channel.leave(self.queue)
        self.abandon()
        self.gate = None
        del self._connection

    def abandon(self) -> None:
        """Nothing more is admitted: leave the lines, and free what was received and is no request yet."""
        self.reader.abandon()
        if self._partial is not None:
            self._resources.partial_frames.release(self._partial)
            self._partial = None
        if self._held_frame is not None:
            self._held_frame = None
            self.queue.stop_waiting(self._connection)
            self._channel.stop_waiting_for_bytes(self._connection)
