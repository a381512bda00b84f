"""Work in a thread that is ended when it takes too long.

Rules of this file: what is made of a stranger's input by a library can take any time, and a thread cannot be killed.
So an exception is raised in it, which Python code meets at its next step (`PyThreadState_SetAsyncExc`); the thread is
Trio's, so the exception is met before the thread is given back. Code in C is not interrupted: what of it is called
here is fast for what is bounded beforehand.
"""

from __future__ import annotations

import ctypes
import threading
import time
from collections.abc import Callable
from typing import Any, TypeVar

import trio

__all__ = ["TookTooLongError", "run_bounded"]

Result = TypeVar("Result")

MEET_SECONDS_MAX = 5.0
"""How long a thread waits for an exception that is on its way to it."""


class TookTooLongError(Exception):
    """The work was ended."""


class _EndWork(BaseException):
    """Raised in a thread from outside; no library takes it for an error of its own."""


class _Work:
    """One piece of work, ended at most once."""

    def __init__(self, work: Callable[[], Any]) -> None:
        self._work = work
        self._lock = threading.Lock()
        self._thread_id: int | None = None
        self._is_ended = False

    def run(self) -> Any:
        """In the thread."""
        try:
            return self._run()
        except _EndWork:
            raise TookTooLongError from None

    def _run(self) -> Any:
        with self._lock:
            if self._is_ended:
                raise TookTooLongError
            self._thread_id = threading.get_ident()
        try:
            result = self._work()
        except _EndWork:
            raise
        except BaseException:
            self._leave()
            raise
        self._leave()
        return result

    def _leave(self) -> None:
        """Let an exception that is on its way come here, and not into what this thread does next."""
        with self._lock:
            is_on_its_way = self._is_ended
            self._thread_id = None
        deadline = time.monotonic() + MEET_SECONDS_MAX
        while is_on_its_way and time.monotonic() < deadline:
            time.sleep(0.001)

    def end(self) -> None:
        """From another thread, once."""
        with self._lock:
            self._is_ended = True
            if self._thread_id is not None:
                thread_id = ctypes.c_ulong(self._thread_id)
                ctypes.pythonapi.PyThreadState_SetAsyncExc(thread_id, ctypes.py_object(_EndWork))


async def run_bounded(work: Callable[[], Result], seconds_max: float, threads: trio.CapacityLimiter) -> Result:
    """What the work returns, or raises.

    Args:
        seconds_max: of the work, with the wait for a thread.
        threads: in which of them; one that does not end soon keeps its place.

    Raises:
        TookTooLongError: it was ended.
    """
    piece = _Work(work)
    with trio.move_on_after(seconds_max):
        try:
            result: Result = await trio.to_thread.run_sync(piece.run, abandon_on_cancel=True, limiter=threads)
        except trio.Cancelled:
            piece.end()
            raise
        return result
    raise TookTooLongError
