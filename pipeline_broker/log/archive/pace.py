"""Cooperative pauses for background threads, so that the event loop gets the interpreter (GIL) often."""

import time
from collections.abc import Callable

__all__ = ["Pace"]

WORK_NS = 300_000  # far less than the 5 ms after which Python would switch threads by itself
PAUSE_SECONDS = 0.0001


class Pace:
    """A callable that pauses the thread after 0.3 ms of work. Call it between two small pieces of work.

    Python takes the interpreter from a busy thread after 5 ms at the earliest. An event loop with thousands of small
    things to do must not wait that long for each. Only the thread's own processor time counts as work: while it waits
    for a disk, a store or the interpreter, other threads run anyway.

    Args:
        check: called about as often as a pause is possible. An exception from it ends the work.
    """

    __slots__ = ("_check", "_looked_ns", "_worked_ns")

    def __init__(self, check: Callable[[], object] = lambda: None) -> None:
        self._check = check
        self._looked_ns, self._worked_ns = time.monotonic_ns(), time.thread_time_ns()

    def __call__(self) -> None:
        if time.monotonic_ns() - self._looked_ns > WORK_NS:
            if time.thread_time_ns() - self._worked_ns > WORK_NS:
                time.sleep(PAUSE_SECONDS)
                self._worked_ns = time.thread_time_ns()
            self._check()
            self._looked_ns = time.monotonic_ns()
