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

MEETINGS, MEETING_SECONDS = 5, 0.001
"""How often a thread at the end of its work looks for an exception that is on its way: it is met where the thread gets
the interpreter again."""
AGAIN_SECONDS = 0.1
"""Between two exceptions for the same work: one that is met in a finalizer is printed there, and lost."""
AGAIN_SECONDS_MAX = 600.0


class TookTooLongError(Exception):
    """The work was ended."""


class _EndWork(BaseException):
    """Raised in a thread from outside; no library takes it for an error of its own."""


class _Work:
    """One piece of work, and its end before its time."""

    def __init__(self, work: Callable[[], Any]) -> None:
        self._work = work
        self._lock = threading.Lock()
        self._thread_id: int | None = None
        self._is_ended = False

    def run(self) -> Any:
        """In the thread."""
        with self._lock:
            if self._is_ended:
                raise TookTooLongError
            self._thread_id = threading.get_ident()
        try:
            try:
                return self._work()
            finally:
                self._leave()
        except _EndWork:
            self._leave()
            raise TookTooLongError from None

    def _leave(self) -> None:
        """Let an exception that is on its way come here, and not into what this thread does next."""
        while True:
            try:
                with self._lock:
                    self._thread_id = None
                for _ in range(MEETINGS if self._is_ended else 0):
                    time.sleep(MEETING_SECONDS)
            except _EndWork:
                continue
            return

    def end(self) -> bool:
        """From another thread; whether the work is going on, and has to be ended again if it does not notice."""
        with self._lock:
            self._is_ended = True
            if self._thread_id is None:
                return False
            ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(self._thread_id), ctypes.py_object(_EndWork))
            return True

    def end_at_last(self) -> None:
        """The same again until it is over, in a thread: the loop may end before the work does."""
        deadline = time.monotonic() + AGAIN_SECONDS_MAX
        while time.monotonic() < deadline:
            time.sleep(AGAIN_SECONDS)
            if not self.end():
                return


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
            if piece.end():
                threading.Thread(target=piece.end_at_last, name="end of work", daemon=True).start()
            raise
        return result
    raise TookTooLongError
