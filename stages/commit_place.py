"""Where the next commit runs: on the event loop or in a thread, and what a commit on the loop waits for.

Rules of this file: pure; it looks at commits that ended, and at how much waits. A thread and the event loop wait for
each other's hold of Python's lock, several times for a commit, which takes longer than a fast disk's sync; so such a
commit runs on the loop, and everything else waits for that sync. What a thread measures has those waits in it, three
times the sync where the loop is busy; so a commit on the loop is tried where the sync may be fast, and decides.

A group commit on the loop waits until the handlers have handled what waits, so that all share its sync. A commit per
request runs there if others were alone too: else a thread hands over some at once.
"""

from __future__ import annotations

from collections import deque
from typing import Final

from stages.mode import Batching, CommitOn

__all__ = ["CommitPlace"]

COMMITS_LOOKED_AT: Final = 8
THREAD_NS_MAX: Final = 1_000_000
"""The fastest of so many commits by threads took no longer: the next one runs on the loop."""
LOOP_NS_MAX: Final = 200_000
"""The first commit on the loop, or each of so many, took longer: the next ones run in a thread.

With a sync of 0.1 ms the loop has 1.12 times the rate of threads with 16 connections and 16 requests in flight on each,
with 0.16 ms 1.07, with 0.25 ms 1.03, with 0.4 ms 0.93 (see docs/performance.md, 2026-11-27).
"""
PAUSE_NS: Final = 1_000_000
"""One commit on the loop took longer: so do the next ones, perhaps, and threads wait for them."""
GATHERED_TURNS_MAX: Final = 8
"""Turns of handlers that a group commit on the loop waits for."""
ALONE_REQUESTS_MAX: Final = 32
"""A single connection with more in flight sends some while others are synced: threads have 1.02 to 1.07 of the rate."""
ALONE_COMMITS_MIN: Final = 16
"""So many commits per request in a row have found no other: the next one will not keep others either."""


class CommitPlace:
    """See the rules of the file.

    Args:
        batching: what one commit holds.
        commit_on: what runs a commit; not AUTO: whatever was measured.

    Attributes:
        suits_loop: what waited when `must_gather` was asked last is to be committed on the loop.
    """

    __slots__ = (
        "_alone_commits",
        "_commit_on",
        "_durations_ns",
        "_gathered_turns",
        "_is_busy_alone",
        "_is_fast",
        "_is_group",
        "suits_loop",
    )

    def __init__(self, batching: Batching, commit_on: CommitOn = CommitOn.AUTO) -> None:
        self._commit_on = commit_on
        self._is_group = batching is Batching.GROUP
        self._is_fast = False
        self._durations_ns: deque[int] = deque(maxlen=COMMITS_LOOKED_AT)  # of commits where they run now
        self._is_busy_alone = False  # a single connection has more than ALONE_REQUESTS_MAX in flight
        self._alone_commits = self._gathered_turns = 0
        self.suits_loop = False

    def must_gather(self, waiting: int, following: int, *, is_in_flight: bool, is_synced: bool = True) -> bool:
        """Decide where the next commit runs.

        Args:
            waiting: submissions that it could take.
            following: requests that are about to be handled.
            is_in_flight: whether a commit has not ended yet.
            is_synced: whether storage syncs what is written; where it does not, every commit suits the loop.

        Returns:
            whether it is not to begin before more is handled; False after some turns in any case.
        """
        is_alone = waiting == 1 and not following and not is_in_flight
        self._alone_commits = self._alone_commits + 1 if is_alone else 0
        can_share = not self._is_busy_alone if self._is_group else self._alone_commits >= ALONE_COMMITS_MIN
        self.suits_loop = not is_synced or (self._is_fast and can_share)
        if self._commit_on is not CommitOn.AUTO:
            self.suits_loop = self._commit_on is CommitOn.LOOP
        if following and self._is_group and self.suits_loop and not is_in_flight:
            self._gathered_turns += 1
            if self._gathered_turns <= GATHERED_TURNS_MAX:
                return True
        self._gathered_turns = 0
        return False

    def commit_ended(self, duration_ns: int, *, was_on_loop: bool, alone_requests: int) -> None:
        """Take note of a commit that ended well.

        Args:
            duration_ns: from its begin until it was durable.
            alone_requests: how many requests it held, of a single connection; 0 where of several.
        """
        self._is_busy_alone = alone_requests > ALONE_REQUESTS_MAX
        if was_on_loop is not self._is_fast:  # it began before the last change
            return
        durations_ns = self._durations_ns
        durations_ns.append(duration_ns)
        if self._is_fast:
            if duration_ns > PAUSE_NS or min(durations_ns) > LOOP_NS_MAX:
                self._change()
        elif len(durations_ns) == COMMITS_LOOKED_AT and min(durations_ns) <= THREAD_NS_MAX:
            self._change()

    def _change(self) -> None:
        self._is_fast = not self._is_fast
        self._durations_ns.clear()
