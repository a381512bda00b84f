"""When a commit may begin beside those in flight.

Rules of this file: it is pure, times are passed in. One commit at a time makes the largest groups, so it suits storage
that is fast. Slow storage leaves half of the clients waiting for a commit that has not begun; there the next one begins
before the last one ended. Commits that begin a little apart stay apart: the clients of a commit are answered together,
send their next requests together, and these find the place of that commit free again.

Where each commit costs money, as a request to a store does, there are so many a second and no more, but for a burst
after a rest, and for large ones, of which there cannot be many: their bytes cost more than their number.
"""

from collections import deque

__all__ = ["COMMITS_IN_FLIGHT_MAX", "SLOW_GROUP_NS", "SLOW_REQUEST_NS", "CommitPace", "PaidCommitPace"]

COMMITS_IN_FLIGHT_MAX = 8
"""Group commits that run at once unless the user says otherwise."""
SLOW_GROUP_NS = 1_000_000
"""A group commit that takes so long costs clients more than a thread costs that begins another one meanwhile."""
SLOW_REQUEST_NS = 500_000
"""The same of a commit per request, of which there are more: one after the other they are 2,000 a second then.

Of eight commits of a disk that syncs in 0.15 ms the fastest took 0.35 ms at most, one after the other; with eight at
once it took less than 0.45 ms nine times of ten, so that the pace is found again after a time of slow ones.
"""
COMMITS_REMEMBERED = 8
"""Storage is slow when all of so many commits were: a single pause of a fast disk does not make it so."""
PAID_BURST = 4
PAID_LARGE_BYTES = 4 << 20


class CommitPace:
    """Learns how fast commits are, and spreads those in flight over that time.

    Args:
        slow_ns: storage is slow from so long a commit on.

    Attributes:
        counts_bytes: whether `wait_ns` must know how much waits.
    """

    counts_bytes = False

    def __init__(self, slow_ns: int = SLOW_GROUP_NS) -> None:
        self._slow_ns = slow_ns
        self._durations_ns = deque([0] * COMMITS_REMEMBERED, maxlen=COMMITS_REMEMBERED)
        self._spacing_ns: int | None = None

    def commit_ended(self, duration_ns: int) -> None:
        """Take note of a commit that ended well, from its begin until it was durable."""
        self._durations_ns.append(duration_ns)
        fastest_ns = min(self._durations_ns)
        self._spacing_ns = fastest_ns // COMMITS_IN_FLIGHT_MAX if fastest_ns >= self._slow_ns else None

    def next_begin_ns(self, last_begin_ns: int) -> int | None:
        """When a further commit may begin.

        Args:
            last_begin_ns: when the last one began.

        Returns:
            nanoseconds on the same clock; None: not before those in flight ended.
        """
        return None if self._spacing_ns is None else last_begin_ns + self._spacing_ns

    def commit_began(self, now_ns: int) -> None:
        """Take note of a commit that begins."""

    def wait_ns(
        self,
        now_ns: int,
        last_begin_ns: int | None,
        waiting_bytes: int,  # noqa: ARG002 - for those that count bytes
    ) -> int | None:
        """How long what waits must wait.

        Args:
            now_ns: the clock.
            last_begin_ns: when the last commit began, of those in flight; None when there are none.
            waiting_bytes: how much waits; only looked at where `counts_bytes`.

        Returns:
            nanoseconds; None: until those in flight ended.
        """
        if last_begin_ns is None:
            return 0
        begin_ns = self.next_begin_ns(last_begin_ns)
        return None if begin_ns is None else max(0, begin_ns - now_ns)


class PaidCommitPace(CommitPace):
    """So many group commits a second, on average.

    Args:
        commits_per_second: how many.
        burst: how many may begin at once after a rest.
        large_bytes: what waits begins at once when it is so much.
    """

    counts_bytes = True

    def __init__(self, commits_per_second: float, burst: int = PAID_BURST, large_bytes: int = PAID_LARGE_BYTES) -> None:
        super().__init__()
        assert commits_per_second > 0
        self._token_ns = int(1e9 / commits_per_second)
        self._burst, self._large_bytes = burst, large_bytes
        self._paid_until_ns = 0  # when the tokens are all there again, but for the burst

    def commit_began(self, now_ns: int) -> None:
        self._paid_until_ns = max(self._paid_until_ns, now_ns) + self._token_ns

    def wait_ns(self, now_ns: int, last_begin_ns: int | None, waiting_bytes: int) -> int | None:
        beside_ns = super().wait_ns(now_ns, last_begin_ns, waiting_bytes)
        if beside_ns is None or waiting_bytes >= self._large_bytes:
            return beside_ns
        next_ns = self._paid_until_ns - (self._burst - 1) * self._token_ns
        return max(beside_ns, next_ns - now_ns)
