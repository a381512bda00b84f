"""When a group commit may begin beside those in flight.

Rules of this file: it is pure, times are passed in. One commit at a time makes the largest groups, so it suits storage
that is fast. Slow storage leaves half of the clients waiting for a commit that has not begun; there the next one begins
before the last one ended. Commits that begin a little apart stay apart: the clients of a commit are answered together,
send their next requests together, and these find the place of that commit free again.
"""

from collections import deque

__all__ = ["COMMITS_IN_FLIGHT_MAX", "CommitPace"]

COMMITS_IN_FLIGHT_MAX = 8
"""Group commits that run at once unless the user says otherwise."""
SLOW_COMMIT_NS = 1_000_000
"""A commit that takes so long costs clients more than a thread costs that begins another one meanwhile."""
COMMITS_REMEMBERED = 8
"""Storage is slow when all of so many commits were: a single pause of a fast disk does not make it so."""


class CommitPace:
    """Learns how fast commits are, and spreads those in flight over that time."""

    def __init__(self) -> None:
        self._durations_ns = deque([0] * COMMITS_REMEMBERED, maxlen=COMMITS_REMEMBERED)
        self._spacing_ns: int | None = None

    def commit_ended(self, duration_ns: int) -> None:
        """Take note of a commit that ended well, from its begin until it was durable."""
        self._durations_ns.append(duration_ns)
        fastest_ns = min(self._durations_ns)
        self._spacing_ns = fastest_ns // COMMITS_IN_FLIGHT_MAX if fastest_ns >= SLOW_COMMIT_NS else None

    def next_begin_ns(self, last_begin_ns: int) -> int | None:
        """When a further commit may begin.

        Args:
            last_begin_ns: when the last one began.

        Returns:
            nanoseconds on the same clock; None: not before those in flight ended.
        """
        return None if self._spacing_ns is None else last_begin_ns + self._spacing_ns
