"""A client connection: it receives requests, releases their responses in order, and flushes them.

Longer than most files: its statistics and the interface to its owner have no other use.

Counterpart in Kafka: `KafkaChannel`; a connection reads all complete frames that have arrived, not one for each poll.
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
from stages.request import Close, NoOp, Parked, Part, Pending, Request, Result, Send, Unfinished
from stages.request_channel import RequestQueue
from stages.response_order import ResponseOrder
from stages.response_output import ResponseOutput
from stages.timeline import Timeline, now_ns
from stages.transport_layer import BrokenTransportError, HandshakeError, TransportLayer
from stages.unsent_responses import UnsentResponses

__all__ = ["Connection", "ConnectionLimits", "ConnectionOwner", "ConnectionStatistics"]

CLOSE_FLUSH_SECONDS: Final = 5.0
"""Time for responses to leave before a close, or after the client's last request."""

ENDINGS: Final = (BrokenTransportError, trio.ClosedResourceError)
"""Errors that end a connection normally, because the client or the server closed it; they are not logged."""
LARGE_RESPONSE_BYTES: Final = 4096
"""Size from which a response counts as unsent immediately. Smaller responses are counted together at the next flush."""

logger = logging.getLogger(__name__)


class ConnectionStatistics(NamedTuple):
    id: str
    in_flight: int
    received: int
    released: int
    unsent_bytes: int
    mute_reasons: tuple[str, ...]


class ConnectionOwner(ConnectionResources, Protocol):
    """The processor of a connection. It calls public methods of the connection only."""

    handshake_failed: HandshakeFailed | None

    def blocked(self, connection: Connection) -> None:
        """Run `connection.wait_writable`, because the client takes no more bytes now."""

    def settle(self, request: Request, result: Pending | Parked | Unfinished) -> None: ...

    def call_back(self, queue: RequestQueue, request: Request, callback: Callable[[], Result]) -> None: ...

    def new_response_order(self) -> ResponseOrder[Request]: ...

    def throttled(self, connection: Connection, until: float) -> None:
        """Call `connection.muting.end_throttle` at `until`, a time of Trio's clock."""

    def closed(self, connection: Connection) -> None: ...


