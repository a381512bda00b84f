"""The handlers, which take requests from their queues and let the application decide them.

The application decides each request synchronously, so requests start and are sequenced in the order of their queue. A
handler never waits for a cold read, a throttle or a parked request. In classic mode it waits for its own commit, as in
Apache Kafka. That wait is the only difference between the modes here.

Longer than most files: turns, callbacks and work in threads share the same counters.

Counterpart in Kafka: `KafkaRequestHandler`, `KafkaRequestHandlerPool`; tasks on one event loop; a long request
continues in later turns (`unfinished.py`).
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, NamedTuple, NoReturn, Protocol

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
"""Requests and callbacks in one turn of a handler, at most."""
TURN_RESPONSE_BYTES_MAX: Final = 1 << 20
"""Unsent bytes of a connection that end a handler's turn, because its next response is probably large, too."""
BLOCKING_WORKS_MAX: Final = 16
"""Threads for the blocking work of parked requests (cold reads)."""


def _answer(submission: Submission, error: BaseException | None) -> None:
    """Complete the slot of a submission, or close its connection with the error if the entries are not durable."""
    request, result = submission.request, submission.result
    assert request is not None
    assert result is not None
    if error is not None:
        result = Close(f"not durable: {error}")
    try:  # noqa: SIM105 - `suppress` would cost each request more than the rest of this function
        request.connection.complete(request, result)
    except SlotCompletedTwiceError:  # the application has completed it: the first result stands
        pass


class Application(Protocol):
    """The application of a server, which decides requests synchronously on the event loop."""

    def handle(self, request: Request) -> Result:
        """Return the result of a request; on any exception but QueueHeldError, `failed` decides."""

    def failed(self, request: Request, error: Exception) -> Result:
        """Return the result of a request whose `handle`, callback, steps or parked work raised `error`."""

    def connection_closed(self, session: object) -> None:
        """Forget the parked requests of a closed connection; called only if it has a session."""


class RequestHandlerStatistics(NamedTuple):
    """Statistics of a handler pool.

    Attributes:
        handlers: number of handler tasks.
        idle: handlers that wait for a request.
        handled: requests handled so far.
        called_back: callbacks run so far.
        failed: requests and callbacks that raised.
        blocking_works: parked requests whose work runs in a thread or waits for one.
        unfinished: unfinished requests at work.
    """

    handlers: int
    idle: int
    handled: int
    failed: int
    blocking_works: int
    called_back: int = 0
    unfinished: int = 0


