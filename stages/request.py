"""A request, and the one result that its slot gets.

Rules of this room: of ours it imports the stamps only; it does no I/O; a request is completed exactly once, by whoever
has it.

A handler returns one of six results. `Send`, `NoOp` and `Close` end the slot. `Pending` carries entries that must be
durable first. `Parked` says that the slot is completed later, by `Request.complete` or by the work it carries.
`Unfinished` carries work that takes longer than a turn; other requests get their turns between its steps.
"""

from __future__ import annotations

import typing
from collections.abc import Callable, Generator, Sequence
from typing import Any, Protocol, TypeAlias

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
    "Final",
    "NoOp",
    "Parked",
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


class Deferral(Protocol):
    """Where handlers leave requests that must wait until earlier responses have left.

    Attributes:
        must_wait: a request is not started now.
        size_bytes: of the responses that have not left.
    """

    must_wait: bool
    size_bytes: int

    def defer(self, request: Request) -> None:
        """Keep a request until `ConnectionHandle.take_deferred` gives it back."""


class ConnectionHandle(Protocol):
    """What an application may know of the connection a request came on.

    Attributes:
        id: unique among the connections of a server; decides the queue.
        index: number of the connection, from 0, for traces.
        peer: the client's address.
        listener: name of the listener it came by.
        session: the application's own state of this connection; None until it sets one.
        response_room_bytes: what a response should take at most now, because clients have not taken what they were
            sent; one that takes more is sent all the same. 0 asks for an answer without payload; a connection that
            took all it was sent is always left something.
        unsent: for handlers, whether clients take what they were sent.
        closed: no response can be sent any more.
    """

    id: str
    index: int
    peer: str
    listener: str
    session: Any
    closed: bool

    @property
    def unsent(self) -> Deferral: ...

    @property
    def response_room_bytes(self) -> int: ...

    def take_deferred(self) -> Request | None:
        """For handlers: the next request that had to wait until earlier responses left."""

    def complete(self, request: Request, result: Result) -> None:
        """Give `request` its result."""

    def begin_work(self, abandon: Callable[[], None]) -> None:
        """Start no later request of the connection until `end_work`: a request takes several turns.

        Args:
            abandon: called when the connection is closed before that.
        """

    def end_work(self, abandon: Callable[[], None]) -> None:
        """That request is finished; called once for each `begin_work`, with the same argument."""

    def throttle(self, seconds: float) -> None:
        """Stop reading from the connection for so many seconds; overlapping throttles end with the later one."""

    def call_back(self, request: Request, callback: Callable[[], Result]) -> None:
        """Have `callback` run as a handler's work, on the queue of the connection and before requests that wait there.

        Its result is treated as that of `handle`, its exception too; its time counts as local time of `request`, which
        must be parked and may have one callback waiting at a time. Within `handle` of the same request it runs at once.
        The callback runs even if the connection is closed by then: what it appends stays, as that of a request does.

        Raises:
            RuntimeError: the request has a callback waiting already.
        """


class Send:
    """Write a response; the 4-byte length in front of it is added by the connection."""

    __slots__ = ("parts",)

    def __init__(self, *parts: Buffer) -> None:
        self.parts = parts

    def __repr__(self) -> str:
        return f"Send({sum(map(len, self.parts))} bytes)"


class NoOp:
    """Release the slot without bytes (a produce request with acks=0)."""

    __slots__ = ()


class Close:
    """Close the connection once the earlier responses have left.

    Args:
        reason: for people.
        last_bytes: sent before that as they are, without a length: the beginning of a response that is cut short.
    """

    __slots__ = ("last_bytes", "reason")

    def __init__(self, reason: str, last_bytes: bytes = b"") -> None:
        self.reason = reason
        self.last_bytes = last_bytes

    def __repr__(self) -> str:
        return f"Close({self.reason!r})"


class Pending:
    """Complete the slot with `result` when all `entries` are durable.

    Args:
        entries: what the committer's storage writes, in order; opaque here.
        result: the slot's result after that.
        on_durable: called on the event loop when the entries are durable, in the order of the commits, just before
            the slot is completed; it must not raise.
    """

    __slots__ = ("entries", "on_durable", "result")

    def __init__(self, entries: Sequence[Any], result: Final, on_durable: Callable[[], None] | None = None) -> None:
        self.entries = entries
        self.result = result
        self.on_durable = on_durable


