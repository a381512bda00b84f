"""A request and the results of its handler.

A handler returns one of six results. `Send`, `NoOp` and `Close` end the slot. `Pending` carries entries that must be
durable first. `Parked` leaves the slot open until `Request.complete` is called or the work that it carries returns.
`Unfinished` carries work that takes longer than a turn; other requests have their turns between its steps.

Counterpart in Kafka: `SendAction`, `NoOpAction`, `CloseConnectionAction`; a handler can also return `Pending`,
`Parked` or `Unfinished`.

Counterpart in Kafka: `RequestChannel.Request` and its times; the same stamps in both modes; times are differences of
stamps.

Counterpart in Kafka: callback queues (KIP-890); callbacks are served before requests of the queue.

Counterpart in Kafka: `DelayedProduce`; a response waits for a commit, not for replicas.
"""

from __future__ import annotations

import typing
from collections.abc import Callable, Generator, Sequence
from typing import Any, Protocol, TypeAlias

from stages.file_range import FileRange
from stages.stamps import NO_STAMP, Stamps

__all__ = [
    "NO_OP",
    "PARKED",
    "RESULTS",
    "TURN_COST",
    "TURN_SECONDS_MAX",
    "Buffer",
    "Close",
    "ConnectionHandle",
    "Deferral",
    "FileRange",
    "Final",
    "NoOp",
    "Parked",
    "Part",
    "Pending",
    "QueueHeldError",
    "Request",
    "Result",
    "Send",
    "Steps",
    "Unfinished",
    "Waiting",
    "go_on",
]

Buffer: TypeAlias = bytes | bytearray | memoryview
Part: TypeAlias = Buffer | FileRange


class Deferral(Protocol):
    """Requests of a connection that must wait until its earlier responses have left.

    Attributes:
        must_wait: whether a request must not start now.
        size_bytes: bytes of the responses that have not left.
    """

    must_wait: bool
    size_bytes: int

    def defer(self, request: Request) -> None:
        """Keep a request until `ConnectionHandle.take_deferred` returns it; drop it if the connection is closed."""


class ConnectionHandle(Protocol):
    """The connection of a request, as seen by the application.

    Attributes:
        id: unique among the connections of a server; selects the queue.
        index: number of the connection, from 0, for traces.
        peer: address of the client.
        listener: name of the listener that accepted the connection.
        session: state of the connection that belongs to the application; None until it is set.
        response_room_bytes: maximum size of a response, which shrinks while clients do not read their responses. A
            larger response is sent nevertheless. 0 requests a response without payload. A connection without unsent
            bytes always has at least 1.
        unsent: for handlers; keeps requests that must wait until earlier responses have left.
        closed: whether the connection can send no more responses.
        sends_ranges: whether responses may have FileRange parts.
    """

    id: str
    index: int
    peer: str
    listener: str
    session: Any
    closed: bool

    @property
    def sends_ranges(self) -> bool: ...

    @property
    def unsent(self) -> Deferral: ...

    @property
    def response_room_bytes(self) -> int: ...

    def take_deferred(self) -> Request | None:
        """Return the next deferred request, or None if it must wait longer or none is left; for handlers."""

    def complete(self, request: Request, result: Result) -> None: ...

    def begin_work(self, abandon: Callable[[], None]) -> None:
        """Start no later request of the connection until `end_work`, because a request takes several turns.

        Args:
            abandon: called if the connection is closed before `end_work`.
        """

    def end_work(self, abandon: Callable[[], None]) -> None:
        """End the work that `begin_work` started with the same `abandon`; call this exactly once."""

    def throttle(self, seconds: float) -> None:
        """Stop reading from the connection for `seconds`; of overlapping throttles the latest end counts."""

    def call_back(self, request: Request, callback: Callable[[], Result]) -> None:
        """Run `callback` in a handler of the connection's queue, before the requests waiting there.

        The server treats its result or exception like that of `handle` and counts its time as local time of `request`.
        During `handle` of the same request the callback runs immediately. It also runs if the connection is closed by
        then: entries it appends stay, like those of a request.

        Args:
            request: a parked request; it may have one waiting callback at a time.

        Raises:
            RuntimeError: if the request already has a waiting callback.
        """


class Send:
    """A response; its parts are sent one after the other, and the connection adds the 4-byte length."""

    __slots__ = ("parts",)

    def __init__(self, *parts: Part) -> None:
        self.parts = parts

    def __repr__(self) -> str:
        return f"Send({sum(map(len, self.parts))} bytes)"


class NoOp:
    """A slot that ends without a response (a produce request with acks=0)."""

    __slots__ = ()


