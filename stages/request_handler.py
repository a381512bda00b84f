"""The handlers: M on a shared queue, or one per queue.

Rules of this room: a handler takes all that waits in its queue, at most TURN_MAX requests a turn, for TURN_SECONDS_MAX,
and no more after a large response or an unfinished request. The application decides each synchronously; so a request
starts, and is sequenced, in the order of its queue. A handler never waits for a cold read, a throttle or a parked
request. Where each request is its own commit the handler waits for it, as Apache Kafka's do; that waiting is the whole
difference between the modes here.

Callbacks go before requests, count as work of the turn, and are handled like a request of their own from there on.
A request that takes longer than a turn is left unfinished, and goes on between the turns (`stages.unfinished`).
An application that raises, or returns no result, gets its request closed: no slot is left open by a bug.

Longer than most files: turns, callbacks and work in threads share the same few counts.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

import trio
from trio.lowlevel import current_clock

from stages.committer import Committer, Submission
from stages.loop_turns import NOTED_TURN_SECONDS, LoopTurns
from stages.mode import Batching
from stages.request import (
    RESULTS,
    TURN_SECONDS_MAX,
    Close,
    Parked,
    Pending,
    QueueHeldError,
    Request,
    Result,
    Unfinished,
)
from stages.response_order import SlotCompletedTwiceError
from stages.response_sender import ResponseSender
from stages.timeline import Timeline, now_ns
from stages.unfinished import UnfinishedRequests

if TYPE_CHECKING:
    from stages.request_channel import RequestChannel, RequestQueue

__all__ = ["Application", "RequestHandlerPool", "RequestHandlerStatistics"]

logger = logging.getLogger(__name__)

TURN_MAX: Final = 32
"""Requests that one handler takes before others get their turn: the bound of what is done synchronously."""
TURN_RESPONSE_BYTES_MAX: Final = 1 << 20
"""A turn also ends when a connection that it has served has so much to take: what follows is another large response."""
BLOCKING_WORKS_MAX: Final = 16
"""Threads for blocking work of parked requests (cold reads)."""


def _answer(submission: Submission, error: BaseException | None) -> None:
    """End the slot of a submission: what is not durable is never acknowledged."""
    request, result = submission.request, submission.result
    assert request is not None
    assert result is not None
    if error is not None:
        result = Close(f"not durable: {error}")
    try:  # noqa: SIM105 - `suppress` costs more than the rest of this, for every request
        request.connection.complete(request, result)
    except SlotCompletedTwiceError:  # an application answered it in the meantime: the first answer stands
        pass


class Application(Protocol):
    """Decides requests; synchronous, on the event loop."""

    def handle(self, request: Request) -> Result:
        """The result of a request; when it raises anything but QueueHeldError, `failed` decides."""

    def failed(self, request: Request, error: Exception) -> Result:
        """The result of a request that `handle`, or work that it parked, failed to answer."""

    def connection_closed(self, session: object) -> None:
        """A connection with a session is closed: forget what it parked."""


class RequestHandlerStatistics(NamedTuple):
    """The pool as it stands.

    Attributes:
        handlers: tasks that take requests.
        idle: how many of them wait for a request.
        handled: requests that were handled so far.
        called_back: callbacks that ran so far.
        failed: how many of both raised.
        blocking_works: parked requests whose work runs in a thread or waits for one.
        unfinished: requests that take several turns and are at work.
    """

    handlers: int
    idle: int
    handled: int
    failed: int
    blocking_works: int
    called_back: int = 0
    unfinished: int = 0


class RequestHandlerPool:
    """All handlers of a request channel.

    Args:
        application: decides.
        committer: makes entries durable.
        sender: sends what a turn released.
        turns: takes note of requests that keep the loop for long.
        timeline: observes, if anybody does.
    """

    def __init__(
        self,
        channel: RequestChannel,
        application: Application,
        committer: Committer,
        sender: ResponseSender,
        turns: LoopTurns,
        timeline: Timeline | None = None,
    ) -> None:
        self._channel = channel
        self._application = application
        self._committer = committer
        self._sender = sender
        self._turns = turns
        self._timeline = timeline
        self._waits_for_commit = committer.batching is Batching.REQUEST
        self._nursery: trio.Nursery | None = None
        self._blocking_works = trio.CapacityLimiter(BLOCKING_WORKS_MAX)
        self._unfinished = UnfinishedRequests(committer, self._run_blocking, self._fail, turns)
        self._handlers = self._idle = self._handled = self._called_back = self._failed = self._works = 0
        self._current: Request | None = None  # what `handle` decides at the moment
        self._surplus = 0
        self._is_in_turn = False

    def observe(self, timeline: Timeline | None) -> None:
        """Report to this timeline, or to nobody, from now on."""
        self._timeline = timeline

    async def run(
        self, handlers_per_queue: int, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> None:
        """Hold the handlers until cancelled."""
        async with trio.open_nursery() as self._nursery:
            try:
                self._start(self._unfinished.run)
                for queue in self._channel.queues:
                    for _ in range(handlers_per_queue):
                        self._start(self._handle_queue, queue)
                task_status.started()
                await trio.sleep_forever()
            finally:
                self._nursery = None

    def _start(self, task: Callable[..., Awaitable[None]], *arguments: Any) -> None:
        """Begin a task, unless all have ended: the last commits are shown after that, and may ask for more."""
        if self._nursery is not None:
            self._nursery.start_soon(task, *arguments)

    def resize_handlers(self, count: int) -> None:
        """Change the number of handlers on a shared queue; surplus ones end after the request at hand."""
        queue = self._channel.queues[0]
        active = self._handlers - self._surplus
        for _ in range(count - active):
            if self._surplus:
                self._surplus -= 1
            else:
                self._start(self._handle_queue, queue)
        if count < active:
            self._surplus += active - count
            queue.wake_handlers()

    def resize_blocking_works(self, count: int) -> None:
        """Change how many threads may do blocking work of parked requests; those at work finish it."""
        self._blocking_works.total_tokens = count

    def resize_queues(self, count: int) -> None:
        """Change the number of queues, each with one handler; requests in flight stay where they are."""
        for queue in self._channel.resize(count):
            self._start(self._handle_queue, queue)

    async def _handle_queue(self, queue: RequestQueue) -> None:
        self._handlers += 1
        try:
            while not queue.is_drained:
                if self._surplus:
                    self._surplus -= 1
                    return
                if not queue.has_work or queue.is_held:
                    self._idle += 1
                    try:
                        await queue.wait_not_empty_once()
                    finally:
                        self._idle -= 1
                    continue
                if self._timeline is not None:
                    self._sample(queue, self._timeline)
                queue.is_due = False
                try:
                    await self._turn(queue)
                except QueueHeldError as held:
                    self._hold(queue, held)
            if queue in self._channel.retired:
                self._channel.forget(queue)
        finally:
            self._handlers -= 1

    async def _turn(self, queue: RequestQueue) -> None:  # noqa: C901, PLR0912 - the loop that every request goes through
        """Handle what waits, at most TURN_MAX callbacks and requests, and let a commit begin."""
        self._is_in_turn = True
        self._sender.begin_burst()
        callbacks, requests = queue.callbacks, queue.requests
        clock = current_clock().current_time  # of virtual time too, in a third of what `trio.current_time` takes
        began = clock()
        latest = began + TURN_SECONDS_MAX
        for _ in range(TURN_MAX):
            if callbacks:
                called = self._call_back(*callbacks.popleft())
                if called is None:
                    continue
                request, result = called
            elif requests:
                request = requests.popleft()
                unsent = request.connection.unsent
                if unsent.must_wait:
                    unsent.defer(request)
                    continue
                result = self._handle(request)
            else:
                break
            connection = request.connection
            if type(result) is Pending:
                if self._waits_for_commit:
                    self._is_in_turn = False
                    queue.room_was_made()
                    await self._commit(request, result)
                    return
                self.settle(request, result)
            else:
                try:
                    connection.complete(request, result)
                except SlotCompletedTwiceError:  # `handle` completed the request itself: the first answer stands
                    self._failed += 1
            ended = clock()
            if ended - began > NOTED_TURN_SECONDS:
                self._turns.note(request.api, ended - began)
            began = ended
            if type(result) is Unfinished or connection.unsent.size_bytes >= TURN_RESPONSE_BYTES_MAX or ended >= latest:
                break
        self._is_in_turn = False
        queue.is_due = queue.has_work
        self._committer.start_commit(self._channel.following)
        queue.room_was_made()
        self._sender.end_burst()
        if queue.is_due:
            await trio.lowlevel.cancel_shielded_checkpoint()

    def _hold(self, queue: RequestQueue, held: QueueHeldError) -> None:
        """End a turn whose last request is not to be started yet; what the turn decided before goes on."""
        request = self._current
        assert request is not None, "only `handle` raises it"
        self._current = None
        self._is_in_turn = False
        self._handled -= 1
        queue.hold(request, functools.partial(self._handle_held, request))
        held.when_over(queue.go_on)
        self._committer.start_commit(self._channel.following)
        queue.room_was_made()
        self._sender.end_burst()

    def _handle_held(self, request: Request) -> Result:
        result = self._handle(request)
        request.decided_ns -= request.handled_ns - request.dequeued_ns  # stamped anew: it counts as no callback
        return result

    @staticmethod
    def _sample(queue: RequestQueue, timeline: Timeline) -> None:
        if timeline.samples_queues:
            timeline.queue_sampled(queue.index, now_ns(), len(queue))

    def _handle(self, request: Request) -> Result:
        if request.enqueued_ns:
            request.dequeued_ns = now_ns()
        self._handled += 1
        self._current = request
        try:
            result = self._application.handle(request)
            if type(result) not in RESULTS:
                raise TypeError(f"the handler returned {result!r}, which is no result")  # noqa: TRY301 - one way to fail
        except QueueHeldError:
            raise  # ends the turn
        except Exception as error:  # noqa: BLE001 - whatever it was, the slot must end
            result = self._fail(request, error)
        self._current = None
        if request.enqueued_ns:
            request.handled_ns = request.decided_ns = now_ns()
        return result

    def _call_back(self, request: Request, callback: Callable[[], Result] | None) -> tuple[Request, Result] | None:
        """Run a callback as `_handle` runs a request; without one start a request that had been deferred."""
        if callback is None:
            deferred = request.connection.take_deferred()
            return None if deferred is None else (deferred, self._handle(deferred))
        began_ns = now_ns()
        self._called_back += 1
        request.has_callback = False
        try:
            result = callback()
            if type(result) not in RESULTS:
                raise TypeError(f"the callback returned {result!r}, which is no result")  # noqa: TRY301 - see _handle
        except Exception as error:
            if type(error) is QueueHeldError and self._current is request:
                raise  # it was held before, and is held again
            result = self._fail(request, error)
        request.decided_ns += now_ns() - began_ns
        return request, result

    def call_back(self, queue: RequestQueue, request: Request, callback: Callable[[], Result]) -> None:
        """See `stages.request.ConnectionHandle.call_back`; `queue` is the one that the request came by."""
        if request is self._current:
            request.complete(callback())
            return
        if request.has_callback:
            raise RuntimeError(f"{request!r} has a callback waiting already")
        request.has_callback = True
        self._channel.put_callback(queue, request, callback)

    def _fail(self, request: Request, error: Exception) -> Result:
        self._failed += 1
        try:
            return self._application.failed(request, error)
        except Exception as problem:
            logger.exception("a request that failed cannot be answered, and its connection is closed")
            return Close(f"handler failed: {problem!r}")

    async def _commit(self, request: Request, pending: Pending) -> None:
        """Commit one request and wait for it."""
        ended = trio.Event()

        def end(submission: Submission, error: BaseException | None) -> None:
            _answer(submission, error)
            ended.set()

        self._committer.submit(
            Submission(
                pending.entries, request=request, result=pending.result, on_durable=pending.on_durable, on_ended=end
            )
        )
        self._committer.start_commit(self._channel.following)
        self._sender.end_burst()
        await ended.wait()

    def settle(self, request: Request, result: Pending | Parked | Unfinished) -> None:
        """Carry out a result that does not end its slot: submit its entries, or have its work done later."""
        if type(result) is Pending:
            answer, apply = result.result, result.on_durable
            self._committer.submit(
                Submission(result.entries, request=request, result=answer, on_durable=apply, on_ended=_answer)
            )
            if not self._is_in_turn:
                self._committer.start_commit()
            return
        if type(result) is Unfinished:
            self._unfinished.add(request, result, starts_commit=not self._is_in_turn)
            return
        assert type(result) is Parked
        if result.work is not None:
            self._run_blocking(result.work, functools.partial(self._end_parked, request, result.then))

    def _end_parked(
        self, request: Request, then: Callable[[Any], Result] | None, value: Any, error: Exception | None
    ) -> None:
        try:
            if error is not None:
                raise error  # noqa: TRY301 - one way to fail
            result: Result = value if then is None else then(value)
        except Exception as problem:  # noqa: BLE001 - see _handle
            result = self._fail(request, problem)
        with suppress(SlotCompletedTwiceError):  # see _answer
            request.connection.complete(request, result)

    def _run_blocking(self, work: Callable[[], Any], done: Callable[[Any, Exception | None], None]) -> None:
        """Run work in a thread; `done` is called on the loop with what it returned, or with its error."""
        self._start(self._work, work, done)

    async def _work(self, work: Callable[[], Any], done: Callable[[Any, Exception | None], None]) -> None:
        value, failure = None, None
        self._works += 1
        try:
            value = await trio.to_thread.run_sync(
                work,
                limiter=self._blocking_works,
                abandon_on_cancel=True,  # work that hangs must not keep a server alive
            )
        except Exception as error:  # noqa: BLE001 - see _handle
            failure = error
        finally:
            self._works -= 1
        try:
            done(value, failure)
        finally:
            del failure  # its traceback has this frame: a cycle that keeps what the work held

    def statistics(self) -> RequestHandlerStatistics:
        return RequestHandlerStatistics(
            handlers=self._handlers,
            idle=self._idle,
            handled=self._handled,
            failed=self._failed,
            blocking_works=self._works,
            called_back=self._called_back,
            unfinished=len(self._unfinished),
        )
