"""Work in a thread that leaves the interpreter to the event loop every now and then.

Rules of this file: Python gives the interpreter away after 5 ms of work at the earliest, and then to whoever waits. An
event loop that has thousands of small things to do must not wait that long for each of them, so work that nobody waits
for pauses by itself, for a moment that is long enough for others to take over. While it waits, for a disk, a store or
the interpreter itself, others have that, so only the time of its own thread counts.
"""

import time
from collections.abc import Callable

__all__ = ["Pace"]

WORK_NS = 300_000
PAUSE_SECONDS = 0.0001


class Pace:
    """Call it between two small pieces of work.

    Args:
        check: called about as often as there may be a pause; what it raises ends the work.
    """

    __slots__ = ("_check", "_looked_ns", "_worked_ns")

    def __init__(self, check: Callable[[], object] = lambda: None) -> None:
        self._check = check
        self._looked_ns, self._worked_ns = time.monotonic_ns(), time.thread_time_ns()

    def __call__(self) -> None:
        """Pause when it is time."""
        if time.monotonic_ns() - self._looked_ns > WORK_NS:
            if time.thread_time_ns() - self._worked_ns > WORK_NS:
                time.sleep(PAUSE_SECONDS)
                self._worked_ns = time.thread_time_ns()
            self._check()
            self._looked_ns = time.monotonic_ns()
