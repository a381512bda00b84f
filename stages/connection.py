"""One client connection: receive, admit, release, flush.

Rules of this room: one task reads; whoever completes a request only marks the connection, and the sender flushes all
that were marked, so that everything releasable leaves in one send. No task exists per request. A connection that is
closed drops what is completed later; nothing crosses to another connection, an exception least of all.

Longer than most files: its statistics and what it asks of its owner are no use without it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final, NamedTuple, Protocol

import trio

from stages.admission import Admission
from stages.authentication_gate import AuthenticationGate
from stages.connection_limits import ConnectionLimits
from stages.connection_resources import ConnectionResources
from stages.deferred_requests import DeferredRequests
from stages.frames import LENGTH_BYTES, InvalidFrameError
from stages.listener import HandshakeFailed, OpenSession
from stages.mute import MuteReason
from stages.muting import Muting
from stages.request import Buffer, Close, NoOp, Parked, Pending, Request, Result, Send, Unfinished
from stages.request_channel import RequestQueue
from stages.response_order import ResponseOrder
from stages.response_output import ResponseOutput
from stages.timeline import Timeline, now_ns
from stages.transport_layer import BrokenTransportError, HandshakeError, TransportLayer
from stages.unsent_responses import UnsentResponses

__all__ = ["Connection", "ConnectionLimits", "ConnectionOwner", "ConnectionStatistics"]

CLOSE_FLUSH_SECONDS: Final = 5.0
"""How long responses before a close, or after the end of the client's requests, may take to leave."""

ENDINGS: Final = (BrokenTransportError, trio.ClosedResourceError)
"""The peer, or whoever closed it, knows; nothing can be answered any more."""
LARGE_RESPONSE_BYTES: Final = 4096
"""A response of this size counts as unsent at once, a smaller one with the next flush, which a turn's others share."""

logger = logging.getLogger(__name__)


class ConnectionStatistics(NamedTuple):
    """One connection as it stands; see Connection."""

    id: str
    in_flight: int
    received: int
    released: int
    unsent_bytes: int
    mute_reasons: tuple[str, ...]


class ConnectionOwner(ConnectionResources, Protocol):
    """What a connection asks of the processor it lives in, which calls public methods of the connection only."""

    handshake_failed: HandshakeFailed | None

    def blocked(self, connection: Connection) -> None:
        """Have `connection.wait_writable` run: its client takes no more now."""

    def settle(self, request: Request, result: Pending | Parked | Unfinished) -> None:
        """Carry out a result that does not end its slot yet."""

    def call_back(self, queue: RequestQueue, request: Request, callback: Callable[[], Result]) -> None:
        """Have a callback run by a handler of the queue."""

    def new_response_order(self) -> ResponseOrder[Request]:
        """An empty response order."""

    def throttled(self, connection: Connection, until: float) -> None:
        """Have `connection.muting.end_throttle` called at a time of Trio's clock."""

    def closed(self, connection: Connection) -> None:
        """The connection is closed."""