class Close:
    """A result that closes the connection once the earlier responses have left.

    Args:
        reason: text for people; the client does not receive it.
        last_bytes: sent before closing, without a length: the beginning of a response that is cut short.
    """

    __slots__ = ("last_bytes", "reason")

    def __init__(self, reason: str, last_bytes: bytes = b"") -> None:
        self.reason = reason
        self.last_bytes = last_bytes

    def __repr__(self) -> str:
        return f"Close({self.reason!r})"


class Pending:
    """A result that completes the slot with `result` once all `entries` are durable.

    Args:
        entries: written by the committer's storage in this order; opaque to `stages`.
        result: result of the slot after the commit.
        on_durable: called on the event loop once the entries are durable, in the order of the commits and just before
            the slot is completed. It must not raise.
    """

    __slots__ = ("entries", "on_durable", "result")

    def __init__(self, entries: Sequence[Any], result: Final, on_durable: Callable[[], None] | None = None) -> None:
        self.entries = entries
        self.result = result
        self.on_durable = on_durable


class Parked:
    """A result that leaves the slot open, to be completed by `work` or by `Request.complete`.

    Args:
        work: blocking work that the server runs in a thread; its return value completes the slot. Without it the
            application must call `Request.complete`.
        response_bytes: approximate size of the response, if known. It counts as unsent from now on, so that later
            requests of the connection do not use the same budget.
        then: called on the event loop with the return value of `work`; its own result completes the slot. It is called
            even if the connection is closed by then, but not if `work` raises.
        needs_frame: False if the application has read the frame and accounts for the parts it keeps. A long frame is
            then cut to its first FRAME_KEPT_BYTES, and the rest leaves the byte budget.
    """

    __slots__ = ("needs_frame", "response_bytes", "then", "work")

    def __init__(
        self,
        work: Callable[[], Any] | None = None,
        response_bytes: int = 0,
        then: Callable[[Any], Result] | None = None,
        *,
        needs_frame: bool = True,
    ) -> None:
        self.work = work
        self.response_bytes = response_bytes
        self.then = then
        self.needs_frame = needs_frame


class Waiting:
    """A value yielded by the steps of an `Unfinished` request to continue on a callback.

    Args:
        when_over: called once with a callback that continues the steps. The application, or the handling of another
            request, must call the callback on the event loop. It has no effect once the steps are closed.
    """

    __slots__ = ("when_over",)

    def __init__(self, when_over: Callable[[Callable[[], None]], None]) -> None:
        self.when_over = when_over


class Unfinished:
    """A result whose `steps` run in later turns, with turns of other requests in between (`stages.unfinished`).

    Later requests of the connection do not start before this one has its result.

    Args:
        steps: the remaining work. It yields wherever it may be interrupted and returns the result of the slot. It must
            submit everything it has appended before it yields, by yielding a `Pending`, whose own `result` is ignored.
            It yields a `Parked` to continue with the return value of its `work`, and a `Waiting` to continue on a
            callback. It is closed at a yield if the connection is closed, a commit fails, or the server stops.
        first: the value that `steps` yielded last.
    """

    __slots__ = ("first", "steps")

    def __init__(self, steps: Steps, first: Pending | Parked | Waiting | None) -> None:
        self.steps = steps
        self.first = first


def go_on(steps: Steps, value: Any = None, error: Exception | None = None) -> Result:
    """Run the next step of a generator, and return its result, or `Unfinished` if it yields.

    Args:
        steps: see Unfinished.
        value: return value of the work of a yielded `Parked`; None otherwise.
        error: exception of that work, to be raised in the steps.

    Raises:
        TypeError: if the generator returns a value that is not a result.
        Exception: any exception that the steps raise.
    """
    try:
        first = steps.send(value) if error is None else steps.throw(error)
    except StopIteration as end:
        if type(end.value) not in RESULTS:
            raise TypeError(
                f"the steps returned {end.value!r}, which is not a result: return Send(...), for example"
            ) from None
        result: Result = end.value
        return result
    return Unfinished(steps, first)


class QueueHeldError(Exception):
    """Raised by `Application.handle` to hold its queue: the request has not started, and the queue stands still.

    No other request of the queue starts until `when_over` ends the hold, so requests still start in their order.
    `handle` is then called again for this request first.

    Args:
        when_over: called once with a callback that releases the queue. Call that exactly once, on the event loop.
    """

    def __init__(self, when_over: Callable[[Callable[[], None]], None]) -> None:
        super().__init__("the queue is held")
        self.when_over = when_over


