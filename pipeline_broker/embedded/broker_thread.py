"""A background thread with its own Trio event loop, called from other threads."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import CancelledError, Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from typing import Any, TypeVar

import trio

from pipeline_broker.base.first_cause import first_cause

__all__ = ["BrokerThread", "ThreadEndedError"]

Result = TypeVar("Result")

START_SECONDS_MAX = 60.0
# The loop answers within milliseconds unless it is blocked.
CALL_SECONDS_MAX = 60.0
END_SECONDS_MAX = 10.0


class ThreadEndedError(Exception):
    """The event loop has ended, or does not answer."""


class BrokerThread:
    """A daemon thread whose event loop runs `main` and coroutines for other threads.

    A caller that stops waiting cancels its coroutine.

    Args:
        main: runs until the thread should end. Other threads can call once it reports `task_status.started()`.
    """

    def __init__(
        self,
        name: str,
        main: Callable[..., Awaitable[None]],  # with `task_status`, for `Nursery.start`
    ) -> None:
        self._main = main
        # A daemon, so that a program that never closes the broker still ends.
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._begun: Future[None] = Future()
        self._token: trio.lowlevel.TrioToken | None = None
        self._nursery: trio.Nursery | None = None
        self._failure: BaseException | None = None
        self._has_ended = threading.Event()

    def start(self) -> None:
        """Start the thread, and return once `main` has started.

        Raises any exception of `main` before that, and TimeoutError after START_SECONDS_MAX seconds.
        """
        self._thread.start()
        self._begun.result(START_SECONDS_MAX)

    @property
    def is_current(self) -> bool:
        return threading.current_thread() is self._thread

    @property
    def has_ended(self) -> bool:
        return self._has_ended.is_set()

    def call(self, function: Callable[[], Awaitable[Result]], own_seconds: float = 0) -> Result:
        """Run an async function on the event loop, and return its result or raise its exception.

        Args:
            own_seconds: the time that the function may wait by itself, in addition to CALL_SECONDS_MAX.

        Raises:
            ThreadEndedError: the loop has ended, or the function did not return in time.
        """
        try:
            future = self.submit(function)
        except ThreadEndedError:
            self._has_ended.wait(END_SECONDS_MAX)
            raise self._ended() from None
        try:
            return future.result(own_seconds + CALL_SECONDS_MAX)
        except ThreadEndedError:
            # The call is cancelled before the loop records its failure: wait for the cause.
            self._has_ended.wait(END_SECONDS_MAX)
            raise self._ended() from None
        except FutureTimeoutError:
            if future.done():  # raised by the function itself
                raise
            # The caller stops waiting, so its function must stop too.
            future.cancel()
            raise ThreadEndedError(
                f"the broker did not answer within {own_seconds + CALL_SECONDS_MAX:g} s; its event loop may be blocked"
            ) from None
        except BaseException:
            future.cancel()
            raise

    def submit(self, function: Callable[[], Awaitable[Result]]) -> Future[Result]:
        """Start an async function on the event loop. Cancelling the future cancels the function.

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
            return ThreadEndedError("the broker has ended; start another one")
        return ThreadEndedError(f"the broker failed: {first_cause(self._failure)}")

    def _begin(self, function: Callable[[], Awaitable[Any]], future: Future[Any]) -> None:
        # The loop can end after `submit` has checked it.
        if self._nursery is None:
            _settle(future, error=self._ended())
        else:
            self._nursery.start_soon(self._work, function, future)

    async def _work(self, function: Callable[[], Awaitable[Any]], future: Future[Any]) -> None:
        token = trio.lowlevel.current_trio_token()
        with trio.CancelScope() as scope:

            def cancel_when_cancelled(_: Future[Any]) -> None:
                # Called on the thread that cancels the future: enter the event loop by its token.
                if future.cancelled():
                    with contextlib.suppress(trio.RunFinishedError):
                        token.run_sync_soon(scope.cancel)

            future.add_done_callback(cancel_when_cancelled)
            try:
                result = await function()
            except trio.Cancelled:
                _settle(future, error=self._ended())
                raise
            except Exception as error:  # noqa: BLE001 - passed to the caller
                _settle(future, error=error)
            else:
                _settle(future, result)

    def join(self) -> None:
        self._thread.join(END_SECONDS_MAX)

    def _run(self) -> None:
        try:
            trio.run(self._serve)
        except BaseException as error:  # noqa: BLE001 - no caller on this thread; the next call raises it
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
            # Reject new calls before those in progress are cancelled.
            self._nursery = None
            scope.cancel()


def _settle(future: Future[Any], result: Any = None, error: BaseException | None = None) -> None:
    try:
        # The caller has stopped waiting, or stops at this moment.
        if not future.set_running_or_notify_cancel():
            return
    except CancelledError:
        return
    if error is None:
        future.set_result(result)
    else:
        future.set_exception(error)
