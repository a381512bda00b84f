"""What of a journal was written and is not known to be on the disk.

Rules of this file: pure; the journal calls it with its write lock held. Some commits are synced before they are
acknowledged, others when the flush policy says so. Recovery keeps a contiguous prefix, so a sync covers everything in
front of it: the segment of its commit, and the complete segments that hold commits of the other kind.
"""

from __future__ import annotations

__all__ = ["UnsyncedWrites"]


class UnsyncedWrites:
    """See the rules of the file.

    Attributes:
        segments: numbers of complete segments that a sync must cover, too, oldest first.
    """

    __slots__ = ("_commits", "_relaxed", "segments")

    def __init__(self) -> None:
        self._commits: dict[int, None] = {}  # first LSNs of those between write and sync, oldest first
        self._relaxed: tuple[int, int] | None = None  # first LSNs of the oldest and the newest of the others
        self.segments: dict[int, None] = {}

    def __bool__(self) -> bool:
        """Whether a sync is missing."""
        return bool(self._commits or self._relaxed or self.segments)

    @property
    def is_syncing(self) -> bool:
        """Whether a commit is between its write and its sync."""
        return bool(self._commits)

    def recovered(self, first_lsn: int, next_lsn: int, complete: list[int]) -> None:
        """Take note of what a start found and did not sync."""
        if first_lsn < next_lsn:
            self._relaxed = first_lsn, next_lsn - 1
        self.segments = dict.fromkeys(complete)

    def written(self, lsn: int, *, is_synced: bool) -> None:
        """A commit was written; `is_synced` says that `synced` will be called for it."""
        if is_synced:
            self._commits[lsn] = None
        else:
            self._relaxed = (lsn if self._relaxed is None else self._relaxed[0]), lsn

    def completed(self, number: int, first_lsn: int) -> None:
        """A segment is complete, whose first commit has this LSN."""
        if self._relaxed is not None and self._relaxed[1] >= first_lsn:
            self.segments[number] = None

    def recycled(self, number: int) -> None:
        """The archive holds what is in a segment, durably."""
        self.segments.pop(number, None)

    def synced(self, end_lsn: int, segments: tuple[int, ...], lsn: int | None = None) -> None:
        """A sync has ended.

        Args:
            end_lsn: what it covered, with these complete segments.
            segments: see `segments`, when it began.
            lsn: of the commit that it was for, if any.
        """
        if lsn is not None:
            del self._commits[lsn]
        if self._relaxed is not None and self._relaxed[1] >= end_lsn:
            self._relaxed = max(self._relaxed[0], end_lsn), self._relaxed[1]
            for number in segments:
                self.segments.pop(number, None)
        else:
            self._relaxed = None
            self.segments.clear()

    def durable_lsn(self, next_lsn: int) -> int:
        """Return the LSN in front of which everything is on the disk."""
        oldest = next(iter(self._commits), next_lsn)
        return oldest if self._relaxed is None else min(oldest, self._relaxed[0])

    def acknowledged_lsn(self, next_lsn: int) -> int:
        """Return the LSN in front of which no commit waits for its sync."""
        return next(iter(self._commits), next_lsn)