TURN_SECONDS_MAX: typing.Final = 0.004
"""Duration after which a handler's turn ends."""
# Not Final: tests replace it, and a compiler would inline a Final.
TURN_COST = round(TURN_SECONDS_MAX * 1_000_000)
"""Work of a request in one turn, roughly in microseconds, after which other requests have their turns.

It is the bound TURN_SECONDS_MAX for steps, which read no clock."""
NOT_SET: typing.Final = -(2**15)
"""The null value of the small integers of a request: the lowest 16-bit integer, as in traces."""
NO_QUEUE: typing.Final = -(2**31)
"""The null value of a queue number: the lowest 32-bit integer, as in traces."""
NO_OP: typing.Final = NoOp()
PARKED: typing.Final = Parked()
FRAME_KEPT_BYTES: typing.Final = 4096
"""Bytes kept of a request that is parked without its frame. Observers see its header and, usually, all of it."""
RESULTS: typing.Final = frozenset({Send, NoOp, Close, Pending, Parked, Unfinished})

Final: TypeAlias = Send | NoOp | Close
Result: TypeAlias = Send | NoOp | Close | Pending | Parked | Unfinished
Steps: TypeAlias = Generator[Pending | Parked | Waiting | None, Any, Result]
"""The steps of one request; see `Unfinished`."""


class Request(Stamps):
    """A frame of a connection and its slot in the order of that connection's responses.

    Attributes:
        connection: receives the response.
        sequence: number of its slot in the connection, from 0. The server assigns it, whatever ids the client uses.
        frame: the bytes after the 4-byte length.
        depth: number of unanswered requests of the connection when this one arrived, itself included.
        result: the result that ended the slot; None while it is open.
        api, version, correlation_id, acks: set by the application, for traces only; NOT_SET if unknown.
        throttle_ms: throttle time in its response, set by the application.
        has_callback: whether a callback waits for its turn.
        expected_bytes: expected size of its response, which counts as unsent before the response exists.
        response_bytes: size of its response with the 4-byte length; 0 before it is known, or without a response.
        size_bytes: bytes of the budget that its frame holds.
        is_cut: whether only the beginning of its frame is left.
        answer: the response as a message of the application; set by the application, for observers only.
        before_answer: called once with the result that would end the slot; its return value replaces that result. If it
            returns None, the slot stays open and the application completes the request later. Until then, the response
            that was held back counts as unsent. Set by the application.
        queue: number of the queue where it waited; NO_QUEUE if none.
        commit: number of the commit that made its entries durable; NO_STAMP if none.
    """

    # Class attributes, because creating a request is on the hot path: most requests never set these, or set them later.
    depth: int = 0
    api: int = NOT_SET
    version: int = NOT_SET
    acks: int = NOT_SET
    queue: int = NO_QUEUE
    commit: int = NO_STAMP
    correlation_id: int = 0
    response_bytes: int = 0
    expected_bytes: int = 0
    throttle_ms: int = 0
    has_callback: bool = False
    is_cut: bool = False
    answer: Any = None
    before_answer: Callable[[Request, Final], Final | None] | None = None

    def __init__(self, connection: ConnectionHandle, sequence: int, frame: Buffer, received_ns: int) -> None:
        self.connection = connection
        self.sequence = sequence
        self.frame = frame
        self.size_bytes = len(frame)
        self.received_ns = received_ns
        self.result: Final | None = None  # not a class attribute: mypyc would leave one of this union type undefined

    def complete(self, result: Result | Any) -> None:
        """Complete a parked request; call this on the event loop, exactly once.

        A value that is not a result closes the connection. After the connection is closed, results that end the slot
        are dropped.

        Raises:
            SlotCompletedTwiceError: if the request already has a result.
        """
        self.connection.complete(self, result)

    def cut_frame(self) -> int:
        """Keep only the first FRAME_KEPT_BYTES of the frame, and return the number of freed bytes, 0 or more."""
        freed_bytes = self.size_bytes - FRAME_KEPT_BYTES
        if freed_bytes <= 0:
            return 0
        # A copy, because a slice of a memoryview would keep the whole frame alive.
        self.frame = bytes(self.frame[:FRAME_KEPT_BYTES])
        self.size_bytes = FRAME_KEPT_BYTES
        self.is_cut = True
        return freed_bytes

    def ask_before_answer(self, result: Final) -> Final | Parked:
        """Call `before_answer`, for the only time, with the result that would end the slot.

        Returns:
            the result that ends the slot: its return value, or a `Close` if it raises. A `Parked` if it returns None,
            to hold the response back.
        """
        # Once only: the application completes a held back request through the same method.
        ask, self.before_answer = self.before_answer, None
        assert ask is not None
        try:
            changed = ask(self, result)
        except Exception as error:  # noqa: BLE001 - the slot must end after any error
            return Close(f"before_answer failed: {error!r}")
        if changed is not None:
            return changed
        return Parked(response_bytes=sum(map(len, result.parts)) if type(result) is Send else 0)

    def __repr__(self) -> str:
        return f"<Request {self.sequence} of {self.connection.id}>"
