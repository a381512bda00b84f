"""The choice between the event loop and a thread for the next commit.

A commit in a thread hands Python's lock back and forth several times. On a fast disk that takes longer than the sync,
so the commit runs on the event loop, and everything else waits for the sync.
"""

from __future__ import annotations

from collections import deque
from typing import Final

from stages.mode import Batching, CommitOn

__all__ = ["CommitPlace"]

COMMITS_MEASURED: Final = 8
# A thread's time includes its waits for Python's lock, three times the sync when the loop is busy. So this bound is
# generous: it only decides to try the loop, whose own times then decide.
THREAD_NS_MAX: Final = 1_000_000
"""The next commit runs on the loop if the fastest of the last COMMITS_MEASURED in threads took at most this."""
LOOP_NS_MAX: Final = 200_000
"""Commits move to threads if the first commit on the loop, or each of the last COMMITS_MEASURED, took longer.

Rate of the loop in rates of threads, by sync time: 1.12 with 0.1 ms, 1.07 with 0.16 ms, 1.03 with 0.25 ms, 0.93 with
0.4 ms. Measured with 16 connections and 16 requests in flight on each (2026-11-27).
"""
PAUSE_NS: Final = 1_000_000
"""Commits move to threads after a single commit on the loop that took longer, because the next ones may too."""
GATHERED_TURNS_MAX: Final = 8
"""Turns of handlers that a group commit on the loop waits for, so that their entries share its sync."""
ALONE_REQUESTS_MAX: Final = 32
"""A single connection with more requests in flight sends some of them during a sync. Threads then reach 1.02 to 1.07
times the rate of the loop."""
ALONE_COMMITS_MIN: Final = 16
"""Commits per request in a row that found no other waiting, after which the next one is expected to delay no other."""


class CommitPlace:
    """The choice of the event loop or a thread, decided from finished commits and the number of waiting ones.

    Args:
        batching: scope of one commit.
        commit_on: fixes the choice; AUTO follows the measurements.

    Attributes:
        suits_loop: whether the last call of `must_gather` found that the waiting submissions should be committed on the
            event loop.
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
        self._durations_ns: deque[int] = deque(maxlen=COMMITS_MEASURED)  # of commits in the current place
        self._is_busy_alone = False  # a single connection has more than ALONE_REQUESTS_MAX in flight
        self._alone_commits = self._gathered_turns = 0
        self.suits_loop = False

    def must_gather(self, waiting: int, following: int, *, is_in_flight: bool, is_synced: bool = True) -> bool:
        """Decide where the next commit runs, and return whether it should wait for more requests.

        Args:
            waiting: number of submissions that the commit could take.
            following: number of requests that will be handled shortly.
            is_in_flight: whether an earlier commit has not completed.
            is_synced: whether the storage syncs its writes; without a sync every commit suits the loop.

        Returns:
            True only for a group commit on the event loop, if requests follow and no commit is in flight; for at most
            GATHERED_TURNS_MAX calls in a row.
        """
        is_alone = waiting == 1 and not following and not is_in_flight
        self._alone_commits = self._alone_commits + 1 if is_alone else 0
        # A thread hands over several commits per request at once; the loop does not. So a commit per request moves to
        # the loop only if the last ones ran alone.
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
        """Record a successful commit.

        Args:
            duration_ns: time from its start until it was durable.
            was_on_loop: whether it ran on the event loop.
            alone_requests: number of its requests if one connection sent them all, else 0.
        """
        self._is_busy_alone = alone_requests > ALONE_REQUESTS_MAX
        if was_on_loop is not self._is_fast:  # started before the last change, so it measures the other place
            return
        durations_ns = self._durations_ns
        durations_ns.append(duration_ns)
        if self._is_fast:
            if duration_ns > PAUSE_NS or min(durations_ns) > LOOP_NS_MAX:
                self._change()
        elif len(durations_ns) == COMMITS_MEASURED and min(durations_ns) <= THREAD_NS_MAX:
            self._change()

    def _change(self) -> None:
        self._is_fast = not self._is_fast
        self._durations_ns.clear()
