"""The thread of an embedded broker, with an event loop of its own.

Rules of this file: it knows nothing of Kafka. Other threads call into the loop and wait, or get a future; what they
wait for has a deadline of its own. Whoever ends waiting cancels what it waited for.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import CancelledError, Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from typing import Any, TypeVar

import trio

from pipeline_broker.first_cause import first_cause

__all__ = ["BrokerThread", "ThreadEndedError"]

Result = TypeVar("Result")

START_SECONDS_MAX = 60.0
CALL_SECONDS_MAX = 60.0
"""How long a thread waits for the loop, which takes milliseconds unless something is wrong."""
END_SECONDS_MAX = 10.0


class ThreadEndedError(Exception):
    """The loop has ended, or does not answer, and nothing can be asked of it any more."""


class BrokerThread:
    """See above.

    Args:
        name: of the thread.
        main: runs in a nursery of the loop until it is told to end; started when others may call.
    """

    def __init__(
        self,
        name: str,
        main: Callable[..., Awaitable[None]],  # with `task_status`, as `Nursery.start` wants it
    ) -> None:
        self._main = main
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._begun: Future[None] = Future()
        self._token: trio.lowlevel.TrioToken | None = None
        self._nursery: trio.Nursery | None = None
        self._failure: BaseException | None = None
        self._has_ended = threading.Event()

    def start(self) -> None:
        """Start the loop; returns when `main` says that it has begun, and raises what it raises before."""
        self._thread.start()
        self._begun.result(START_SECONDS_MAX)

    @property
    def is_current(self) -> bool:
        """Whether this is called from the thread itself."""
        return threading.current_thread() is self._thread

    @property
    def has_ended(self) -> bool:
        """Whether the loop has ended, of itself or by an error."""
        return self._has_ended.is_set()

    def call(self, function: Callable[[], Awaitable[Result]], own_seconds: float = 0) -> Result:
        """Run an async function on the loop and wait for what it returns.

        Args:
            function: what is run.
            own_seconds: how long it may wait by itself, on top of CALL_SECONDS_MAX.
        """
        try:
            future = self.submit(function)
        except ThreadEndedError:
            self._has_ended.wait(END_SECONDS_MAX)
            raise self._ended() from None
        try:
            return future.result(own_seconds + CALL_SECONDS_MAX)
        except ThreadEndedError:  # by now it may be known why
            self._has_ended.wait(END_SECONDS_MAX)
            raise self._ended() from None
        except FutureTimeoutError:
            if future.done():  # the function's own
                raise
            future.cancel()
            raise ThreadEndedError(f"the broker has not answered for {own_seconds + CALL_SECONDS_MAX:g} s") from None
        except BaseException:
            future.cancel()
            raise

    def submit(self, function: Callable[[], Awaitable[Result]]) -> Future[Result]:
        """Begin to run an async function on the loop; cancelling the future cancels it.

        Raises:
            ThreadEndedError: the loop has ended.
        """
        future: Future[Result] = Future()
        if self._token is None or self._has_ended.is_set():
            raise self._ended()
        try:
            self._token.run_sync_soon(self._begin, function, future)
        except trio.RunFinishedError:
            raise self._ended() from None
        return future

    def _ended(self) -> ThreadEndedError:
        if self._failure is None:
            return ThreadEndedError("the broker has ended")
        return ThreadEndedError(f"the broker failed: {first_cause(self._failure)}")

    def _begin(self, function: Callable[[], Awaitable[Any]], future: Future[Any]) -> None:
        """On the loop."""
        if self._nursery is None:
            _settle(future, error=self._ended())
        else:
            self._nursery.start_soon(self._work, function, future)

    async def _work(self, function: Callable[[], Awaitable[Any]], future: Future[Any]) -> None:
        token = trio.lowlevel.current_trio_token()
        with trio.CancelScope() as scope:

            def cancel_when_cancelled(_: Future[Any]) -> None:
                if future.cancelled():
                    with contextlib.suppress(trio.RunFinishedError):
                        token.run_sync_soon(scope.cancel)

            future.add_done_callback(cancel_when_cancelled)
            try:
                result = await function()
            except trio.Cancelled:
                _settle(future, error=self._ended())
                raise
            except Exception as error:  # noqa: BLE001 - whoever asked gets it
                _settle(future, error=error)
            else:
                _settle(future, result)

    def join(self) -> None:
        """Wait for the end of the thread, at most END_SECONDS_MAX."""
        self._thread.join(END_SECONDS_MAX)

    def _run(self) -> None:
        try:
            trio.run(self._serve)
        except BaseException as error:  # noqa: BLE001 - nobody above could take it; who calls next is told
            self._failure = error
            if not self._begun.done():
                self._begun.set_exception(first_cause(error))
        finally:
            self._has_ended.set()

    async def _serve(self) -> None:
        self._token = trio.lowlevel.current_trio_token()
        async with trio.open_nursery() as nursery:
            await nursery.start(self._main_of, nursery.cancel_scope)
            self._nursery = nursery
            self._begun.set_result(None)

    async def _main_of(
        self, scope: trio.CancelScope, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> None:
        try:
            await self._main(task_status=task_status)
        finally:
            self._nursery = None
            scope.cancel()


def _settle(future: Future[Any], result: Any = None, error: BaseException | None = None) -> None:
    """Give a future its result, unless its caller has gone."""
    try:
        if not future.set_running_or_notify_cancel():
            return
    except CancelledError:
        return
    if error is None:
        future.set_result(result)
    else:
        future.set_exception(error)
