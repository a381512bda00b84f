"""Pace of overlapping group commits.

Fast storage runs one commit at a time, which makes the largest groups. On slow storage half of the clients would wait
for a commit that has not started. So there the next commit starts before the last one ends.
"""

from collections import deque

__all__ = ["COMMITS_IN_FLIGHT_MAX", "SLOW_GROUP_NS", "SLOW_REQUEST_NS", "CommitPace", "PaidCommitPace"]

COMMITS_IN_FLIGHT_MAX = 8
"""Default maximum of concurrent group commits."""
SLOW_GROUP_NS = 1_000_000
"""Duration of a group commit at which waiting for it costs clients more than running another thread beside it."""
SLOW_REQUEST_NS = 500_000
"""The same for commits per request, which are more frequent: run serially they reach 2,000 per second at this duration.

On a disk that syncs in 0.15 ms, the fastest of eight serial commits took at most 0.35 ms. With eight at once it took
less than 0.45 ms in nine of ten cases, so commits become serial again after a slow phase.
"""
COMMITS_REMEMBERED = 8
"""Commits in a row that must be slow before the storage counts as slow; a fast disk may pause once."""
PAID_BURST = 4
PAID_LARGE_BYTES = 4 << 20


class CommitPace:
    """A pace that learns the duration of commits and, on slow storage, spreads concurrent ones evenly over it.

    Commits that start a little apart stay apart. The clients of one commit are answered together and send their next
    requests together, which then find the slot of that commit free again.

    Args:
        slow_ns: duration of a commit, in nanoseconds, from which the storage counts as slow.

    Attributes:
        counts_bytes: whether `wait_ns` uses `waiting_bytes`.
    """

    counts_bytes = False

    def __init__(self, slow_ns: int = SLOW_GROUP_NS) -> None:
        self._slow_ns = slow_ns
        # Storage counts as fast until COMMITS_REMEMBERED slow commits have shown otherwise.
        self._durations_ns = deque([0] * COMMITS_REMEMBERED, maxlen=COMMITS_REMEMBERED)
        self._spacing_ns: int | None = None

    def commit_ended(self, duration_ns: int) -> None:
        """Record the duration of a successful commit, from its start until it was durable."""
        self._durations_ns.append(duration_ns)
        # The fastest, because a single slow commit says little about the disk.
        fastest_ns = min(self._durations_ns)
        self._spacing_ns = fastest_ns // COMMITS_IN_FLIGHT_MAX if fastest_ns >= self._slow_ns else None

    def next_begin_ns(self, last_begin_ns: int) -> int | None:
        """Return the earliest start of another commit while one is in flight.

        Args:
            last_begin_ns: start of the last commit.

        Returns:
            nanoseconds on the clock of `last_begin_ns`, or None if the next commit must wait until those in flight end.
        """
        return None if self._spacing_ns is None else last_begin_ns + self._spacing_ns

    def commit_began(self, now_ns: int) -> None: ...

    def wait_ns(
        self,
        now_ns: int,
        last_begin_ns: int | None,
        waiting_bytes: int,  # noqa: ARG002 - used by subclasses that count bytes
    ) -> int | None:
        """Return how many nanoseconds the waiting submissions must wait for their commit.

        Args:
            now_ns: current time.
            last_begin_ns: start of the last commit in flight; None if no commit is in flight.
            waiting_bytes: size of the waiting submissions; ignored unless `counts_bytes`.

        Returns:
            nanoseconds; 0 to start now, None to wait until the commits in flight end.
        """
        if last_begin_ns is None:
            return 0
        begin_ns = self.next_begin_ns(last_begin_ns)
        return None if begin_ns is None else max(0, begin_ns - now_ns)


class PaidCommitPace(CommitPace):
    """A token bucket for storage that charges for each commit, such as an object store.

    Args:
        commits_per_second: average rate of group commits; above 0.
        burst: commits that may start at once after a rest.
        large_bytes: submissions of this total size start at once, because their bytes cost more than one more commit.
    """

    counts_bytes = True

    def __init__(self, commits_per_second: float, burst: int = PAID_BURST, large_bytes: int = PAID_LARGE_BYTES) -> None:
        super().__init__()
        assert commits_per_second > 0
        self._token_ns = int(1e9 / commits_per_second)
        self._burst, self._large_bytes = burst, large_bytes
        self._paid_until_ns = 0  # time at which all started commits are paid for; the bucket holds `burst` tokens

    def commit_began(self, now_ns: int) -> None:
        self._paid_until_ns = max(self._paid_until_ns, now_ns) + self._token_ns

    def wait_ns(self, now_ns: int, last_begin_ns: int | None, waiting_bytes: int) -> int | None:
        beside_ns = super().wait_ns(now_ns, last_begin_ns, waiting_bytes)
        if beside_ns is None or waiting_bytes >= self._large_bytes:
            return beside_ns
        next_ns = self._paid_until_ns - (self._burst - 1) * self._token_ns
        return max(beside_ns, next_ns - now_ns)