class Connection:
    """One client connection; see the rules of the room.

    Args:
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
        self.muting = Muting(index, owner.timeline)
        self.mute = self.muting.mute  # why it is not read
        self.closed = False
        self.released = self._released_before = 0
        self.last_active = trio.current_time()
        self._owner = owner
        self._timeline = owner.timeline
        self._open_session = open_session
        self.admission = Admission(self, owner)
        self._output = ResponseOutput(transport, owner.timeline)
        self.unsent = UnsentResponses(owner.response_budget)
        self._deferred = DeferredRequests(self.unsent, self.muting, self.admission, owner)
        self._waiting_bytes = 0  # of responses that wait for an earlier one
        self._closing = False
        self._is_marked = False  # for the next flush
        self._reading = trio.CancelScope()

    @property
    def limits(self) -> ConnectionLimits:
        """The bounds of the connection, which may change while it is served."""
        return self._owner.limits

    # Running

    async def run(self) -> None:
        """Read until the client ends, the transport breaks, or the connection is closed; then drain and close."""
        try:
            try:
                with self._reading:
                    await self.transport.start()
                    self._begin_session()
                    with suppress(InvalidFrameError):  # what came before it is answered, nothing behind it understood
                        await self.admission.receive()
                await self._drain()
            except HandshakeError as failure:  # a name of its own: compiled, one has the type of its first use
                self._handshake_failed(failure)
        except Exception as error:  # noqa: BLE001 - see fail
            self.fail(error)
        finally:
            self.close()

    def _handshake_failed(self, failure: HandshakeError) -> None:
        self._owner.counters.authentication_failed += 1
        logger.info("%s has no connection on %s: %s", self.peer, self.listener, failure)
        if self._owner.handshake_failed is not None:
            self._owner.handshake_failed(self.peer, str(failure))

    def _begin_session(self) -> None:
        if self._open_session is None or self.closed:
            return
        authenticator = self._open_session(self, self.transport)
        if authenticator is not None:
            admission = self.admission
            admission.gate = AuthenticationGate(self, authenticator, admission.reader, self._owner.counters)

    def observe(self, timeline: Timeline | None) -> None:
        """Report to this timeline, or to nobody, from now on; of requests on their way those that are timed already."""
        self._timeline = timeline
        self.muting.observe(timeline)
        self._output.observe(timeline)

    # Muting

    def resume(self, reason: MuteReason) -> bool:
        """See `stages.request_channel.Waiter`; whoever makes room pays for no error of this connection."""
        try:
            self.muting.end(reason)
        except Exception as error:  # noqa: BLE001 - see fail
            self.fail(error)
        return not self.mute and not self.closed

    def throttle(self, seconds: float) -> None:
        """Stop reading for so many seconds; of overlapping throttles the later end counts."""
        until = trio.current_time() + seconds
        if not self.closed and self.muting.throttle(until):
            self._owner.throttled(self, until)

    def stop_reading(self) -> None:
        """Answer what is in flight, then close (shutdown of the server or of the processor)."""
        self.muting.begin(MuteReason.DRAINING)
        self._reading.cancel()

    # Completing

    def call_back(self, request: Request, callback: Callable[[], Result]) -> None:
        self._owner.call_back(self.admission.queue, request, callback)

    def complete(self, request: Request, result: object) -> None:
        """Give a request of this connection its result; what is released by it leaves with the next flush."""
        kind = type(result)
        if kind is not Send:
            if kind is Pending or kind is Parked or kind is Unfinished:
                if kind is Parked:
                    self._expect(request, result)  # type: ignore[arg-type]  # told by `kind`
                self._owner.settle(request, result)  # type: ignore[arg-type]  # told by `kind`
                return
            if kind is not NoOp and kind is not Close:
                result = Close(f"{result!r} is no result")
        if self.closed:
            return
        if (request.expected_bytes or request.before_answer is not None) and self._is_asked(request, result):
            return
        completed_ns = 0
        if request.enqueued_ns:  # also while nobody observes: an observer that comes before it is sent finds all stamps
            completed_ns = request.completed_ns = now_ns()
        released = self.order.complete(request, result)
        if released:
            # those that waited for one that is not timed may be
            is_needed = self._timeline is not None and len(released) > 1
            self._release(released, completed_ns or (now_ns() if is_needed else 0))
        elif kind is Send:
            self._count_waiting(request, result)  # type: ignore[arg-type]  # told by `kind`

    def _is_asked(self, request: Request, result: object) -> bool:
        """Count a response no longer that was expected; whether somebody else says what becomes of the result."""
        self._waiting_bytes -= request.expected_bytes
        request.expected_bytes = 0
        if request.before_answer is None:
            return False
        self.complete(request, request.ask_before_answer(result))  # type: ignore[arg-type]  # it ends the slot
        return True

    def _expect(self, request: Request, parked: Parked) -> None:
        """Count a response that is not there yet, and no longer a frame that is not needed."""
        if self.closed or request.result is not None:
            return
        if not parked.needs_frame:
            self._owner.channel.release_bytes(request.cut_frame())
        if parked.response_bytes:
            request.expected_bytes = parked.response_bytes
            self._waiting_bytes += parked.response_bytes
            self._count_unsent()

    def _count_waiting(self, request: Request, send: Send) -> None:
        """Count a response that waits for an earlier one."""
        try:
            request.response_bytes = LENGTH_BYTES + sum(map(len, send.parts))
        except TypeError:  # parts that are no bytes, which `_release` finds, too
            return
        self._waiting_bytes += request.response_bytes
        self._count_unsent()

    def _count_unsent(self) -> None:
        size_bytes = self._output.unsent_bytes + self._waiting_bytes
        if self.unsent.update(size_bytes, self._owner.limits.unsent_bytes_max):
            self.muting.begin(MuteReason.UNSENT_BYTES)

    @property
    def response_room_bytes(self) -> int:
        return self.unsent.room_bytes(self._owner.limits.unsent_bytes_max)

    def _release(self, released: list[Request], released_ns: int) -> None:
        """Move responses to the output, in order; nothing follows a close."""
        output, size_bytes, is_large = self._output, 0, False
        if self._waiting_bytes:
            self._waiting_bytes -= sum([request.response_bytes for request in released])  # 0 where it did not wait
        for request in released:
            size_bytes += request.size_bytes
            if self._closing:
                if self._timeline is not None and request.enqueued_ns:
                    self._timeline.request_dropped(request)
                continue
            request.released_ns = released_ns
            try:
                if output.add(request) >= LARGE_RESPONSE_BYTES:
                    is_large = True
            except TypeError:  # parts that are no bytes
                self._begin_closing()
            if type(request.result) is Close:
                self._begin_closing()
        self.released += len(released)
        self._owner.channel.release_bytes(size_bytes)
        if self.mute.reasons and not self.order:
            self.admission.admit_small()
        if is_large:
            self._count_unsent()
        self._mark()

    def _mark(self) -> None:
        """Have what was released leave with the next flush."""
        if not self._is_marked:
            self._is_marked = True
            self._owner.sender.mark(self)

    def _begin_closing(self) -> None:
        """Close when what was released has left; nothing that is behind it is read or sent any more."""
        self._closing = True
        self._reading.cancel()

    # Sending

    @property
    def unsent_bytes(self) -> int:
        """Bytes of responses, also of those that wait for an earlier one, that did not leave yet."""
        return self._output.unsent_bytes + self._waiting_bytes

    @property
    def unsent_responses(self) -> int:
        """Responses of timed requests that were released and did not leave yet."""
        return self._output.unsent_responses

    @property
    def is_blocked(self) -> bool:
        """Whether the transport takes no more bytes now."""
        return self._output.is_blocked

    def send_marked(self) -> None:
        """See `stages.response_sender.MarkedConnection`."""
        was_blocked = self._output.is_blocked
        try:
            self.flush()
        except Exception as error:  # noqa: BLE001 - whatever it was, it costs this connection only
            self.fail(error)
            return
        if self._output.is_blocked and not was_blocked:
            self._owner.blocked(self)

    def flush(self) -> None:
        """Send what was released, as far as the transport takes it; never waits.

        Raises:
            BrokenTransportError: the client is gone.
        """
        self._is_marked = False
        if self.closed:
            return
        output, limits = self._output, self._owner.limits
        if not output.is_blocked:
            counters = self._owner.counters
            sent_bytes = output.send()
            if sent_bytes:  # as Kafka's Selector counts: who takes a large response slowly is not idle
                self.last_active = trio.current_time()
            counters.bytes_out += sent_bytes
            counters.responses_out += self.released - self._released_before
            self._released_before = self.released
        if output.unsent_bytes + self._waiting_bytes != self.unsent.size_bytes:
            self._count_unsent()
        reasons = self.mute.reasons
        if reasons:
            # What the client does not take counts as one in flight: with one allowed, its response must have left.
            in_flight = len(self.order) + output.is_blocked
            if in_flight < limits.in_flight_max:
                self.muting.end(MuteReason.IN_FLIGHT)
            self._deferred.begin_if_possible()
        if self._closing and not output.is_blocked:
            self.close()
        elif reasons and (self._closing or not self.order):  # what `_drain` and `wait_quiet` wait for
            self.muting.wake()

    def begin_work(self, abandon: Callable[[], None]) -> None:
        self.unsent.begin_work(abandon)

    def end_work(self, abandon: Callable[[], None]) -> None:
        if self.closed:
            return
        self._deferred.end_work(abandon)

    def take_deferred(self) -> Request | None:
        return self._deferred.take()

    async def wait_quiet(self) -> None:
        """Wait until nothing is in flight and all that was released has left; only while it is muted for that."""
        while (self.order or self.unsent_bytes or self.is_blocked) and not self.closed:
            await self.muting.wait()

    def send_reply(self, parts: tuple[Buffer, ...], *, is_last: bool) -> None:
        """Send a frame that answers no request, if there are parts; close behind it if it is the last."""
        if self.closed:
            return
        if parts:
            self._output.add_frame(Send(*parts))
        if is_last:
            self._begin_closing()
        self._mark()

    async def wait_writable(self) -> None:
        """Wait until the transport takes bytes again and send them; returns when none are left or it is closed."""
        while not self.closed:
            await self._output.wait_writable()
            self.flush()
            if not self._output.is_blocked:
                return
            self._owner.response_budget.begin_blocked(self)  # it has taken something

    # Closing

    async def _drain(self) -> None:
        """The client sends no more: answer what is in flight, send it, within bounds."""
        self.muting.begin(MuteReason.DRAINING)
        self.admission.abandon()  # here, because what is in flight may be parked for long
        while self.order and not self._closing and not self.closed:
            first = self.unsent.first_waiting
            with trio.move_on_after(CLOSE_FLUSH_SECONDS) as patience:
                await self.muting.wait()
            unsent = self.unsent
            is_ours = bool(unsent.unfinished) or unsent.is_called  # it waits for an earlier one, or for a handler
            if patience.cancelled_caught and first is not None and unsent.first_waiting is first and not is_ours:
                break  # the client takes nothing, so it would wait for ever
        with trio.move_on_after(CLOSE_FLUSH_SECONDS):
            while (self.unsent_bytes or self.is_blocked) and not self.closed:
                await self.muting.wait()

    def fail(self, error: Exception) -> None:
        """Close after an error. One that is no usual end is logged as a bug; other connections go on."""
        if not isinstance(error, ENDINGS):
            logger.error("connection %s is closed", self.id, exc_info=error)
        self.close()

    def close(self) -> None:
        """Close now; what is completed later is dropped. Idempotent."""
        if self.closed:
            return
        self.closed = True
        owner = self._owner
        self.unsent.abandon()
        abandoned = self.order.abandon()
        for request in abandoned:
            owner.channel.release_bytes(request.size_bytes)
        unsent = self._output.abandon()  # here, because a task or a request may keep the connection for long
        if self._timeline is not None:
            for request in (*unsent, *abandoned):
                if request.enqueued_ns:
                    self._timeline.request_dropped(request)
        self.transport.close()
        self.admission.end()
        self.muting.end_all()
        owner.closed(self)

    def is_overdue(self, now: float) -> bool:
        """Whether it was idle for too long, or its oldest slot was open for too long."""
        limits = self._owner.limits
        if now - self.last_active > limits.idle_seconds_max:
            return True
        head = self.order.head
        return head is not None and now_ns() - head.received_ns > limits.slot_seconds_max * 1e9

    def statistics(self) -> ConnectionStatistics:
        return ConnectionStatistics(
            id=self.id,
            in_flight=len(self.order),
            received=self.order.opened,
            released=self.released,
            unsent_bytes=self.unsent_bytes,
            mute_reasons=tuple(reason.name for reason in sorted(self.mute.reasons)),
        )
