"""A thread that runs only while the event loop waits for it."""

import threading
from collections.abc import Callable
from typing import Any

__all__ = ["DrawnThread", "StoppedError"]


class StoppedError(BaseException):
    """Raised in a thread that must end because its executor has stopped."""


class DrawnThread:
    """A thread that runs from one `step` to its next pause.

    It is a system thread only to have a stack of its own, so that blocking code can be paused anywhere. One runs at a
    time; the caller of `step` decides which and when.

    Args:
        work: called with this object in the thread.

    Attributes:
        seconds: virtual time to wait before the next step.
        is_over: whether the thread has ended.
    """

    def __init__(self, work: Callable[["DrawnThread"], None]) -> None:
        self.seconds = 0.0
        self.is_over = False
        self._is_stopped = False
        self._work = work
        self._go, self._paused = threading.Lock(), threading.Lock()  # released to let the other side continue
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
        except BaseException as error:  # noqa: BLE001 - raised in `step`
            self._error = error
        self.is_over = True
        self._paused.release()

    # On the event loop

    def step(self) -> None:
        """Run the thread, and the calls that it requests, until it pauses or ends.

        Raises the exception that ended the thread.
        """
        self._resume()
        while self._call is not None:
            call, self._call, self._result = self._call, None, None
            try:
                self._result = call()
            except BaseException as error:  # noqa: BLE001 - raised in the thread
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
        self._is_stopped = True
        while not self.is_over:
            self._resume()
        self._thread.join()

    # In the thread

    def pause(self, seconds: float = 0.0) -> None:
        """Let the event loop and other threads run, for at least `seconds` of virtual time.

        Raises:
            StoppedError: if the thread must end.
        """
        self.seconds = seconds
        self._paused.release()
        self._go.acquire()
        if self._is_stopped:
            raise StoppedError

    def call(self, work: Callable[[], Any]) -> Any:
        """Run `work` on the event loop, and return its result or raise its exception.

        Raises:
            StoppedError: if the thread must end.
        """
        self._call = work
        self._paused.release()
        self._go.acquire()
        if self._is_stopped:
            raise StoppedError
        error, self._error = self._error, None
        if error is not None:
            raise error
        return self._result
