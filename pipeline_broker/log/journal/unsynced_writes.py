"""Bookkeeping of journal commits that are written and not known to be on the disk."""

from __future__ import annotations

__all__ = ["UnsyncedWrites"]


class UnsyncedWrites:
    """The written and unsynced commits of a journal. The journal calls its methods with the write lock held.

    Some commits are synced before their acknowledgement; relaxed ones are acknowledged first (see `FlushPolicy`).
    Recovery keeps a contiguous prefix, so a sync has to cover all earlier commits: those in its segment, and relaxed
    commits in complete segments.

    Attributes:
        segments: numbers of complete segments that the next sync must cover too, oldest first.
    """

    __slots__ = ("_commits", "_relaxed", "segments")

    def __init__(self) -> None:
        self._commits: dict[int, None] = {}  # first LSNs of commits between write and sync, oldest first
        self._relaxed: tuple[int, int] | None = None  # first LSNs of the oldest and the newest relaxed commit
        self.segments: dict[int, None] = {}

    def __bool__(self) -> bool:
        return bool(self._commits or self._relaxed or self.segments)

    @property
    def is_syncing(self) -> bool:
        return bool(self._commits)

    def recovered(self, first_lsn: int, next_lsn: int, complete: list[int]) -> None:
        """Add the entries and complete segments that recovery kept without a sync."""
        if first_lsn < next_lsn:
            self._relaxed = first_lsn, next_lsn - 1
        self.segments = dict.fromkeys(complete)

    def written(self, lsn: int, *, is_synced: bool) -> None:
        """Add a commit.

        Args:
            lsn: first LSN of the commit.
            is_synced: a call of `synced` for this commit follows.
        """
        if is_synced:
            self._commits[lsn] = None
        else:
            self._relaxed = (lsn if self._relaxed is None else self._relaxed[0]), lsn

    def completed(self, number: int, first_lsn: int) -> None:
        """Record that a segment is complete. The next sync must cover it if it has relaxed commits.

        Args:
            first_lsn: the LSN of the segment's first entry.
        """
        # Commits with a sync of their own keep their file. Only relaxed ones would be left without a sync.
        if self._relaxed is not None and self._relaxed[1] >= first_lsn:
            self.segments[number] = None

    def recycled(self, number: int) -> None:
        """Drop a recycled segment: the archive holds its records durably, so no sync must cover it."""
        self.segments.pop(number, None)

    def synced(self, end_lsn: int, segments: tuple[int, ...], lsn: int | None = None) -> None:
        """Remove the commits that a successful sync covered.

        Args:
            end_lsn: the sync covered all commits below it, apart from other commits between write and sync.
            segments: complete segments that the sync covered.
            lsn: first LSN of the commit that requested the sync; None for a sync in the background.
        """
        if lsn is not None:
            del self._commits[lsn]
        if self._relaxed is not None and self._relaxed[1] >= end_lsn:
            # Relaxed commits were written while the sync ran. It may not have covered them.
            self._relaxed = max(self._relaxed[0], end_lsn), self._relaxed[1]
            for number in segments:
                self.segments.pop(number, None)
        else:
            self._relaxed = None
            self.segments.clear()

    def durable_lsn(self, next_lsn: int) -> int:
        # Commits are entered in LSN order, so the first key is the lowest.
        oldest = next(iter(self._commits), next_lsn)
        return oldest if self._relaxed is None else min(oldest, self._relaxed[0])

    def acknowledged_lsn(self, next_lsn: int) -> int:
        """Return the LSN below which no commit waits for its sync."""
        return next(iter(self._commits), next_lsn)