class RequestHandlerPool:
    """The handlers of a request channel: M on a shared queue, or one for each queue.

    If the application raises, or returns a value that is not a result, `Application.failed` decides the request. If
    that raises, too, the connection is closed. So a bug leaves no slot open.

    Args:
        application: decides requests.
        committer: makes entries durable.
        sender: sends the responses that a turn has released.
        turns: records requests that block the event loop for long.
        timeline: observer of the server, if any.
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
        self._current: Request | None = None  # the request that `handle` is deciding
        self._surplus = 0
        self._is_in_turn = False

    def observe(self, timeline: Timeline | None) -> None:
        self._timeline = timeline

    async def run(
        self, handlers_per_queue: int, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> None:
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
        """Start a task, unless the pool has ended: the last commits complete later and may request further tasks."""
        if self._nursery is not None:
            self._nursery.start_soon(task, *arguments)

    def resize_handlers(self, count: int) -> None:
        """Change the number of handlers of the shared queue; surplus ones end after their current turn."""
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
        """Change the number of threads for blocking work of parked requests; running work finishes."""
        self._blocking_works.total_tokens = count

    def resize_queues(self, count: int) -> None:
        """Change the number of queues, each with one handler; requests in flight stay in their queue."""
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
                        await queue.wait_for_work()
                    finally:
                        self._idle -= 1
                    continue
                if self._timeline is not None:
                    self._sample(queue, self._timeline)
                queue.is_scheduled = False
                try:
                    await self._turn(queue)
                except QueueHeldError as held:
                    self._hold(queue, held)
            if queue in self._channel.retired:
                self._channel.forget(queue)
        finally:
            self._handlers -= 1

    async def _turn(self, queue: RequestQueue) -> None:  # noqa: C901, PLR0912 - the loop that every request passes
        self._is_in_turn = True
        self._sender.begin_burst()
        callbacks, requests = queue.callbacks, queue.requests
        clock = current_clock().current_time  # `trio.current_time` takes three times as long
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
                # A connection whose client reads no responses would otherwise get one response of any size for each
                # request in flight.
                if unsent.must_wait:
                    unsent.defer(request)
                    continue
                result = self._handle(request)
            else:
                break
            connection = request.connection
            if type(result) is Pending:
                # Classic mode: the handler waits for the commit of this request, and its turn ends.
                if self._waits_for_commit:
                    self._is_in_turn = False
                    queue.resume_waiters()
                    await self._commit(request, result)
                    return
                self.settle(request, result)
            else:
                try:
                    connection.complete(request, result)
                except SlotCompletedTwiceError:  # `handle` completed the request itself: the first result stands
                    self._failed += 1
            ended = clock()
            if ended - began > NOTED_TURN_SECONDS:
                self._turns.note(request.api, ended - began)
            began = ended
            # An unfinished request has used up a turn, and its later steps run in a task of their own.
            if type(result) is Unfinished or connection.unsent.size_bytes >= TURN_RESPONSE_BYTES_MAX or ended >= latest:
                break
        self._is_in_turn = False
        queue.is_scheduled = queue.has_work
        # After the whole turn: one commit for a burst of requests, not one for each.
        self._committer.start_commit(self._channel.following)
        queue.resume_waiters()
        self._sender.end_burst()
        if queue.is_scheduled:
            await trio.lowlevel.cancel_shielded_checkpoint()

    def _hold(self, queue: RequestQueue, held: QueueHeldError) -> None:
        """Hold a queue and end its turn; all but the last request of the turn take effect."""
        request = self._current
        assert request is not None, "only `handle` raises it"
        self._current = None
        self._is_in_turn = False
        self._handled -= 1
        queue.hold(request, functools.partial(self._handle_held, request))
        held.when_over(queue.go_on)
        self._committer.start_commit(self._channel.following)
        queue.resume_waiters()
        self._sender.end_burst()

    def _handle_held(self, request: Request) -> Result:
        result = self._handle(request)
        # `_handle` has set new stamps, so this is not the time of a callback.
        request.decided_ns -= request.handled_ns - request.dequeued_ns
        return result

    @staticmethod
    def _sample(queue: RequestQueue, timeline: Timeline) -> None:
        if timeline.samples_queues:
            timeline.queue_sampled(queue.index, now_ns(), len(queue))

    def _handle(self, request: Request) -> Result:
        if request.enqueued_ns:
            request.dequeued_ns = now_ns()
        self._handled += 1
        # `call_back` compares with it: a callback posted by `handle` itself runs immediately.
        self._current = request
        try:
            result = self._application.handle(request)
            if type(result) not in RESULTS:
                _refuse("handler", result)
        except QueueHeldError:
            raise  # ends the turn
        except Exception as error:  # noqa: BLE001 - the slot must end after any error
            result = self._fail(request, error)
        self._current = None
        if request.enqueued_ns:
            request.handled_ns = request.decided_ns = now_ns()
        return result

    def _call_back(self, request: Request, callback: Callable[[], Result] | None) -> tuple[Request, Result] | None:
        """Run a callback as `_handle` runs a request; None starts a deferred request.

        Returns:
            the request and its result; None if no deferred request may start.
        """
        if callback is None:
            deferred = request.connection.take_deferred()
            return None if deferred is None else (deferred, self._handle(deferred))
        began_ns = now_ns()
        self._called_back += 1
        request.has_callback = False
        try:
            result = callback()
            if type(result) not in RESULTS:
                _refuse("callback", result)
        except Exception as error:
            if type(error) is QueueHeldError and self._current is request:
                raise  # a request that was held is held again
            result = self._fail(request, error)
        request.decided_ns += now_ns() - began_ns
        return request, result

    def call_back(self, queue: RequestQueue, request: Request, callback: Callable[[], Result]) -> None:
        """Queue a callback; see `stages.request.ConnectionHandle.call_back`.

        Args:
            queue: queue of the request.

        Raises:
            RuntimeError: if the request already has a waiting callback.
        """
        if request is self._current:
            request.complete(callback())
            return
        # One callback per request, so callbacks are bounded by the requests in flight.
        if request.has_callback:
            raise RuntimeError(f"{request!r} already has a waiting callback: wait until that has run")
        request.has_callback = True
        self._channel.put_callback(queue, request, callback)

    def _fail(self, request: Request, error: Exception) -> Result:
        self._failed += 1
        try:
            return self._application.failed(request, error)
        except Exception as problem:
            logger.exception("the application could not answer a failed request, so its connection is closed")
            return Close(f"handler failed: {problem!r}")

    async def _commit(self, request: Request, pending: Pending) -> None:
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
        """Carry out a result that leaves its slot open: submit its entries, or run its work later."""
        if type(result) is Pending:
            answer, apply = result.result, result.on_durable
            self._committer.submit(
                Submission(result.entries, request=request, result=answer, on_durable=apply, on_ended=_answer)
            )
            # Within a turn, `_turn` starts the commit at its end.
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
                raise error  # noqa: TRY301 - handled below
            result: Result = value if then is None else then(value)
        except Exception as problem:  # noqa: BLE001 - see _handle
            result = self._fail(request, problem)
        with suppress(SlotCompletedTwiceError):  # see _answer
            request.connection.complete(request, result)

    def _run_blocking(self, work: Callable[[], Any], done: Callable[[Any, Exception | None], None]) -> None:
        """Run work in a thread, and call `done` on the event loop with its return value or its error."""
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
            del failure  # its traceback refers to this frame: the cycle would keep objects of the work alive

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


def _refuse(name: str, result: object) -> NoReturn:
    raise TypeError(f"the {name} returned {result!r}, which is not a result")