class Parked:
    """The slot is completed later.

    Args:
        work: blocking work that the server runs in a thread; what it returns completes the slot. Without it whoever
            parked the request calls `Request.complete`.
        response_bytes: about how large the response will be, where that is known: it counts as unsent from here on,
            so that what is asked behind it does not take the same room.
        then: called on the event loop with what the work returned, for work that is only a part of the answer: the
            result of this completes the slot. It is called even if the connection is closed by then, but not where
            the work has failed.
        needs_frame: false where the application has read the frame and counts what it keeps of it: a long frame is cut
            to its beginning, and what is cut holds nothing of the byte budget any more.
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
    """Yielded by the steps of an `Unfinished` request: go on when another request, or the application, says so.

    Args:
        when_over: called once with what lets the steps go on; that must be called on the event loop, and has no effect
            once the steps were closed.
    """

    __slots__ = ("when_over",)

    def __init__(self, when_over: Callable[[Callable[[], None]], None]) -> None:
        self.when_over = when_over


class Unfinished:
    """Go on with `steps` in later turns, and let other requests have theirs in between; see `stages.unfinished`.

    Requests that the connection sent after this one are not started before it has its result.

    Args:
        steps: the work that is left. It yields where it may be interrupted, and returns the result of the slot.
            Whatever it appended must be submitted by then: it yields a `Pending` for that, whose own `result` is
            ignored, and goes on when the entries are durable. It yields a `Parked` with `work` to go on with what the
            work returned, and a `Waiting` to go on when somebody else says so. It is closed at a yield when the
            connection is closed, a commit fails, or the server ends.
        first: what it yielded last.
    """

    __slots__ = ("first", "steps")

    def __init__(self, steps: Steps, first: Pending | Parked | Waiting | None) -> None:
        self.steps = steps
        self.first = first


def go_on(steps: Steps, value: Any = None, error: Exception | None = None) -> Result:
    """Run the next step: the result if it was the last one, else `Unfinished`.

    Args:
        steps: see Unfinished.
        value: what the work of a `Parked` returned; None for the first step, and after any other.
        error: what the work raised; it is raised in the steps.

    Raises:
        TypeError: the last step returned no result.
    """
    try:
        first = steps.send(value) if error is None else steps.throw(error)
    except StopIteration as end:
        if type(end.value) not in RESULTS:
            raise TypeError(f"the steps returned {end.value!r}, which is no result") from None
        result: Result = end.value
        return result
    return Unfinished(steps, first)


class QueueHeldError(Exception):
    """Raised by `Application.handle`: the request is not started yet, and its queue stands still until then.

    Nothing that waits in the queue is started meanwhile, so that requests start in their order. The application is
    asked again for this request, first of all.

    Args:
        when_over: called once with what lets the queue go on; that must be called exactly once, on the event loop.
    """

    def __init__(self, when_over: Callable[[Callable[[], None]], None]) -> None:
        super().__init__("the queue is held")
        self.when_over = when_over


TURN_COST = 4_000
"""What a request may cost in one turn before others have theirs: about so many microseconds of work."""
TURN_SECONDS_MAX: typing.Final = 0.004
"""A handler's turn also ends when what it has handled took so long."""
NOT_SET: typing.Final = -(2**15)
"""The null of the small integers of a request: the lowest value of the 16 bits that they have in traces."""
NO_QUEUE: typing.Final = -(2**31)
"""The same of 32 bits."""
NO_OP: typing.Final = NoOp()
PARKED: typing.Final = Parked()
FRAME_KEPT_BYTES: typing.Final = 4096
"""Of a request that is parked without its frame: for those who observe, its header and, mostly, all of it."""
RESULTS: typing.Final = frozenset({Send, NoOp, Close, Pending, Parked, Unfinished})

Final: TypeAlias = Send | NoOp | Close
Result: TypeAlias = Send | NoOp | Close | Pending | Parked | Unfinished
Steps: TypeAlias = Generator[Pending | Parked | Waiting | None, Any, Result]
"""The work of one request, in steps; see `Unfinished`."""


class Request(Stamps):
    """One frame of one connection, and its slot in the order of that connection's responses.

    Attributes:
        connection: where it came from and where its response goes.
        sequence: number of its slot within the connection, from 0; the server gives it, whatever ids the client uses.
        frame: the bytes after the 4-byte length.
        depth: unanswered requests of the connection when it was received, itself included.
        result: what ended the slot; None while it is open.
        api, version, correlation_id, acks: set by the application, for traces only; NOT_SET where it did not.
        throttle_ms: the throttle that its answer tells, set by the application.
        has_callback: a callback waits for its turn.
        expected_bytes: of a response that counts as unsent before it is there.
        size_bytes: that its frame holds of the byte budget.
        is_cut: only the beginning of its frame is left.
        answer: what its response says, as the application's own message; set by the application, for observers only.
        before_answer: asked once, with the result that would end the slot: what it returns does so in its place. On
            None the slot stays open, and whoever set this completes the request later; the response that was held
            back counts as unsent meanwhile. Set by the application.
        queue: where it waited; NO_QUEUE for none.
        commit: which one made it durable; NO_STAMP for none.
    """

    # One object is made per request: what most of them never change, or set later, stands in the class.
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
        self.result: Final | None = None  # not in the class: mypyc would leave one of four types undefined

    def complete(self, result: Result | Any) -> None:
        """Give a parked request its `Result`; on the event loop, exactly once. What is none closes the connection."""
        self.connection.complete(self, result)

    def cut_frame(self) -> int:
        """Keep the first FRAME_KEPT_BYTES of the frame; returns how many bytes are free now."""
        freed_bytes = self.size_bytes - FRAME_KEPT_BYTES
        if freed_bytes <= 0:
            return 0
        self.frame = bytes(self.frame[:FRAME_KEPT_BYTES])
        self.size_bytes = FRAME_KEPT_BYTES
        self.is_cut = True
        return freed_bytes

    def ask_before_answer(self, result: Final) -> Final | Parked:
        """What becomes of `result`, see `before_answer`: the result that ends the slot, or that it is held back."""
        ask, self.before_answer = self.before_answer, None
        assert ask is not None
        try:
            changed = ask(self, result)
        except Exception as error:  # noqa: BLE001 - whatever it was, the slot must end
            return Close(f"the answer was refused: {error!r}")
        if changed is not None:
            return changed
        return Parked(response_bytes=sum(map(len, result.parts)) if type(result) is Send else 0)

    def __repr__(self) -> str:
        return f"<Request {self.sequence} of {self.connection.id}>"
