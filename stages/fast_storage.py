"""Notices that storage is so fast that a commit costs less on the event loop than its hand-over to a thread.

Rules of this file: it looks at how long commits took and knows nothing else. A thread and the event loop wait for each
other's hold of Python's lock, several times for a commit, which takes longer than a fast disk's sync; so such a commit
runs on the loop, and everything else waits for that sync. What a thread measures has those waits in it, three times the
sync where the loop is busy; so a commit on the loop is tried where the sync may be fast, and decides.
"""

from __future__ import annotations

from collections import deque
from typing import Final

__all__ = ["FastStorage"]

COMMITS_LOOKED_AT: Final = 8
THREAD_NS_MAX: Final = 1_000_000
"""The fastest of so many commits by threads took no longer: the next one runs on the loop."""
LOOP_NS_MAX: Final = 200_000
"""The first commit on the loop, or each of so many, took longer: the next ones run in a thread.

With a sync of 0.1 ms the loop has 1.12 times the rate of threads with 16 connections and 16 requests in flight on each,
with 0.16 ms 1.07, with 0.25 ms 1.03, with 0.4 ms 0.93 (`benchmarks/bench_modes.py`, pure, 2026-11-27).
"""
PAUSE_NS: Final = 1_000_000
"""One commit on the loop took longer: so do the next ones, perhaps, and threads wait for them."""


class FastStorage:
    """See the rules of the file.

    Attributes:
        is_fast: whether the next commit is to run on the loop.
    """

    __slots__ = ("_durations_ns", "is_fast")

    def __init__(self) -> None:
        self.is_fast = False
        self._durations_ns: deque[int] = deque(maxlen=COMMITS_LOOKED_AT)

    def commit_ended(self, duration_ns: int, *, was_on_loop: bool) -> None:
        """Take note of a commit that ended well, from its begin until it was durable."""
        if was_on_loop is not self.is_fast:  # begun before the last change
            return
        durations_ns = self._durations_ns
        durations_ns.append(duration_ns)
        if was_on_loop and duration_ns > PAUSE_NS:
            self._change()
        elif was_on_loop:
            if min(durations_ns) > LOOP_NS_MAX:
                self._change()
        elif len(durations_ns) == COMMITS_LOOKED_AT and min(durations_ns) <= THREAD_NS_MAX:
            self._change()

    def _change(self) -> None:
        self.is_fast = not self.is_fast
        self._durations_ns.clear()
