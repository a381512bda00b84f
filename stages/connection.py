"""One client connection: receive, admit, release, flush.

Rules of this room: one task reads; whoever completes a request only marks the connection, and the processor flushes all
that were marked, so that everything releasable leaves in one send. No task exists per request. A connection that is
closed drops what is completed later; nothing crosses to another connection, an exception least of all.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import trio

from stages.admission import Admission
from stages.authentication_gate import AuthenticationGate
from stages.connection_limits import ConnectionLimits
from stages.connection_owner import ConnectionOwner, ConnectionStatistics
from stages.frames import InvalidFrameError
from stages.listener import OpenSession
from stages.mute import Mute, MuteReason
from stages.request import Buffer, Close, NoOp, Parked, Pending, Request, Result, Send
from stages.response_output import ResponseOutput
from stages.timeline import now_ns
from stages.transport_layer import RECEIVE_BYTES, BrokenTransportError, TransportLayer

__all__ = ["Connection", "ConnectionLimits"]

CLOSE_FLUSH_SECONDS = 5.0
"""How long responses before a close, or after the end of the client's requests, may take to leave."""

logger = logging.getLogger(__name__)


class Connection:
    """One client connection; see the rules of the room.

    Args:
        owner: the processor.
        transport: carries the bytes; owned from here on.
        connection_id: unique in the server.
        index: number of the connection.
        peer: the client's address, for applications and statistics.
        listener: name of the listener it came by.
        open_session: see OpenSession.
    """

    def __init__(
        self,
        owner: ConnectionOwner,
        transport: TransportLayer,
        connection_id: str,
        index: int,
        peer: str,
        listener: str,
        open_session: OpenSession | None = None,
    ) -> None:
        self.id = connection_id
        self.index = index
        self.peer = peer
        self.listener = listener
        self.session: Any = None
        self.transport = transport
        self.order = owner.new_response_order()
        self.mute = Mute()
        self.closed = False
        self.released = 0
        self.last_active = trio.current_time()
        self._owner = owner
        self._timeline = owner.timeline
        self._open_session = open_session
        self.admission = Admission(self, owner)
        self._wakeup = trio.lowlevel.ParkingLot()
        self._output = ResponseOutput(transport, owner.timeline)
        self._closing = False
        self._mute_began_ns: dict[MuteReason, int] = {}
        self._reading = trio.CancelScope()

    @property
    def limits(self) -> ConnectionLimits:
        """The bounds of the connection, which may change while it is served."""
        return self._owner.limits

    # Receiving

    async def run(self) -> None:
        """Read until the client ends, the transport breaks, or the connection is closed; then drain and close."""
        try:
            with self._reading:
                await self.transport.start()
                self._begin_session()
                with suppress(InvalidFrameError):  # nothing behind it can be understood; what came before is answered
                    await self._receive()
            await self._drain()
        except (BrokenTransportError, trio.ClosedResourceError):
            pass  # the peer, or whoever closed it, knows; nothing can be answered any more
        except Exception:
            logger.exception("connection %s is closed", self.id)  # a bug, which costs this connection and no other
        finally:
            self.close()

    def _begin_session(self) -> None:
        if self._open_session is None or self.closed:
            return
        authenticator = self._open_session(self, self.transport)
        if authenticator is not None:
            admission = self.admission
            admission.gate = AuthenticationGate(self, authenticator, admission.reader, self._owner.counters)

    async def _receive(self) -> None:
        """Admit frames and receive more, until the end of the stream.

        It waits before it receives unless the last receive was full: an attempt that finds nothing costs more than the
        wait, and a wait lets a burst arrive whole.
        """
        transport, admission = self.transport, self.admission
        reader, counters = admission.reader, self._owner.counters
        is_full, admitted = False, 0
        while not self.closed:
            admission.admit()
            counters.requests_in += self.order.opened - admitted
            admitted = self.order.opened
            if self.mute:
                if admission.gate is not None and admission.gate.frame is not None:
                    await admission.gate.converse()
                    continue
                admission.pass_turn()
                await self._wakeup.park()
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
            self.last_active = trio.current_time()

    # Muting

    def mute_for(self, reason: MuteReason) -> None:
        """Stop reading until the reason is gone."""
        if self.mute.add(reason) and self._timeline is not None:
            self._mute_began_ns[reason] = now_ns()

    def unmute(self, reason: MuteReason) -> None:
        """A reason is gone: read again, unless another is left."""
        self._mute_ended(reason)
        if self.mute.discard(reason):
            self._wakeup.unpark_all()

    def _mute_ended(self, reason: MuteReason) -> None:
        began_ns = self._mute_began_ns.pop(reason, None)
        if began_ns is not None and self._timeline is not None:
            self._timeline.mute_ended(self.index, reason, began_ns, now_ns())

    def resume(self, reason: MuteReason) -> bool:
        """See `stages.request_channel.Waiter`."""
        self.unmute(reason)
        return not self.mute and not self.closed

    def throttle(self, seconds: float) -> None:
        """Stop reading for so many seconds; of overlapping throttles the later end counts."""
        until = trio.current_time() + seconds
        if self.closed or not self.mute.throttle(until):
            return
        if self._timeline is not None:
            self._mute_began_ns.setdefault(MuteReason.THROTTLED, now_ns())
        self._owner.throttled(self, until)

    def end_throttle(self, now: float) -> None:
        """End the throttle if the latest of its deadlines has passed."""
        if MuteReason.THROTTLED not in self.mute:
            return
        if self.mute.throttle_ended(now):
            self._wakeup.unpark_all()
        if MuteReason.THROTTLED not in self.mute:
            self._mute_ended(MuteReason.THROTTLED)

    def stop_reading(self) -> None:
        """Answer what is in flight, then close (shutdown of the server or of the processor)."""
        self.mute_for(MuteReason.DRAINING)
        self._reading.cancel()

    # Completing

    def call_back(self, request: Request, callback: Callable[[], Result]) -> None:
        """See `stages.request.ConnectionHandle`."""
        self._owner.call_back(self.admission.queue, request, callback)

    def complete(self, request: Request, result: Result) -> None:
        """Give a request of this connection its result; what is released by it leaves with the next flush."""
        kind = type(result)
        if kind is not Send:
            if kind is Pending or kind is Parked:
                self._owner.settle(request, result)  # type: ignore[arg-type]  # told by `kind`
                return
            if kind is not NoOp and kind is not Close:
                result = Close(f"{result!r} is no result")
        if self.closed:
            return
        if self._timeline is not None:
            request.completed_ns = now_ns()
        released = self.order.complete(request, result)
        if released:
            self._release(released)

    def _release(self, released: list[Request]) -> None:
        """Move responses to the output, in order; nothing follows a close."""
        released_ns = now_ns() if self._timeline is not None else 0
        channel = self._owner.channel
        self.released += len(released)
        self._owner.counters.responses_out += len(released)
        for request in released:
            channel.release_bytes(request.size_bytes)
            if self._closing:
                if self._timeline is not None:
                    self._timeline.request_dropped(request)
                continue
            request.released_ns = released_ns
            try:
                self._output.add(request)
            except TypeError:  # parts that are no bytes
                self._begin_closing()
            if type(request.result) is Close:
                self._begin_closing()
        self._owner.mark(self)

    def _begin_closing(self) -> None:
        """Close when what was released has left; nothing that is behind it is read or sent any more."""
        self._closing = True
        self._reading.cancel()

    # Sending

    @property
    def unsent_bytes(self) -> int:
        """Bytes of responses that were released and did not leave yet."""
        return self._output.unsent_bytes

    @property
    def is_blocked(self) -> bool:
        """Whether the transport takes no more bytes now."""
        return self._output.is_blocked

    def flush(self) -> None:
        """Send what was released, as far as the transport takes it; never waits.

        Raises:
            BrokenTransportError: the client is gone.
        """
        if self.closed:
            return
        output = self._output
        if not output.is_blocked:
            self._owner.counters.bytes_out += output.send()
        unsent_bytes_max = self._owner.limits.unsent_bytes_max
        if self.mute:
            # What the client does not take counts as one in flight: with one allowed, its response must have left.
            in_flight = len(self.order) + output.is_blocked
            if MuteReason.IN_FLIGHT in self.mute and in_flight < self._owner.limits.in_flight_max:
                self.unmute(MuteReason.IN_FLIGHT)
            if MuteReason.UNSENT_BYTES in self.mute and output.unsent_bytes < unsent_bytes_max:
                self.unmute(MuteReason.UNSENT_BYTES)
        if output.unsent_bytes >= unsent_bytes_max:
            self.mute_for(MuteReason.UNSENT_BYTES)
        if self._closing and not output.is_blocked:
            self.close()
        elif self.mute and (self._closing or not self.order):  # what `_drain` and `wait_quiet` wait for
            self._wakeup.unpark_all()

    async def wait_quiet(self) -> None:
        """Wait until nothing is in flight and all that was released has left; only while it is muted for that."""
        while (self.order or self.unsent_bytes or self.is_blocked) and not self.closed:
            await self._wakeup.park()

    def send_reply(self, parts: tuple[Buffer, ...], *, is_last: bool) -> None:
        """Send a frame that answers no request, if there are parts; close behind it if it is the last."""
        if self.closed:
            return
        if parts:
            self._output.add_frame(Send(*parts))
        if is_last:
            self._begin_closing()
        self._owner.mark(self)

    async def wait_writable(self) -> None:
        """Wait until the transport takes bytes again and send them; returns when none are left or it is closed."""
        while not self.closed:
            await self._output.wait_writable()
            self.flush()
            if not self._output.is_blocked:
                return

    # Closing

    async def _drain(self) -> None:
        """The client sends no more: answer what is in flight, send it, within bounds."""
        self.mute_for(MuteReason.DRAINING)
        while self.order and not self._closing and not self.closed:
            await self._wakeup.park()
        with trio.move_on_after(CLOSE_FLUSH_SECONDS):
            while (self.unsent_bytes or self.is_blocked or self._closing) and not self.closed:
                await self._wakeup.park()

    def close(self) -> None:
        """Close now; what is completed later is dropped. Idempotent."""
        if self.closed:
            return
        self.closed = True
        owner = self._owner
        for reason in tuple(self._mute_began_ns):
            self._mute_ended(reason)
        abandoned = self.order.abandon()
        for request in abandoned:
            owner.channel.release_bytes(request.size_bytes)
        if self._timeline is not None:
            for request in (*self._output.abandon(), *abandoned):
                self._timeline.request_dropped(request)
        self.transport.close()
        self.admission.end()
        self._wakeup.unpark_all()
        owner.closed(self)

    def is_overdue(self, now: float) -> bool:
        """Whether it was idle for too long, or its oldest slot was open for too long."""
        limits = self._owner.limits
        if now - self.last_active > limits.idle_seconds_max:
            return True
        head = self.order.head
        return head is not None and now_ns() - head.received_ns > limits.slot_seconds_max * 1e9

    def statistics(self) -> ConnectionStatistics:
        """See ConnectionStatistics."""
        return ConnectionStatistics(
            id=self.id,
            in_flight=len(self.order),
            received=self.order.opened,
            released=self.released,
            unsent_bytes=self.unsent_bytes,
            mute_reasons=tuple(reason.name for reason in sorted(self.mute.reasons)),
        )
