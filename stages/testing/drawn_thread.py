"""A thread that runs only while the event loop waits for it.

Rules of this file: it is a thread of the system only to have a stack of its own, so that what blocks can be paused in
the middle. One runs at a time, from a `step` to its next pause; who steps which one, and when, is drawn elsewhere.
"""

import threading
from collections.abc import Callable
from typing import Any

__all__ = ["DrawnThread", "StoppedError"]


class StoppedError(BaseException):
    """The executor has stopped: a thread ends where it is, and does nothing more."""


class DrawnThread:
    """See the rules of the file.

    Args:
        work: what it does; called with it.

    Attributes:
        seconds: to wait before its next step.
        is_over: it has ended.
    """

    def __init__(self, work: Callable[["DrawnThread"], None]) -> None:
        self.seconds = 0.0
        self.is_over = False
        self._is_stopped = False
        self._work = work
        self._go, self._paused = threading.Lock(), threading.Lock()  # each is released when the other side may go on
        self._go.acquire()
        self._paused.acquire()
        self._call: Callable[[], Any] | None = None
        self._result: Any = None
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="drawn-thread", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        self._go.acquire()
        try:
            if not self._is_stopped:
                self._work(self)
        except StoppedError:
            pass
        except BaseException as error:  # noqa: BLE001 - it is raised where the loop waits
            self._error = error
        self.is_over = True
        self._paused.release()

    # On the loop

    def step(self) -> None:
        """Let it run until it pauses, or ends; raises what it raised."""
        self._resume()
        while self._call is not None:
            call, self._call, self._result = self._call, None, None
            try:
                self._result = call()
            except BaseException as error:  # noqa: BLE001 - it is raised in the thread
                self._error = error
            self._resume()
        if self.is_over:
            self._thread.join()
            if self._error is not None:
                raise self._error

    def _resume(self) -> None:
        self._go.release()
        self._paused.acquire()

    def stop(self) -> None:
        """Have it end where it is."""
        self._is_stopped = True
        while not self.is_over:
            self._resume()
        self._thread.join()

    # In the thread

    def pause(self, seconds: float = 0.0) -> None:
        """Let the loop and others run, for so long in virtual time at least."""
        self.seconds = seconds
        self._paused.release()
        self._go.acquire()
        if self._is_stopped:
            raise StoppedError

    def call(self, work: Callable[[], Any]) -> Any:
        """Have the loop do something, which waits here."""
        self._call = work
        self._paused.release()
        self._go.acquire()
        if self._is_stopped:
            raise StoppedError
        error, self._error = self._error, None
        if error is not None:
            raise error
        return self._result