class Connection:
    """A client connection.

    One task reads. Completing a request only marks the connection, and the sender flushes all marked connections, so
    all releasable responses leave in one send. Once the connection is closed, later results are dropped. No exception
    crosses to another connection.

    Args:
        transport: carries the bytes; owned by the connection from now on.
        connection_id: unique in the server.
        peer: address of the client, for applications and statistics.
        listener: name of the listener that accepted the connection.
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
        self.mute = self.muting.mute
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
        self._waiting_bytes = 0  # of completed responses that wait for an earlier one, and of expected responses
        self._closing = False
        self._is_marked = False  # registered for the next flush
        self._reading = trio.CancelScope()

    @property
    def sends_ranges(self) -> bool:
        return self.transport.sends_ranges

    @property
    def limits(self) -> ConnectionLimits:
        return self._owner.limits

    # Running

    async def run(self) -> None:
        """Read until the client ends, the transport breaks, or the connection is closed; then drain and close."""
        try:
            try:
                with self._reading:
                    await self.transport.start()
                    self._begin_session()
                    # Earlier requests are still answered; the bytes after an invalid frame cannot be parsed.
                    with suppress(InvalidFrameError):
                        await self.admission.receive()
                await self._drain()
            except HandshakeError as failure:  # not `error`: mypyc gives a name the type of its first use
                self._handshake_failed(failure)
        except Exception as error:  # noqa: BLE001 - see fail
            self.fail(error)
        finally:
            self.close()

    def _handshake_failed(self, failure: HandshakeError) -> None:
        self._owner.counters.authentication_failed += 1
        logger.info("rejected the connection of %s on listener %s: %s", self.peer, self.listener, failure)
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
        """Report to `timeline` from now on, or to no observer.

        Requests in flight are reported if they are already timed.
        """
        self._timeline = timeline
        self.muting.observe(timeline)
        self._output.observe(timeline)

    # Muting

    def resume(self, reason: MuteReason) -> bool:
        """Remove `reason`; return False if the connection still cannot use its turn (`stages.request_channel.Waiter`).

        Errors close this connection and never reach the caller.
        """
        try:
            self.muting.end(reason)
        except Exception as error:  # noqa: BLE001 - see fail
            self.fail(error)
        return not self.mute and not self.closed

    def throttle(self, seconds: float) -> None:
        until = trio.current_time() + seconds
        if not self.closed and self.muting.throttle(until):
            self._owner.throttled(self, until)

    def stop_reading(self) -> None:
        self.muting.begin(MuteReason.DRAINING)
        self._reading.cancel()

    # Completing

    def call_back(self, request: Request, callback: Callable[[], Result]) -> None:
        self._owner.call_back(self.admission.queue, request, callback)

    def complete(self, request: Request, result: object) -> None:
        """Set the result of a request, or carry out a result that leaves its slot open.

        Responses that the result releases leave with the next flush. A value that is not a result closes the
        connection. Once the connection is closed, results that end a slot are dropped.

        Raises:
            SlotCompletedTwiceError: if the request already has a result.
        """
        # Exact types, because `isinstance` is slower and each response passes here.
        kind = type(result)
        if kind is not Send:
            if kind is Pending or kind is Parked or kind is Unfinished:
                if kind is Parked:
                    self._expect(request, result)  # type: ignore[arg-type]  # checked by `kind`
                self._owner.settle(request, result)  # type: ignore[arg-type]  # checked by `kind`
                return
            if kind is not NoOp and kind is not Close:
                result = Close(f"{result!r} is not a result")
        # Entries of the request stay durable, but no response can be sent.
        if self.closed:
            return
        if (request.expected_bytes or request.before_answer is not None) and self._asks_application(request, result):
            return
        completed_ns = 0
        if request.enqueued_ns:  # even without an observer: one that arrives before the send finds all stamps
            completed_ns = request.completed_ns = now_ns()
        released = self.order.complete(request, result)
        if released:
            # This request is not timed, but released ones that waited for it may be.
            is_needed = self._timeline is not None and len(released) > 1
            self._release(released, completed_ns or (now_ns() if is_needed else 0))
        elif kind is Send:
            self._count_waiting(request, result)  # type: ignore[arg-type]  # checked by `kind`

    def _asks_application(self, request: Request, result: object) -> bool:
        """Stop counting an expected response; return True if `before_answer` decides the result."""
        self._waiting_bytes -= request.expected_bytes
        request.expected_bytes = 0
        if request.before_answer is None:
            return False
        self.complete(request, request.ask_before_answer(result))  # type: ignore[arg-type]  # it ends the slot
        return True

    def _expect(self, request: Request, parked: Parked) -> None:
        """Count the expected response of a parked request, and free its frame if the application has no use for it."""
        if self.closed or request.result is not None:
            return
        if not parked.needs_frame:
            self._owner.channel.release_bytes(request.cut_frame())
        if parked.response_bytes:
            request.expected_bytes = parked.response_bytes
            self._waiting_bytes += parked.response_bytes
            self._count_unsent()

    def _count_waiting(self, request: Request, send: Send) -> None:
        try:
            request.response_bytes = LENGTH_BYTES + sum(map(len, send.parts))
        except TypeError:  # a part is not bytes; `_release` will close the connection for it
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
        """Move responses to the output in order; nothing may follow a Close."""
        output, size_bytes, is_large = self._output, 0, False
        if self._waiting_bytes:
            self._waiting_bytes -= sum([request.response_bytes for request in released])  # 0 if it did not wait
        for request in released:
            size_bytes += request.size_bytes
            # A response after a Close must not be sent, but its bytes leave the budget.
            if self._closing:
                if self._timeline is not None and request.enqueued_ns:
                    self._timeline.request_dropped(request)
                continue
            request.released_ns = released_ns
            try:
                if output.add(request) >= LARGE_RESPONSE_BYTES:
                    is_large = True
            except TypeError:  # a part is not bytes
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
        if not self._is_marked:
            self._is_marked = True
            self._owner.sender.mark(self)

    def _begin_closing(self) -> None:
        """Close once the released responses have left; read and send nothing after them."""
        self._closing = True
        # Ends `receive`, so that `run` continues with `_drain`.
        self._reading.cancel()

    # Sending

    @property
    def unsent_bytes(self) -> int:
        """Bytes of responses that have not left, including waiting ones and the expected ones of parked requests."""
        return self._output.unsent_bytes + self._waiting_bytes

    @property
    def unsent_responses(self) -> int:
        return self._output.unsent_responses

    @property
    def is_blocked(self) -> bool:
        return self._output.is_blocked

    def send_marked(self) -> None:
        """Flush, for `stages.response_sender`; errors close this connection and never reach the caller."""
        was_blocked = self._output.is_blocked
        try:
            self.flush()
        except Exception as error:  # noqa: BLE001 - an error must cost this connection only
            self.fail(error)
            return
        if self._output.is_blocked and not was_blocked:
            self._owner.blocked(self)

    def flush(self) -> None:
        """Send the released responses as far as the transport takes them; never waits.

        Lifts the mutes that this ends, and closes a closing connection once its responses have left.

        Raises:
            BrokenTransportError: if the client has disconnected.
        """
        self._is_marked = False
        if self.closed:
            return
        output, limits = self._output, self._owner.limits
        if not output.is_blocked:
            counters = self._owner.counters
            sent_bytes = output.send()
            if sent_bytes:  # as in Kafka's Selector: a client that reads a large response slowly is not idle
                self.last_active = trio.current_time()
            counters.bytes_out += sent_bytes
            counters.responses_out += self.released - self._released_before
            self._released_before = self.released
        if output.unsent_bytes + self._waiting_bytes != self.unsent.size_bytes:
            self._count_unsent()
        reasons = self.mute.reasons
        if reasons:
            # An unsent response counts as one request in flight: with one allowed, it must leave before the next one.
            in_flight = len(self.order) + output.is_blocked
            if in_flight < limits.in_flight_max:
                self.muting.end(MuteReason.IN_FLIGHT)
            self._deferred.begin_if_possible()
        if self._closing and not output.is_blocked:
            self.close()
        elif reasons and (self._closing or not self.order):  # `_drain` and `wait_quiet` wait for this
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
        """Wait until no request is in flight and all responses have left, or the connection is closed.

        Call this only while the connection is muted.
        """
        while (self.order or self.unsent_bytes or self.is_blocked) and not self.closed:
            await self.muting.wait()

    def send_reply(self, parts: tuple[Part, ...], *, is_last: bool) -> None:
        if self.closed:
            return
        if parts:
            self._output.add_frame(Send(*parts))
        if is_last:
            self._begin_closing()
        self._mark()

    async def wait_writable(self) -> None:
        """Send unsent bytes whenever the transport takes some, until none are left or the connection is closed.

        Raises:
            BrokenTransportError: if the client disconnects.
            trio.ClosedResourceError: if the connection is closed during the wait.
        """
        while not self.closed:
            await self._output.wait_writable()
            self.flush()
            if not self._output.is_blocked:
                return
            self._owner.response_budget.begin_blocked(self)  # it has read some bytes, so it moves to the end

    # Closing

    async def _drain(self) -> None:
        """Answer the requests in flight after the client's last byte, within CLOSE_FLUSH_SECONDS for each step."""
        self.muting.begin(MuteReason.DRAINING)
        self.admission.abandon()  # frees its memory now: a request in flight may be parked for long
        while self.order and not self._closing and not self.closed:
            first = self.unsent.first_waiting
            with trio.move_on_after(CLOSE_FLUSH_SECONDS) as timeout:
                await self.muting.wait()
            unsent = self.unsent
            is_ours = bool(unsent.unfinished) or unsent.is_scheduled  # it waits for an earlier request or a handler
            if timeout.cancelled_caught and first is not None and unsent.first_waiting is first and not is_ours:
                break  # the client reads nothing, so this request would wait forever
        with trio.move_on_after(CLOSE_FLUSH_SECONDS):
            while (self.unsent_bytes or self.is_blocked) and not self.closed:
                await self.muting.wait()

    def fail(self, error: Exception) -> None:
        """Close after an error, and log it unless it is a normal end of a connection."""
        if not isinstance(error, ENDINGS):
            logger.error("closed connection %s after an unexpected error", self.id, exc_info=error)
        self.close()

    def close(self) -> None:
        """Close now and drop results that arrive later. Idempotent."""
        if self.closed:
            return
        # First: the callbacks below may complete requests of this connection, which must be dropped.
        self.closed = True
        owner = self._owner
        self.unsent.abandon()
        abandoned = self.order.abandon()
        for request in abandoned:
            owner.channel.release_bytes(request.size_bytes)
        unsent = self._output.abandon()  # frees its memory now: a task or request may keep this object alive for long
        if self._timeline is not None:
            for request in (*unsent, *abandoned):
                if request.enqueued_ns:
                    self._timeline.request_dropped(request)
        self.transport.close()
        self.admission.end()
        self.muting.end_all()
        owner.closed(self)

    def is_overdue(self, now: float) -> bool:
        """Return whether the connection is idle, or its oldest slot is open, for too long."""
        limits = self._owner.limits
        if now - self.last_active > limits.idle_seconds_max:
            return True
        # The watchdog for lost completions: without it a slot that is never completed blocks its connection forever.
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
