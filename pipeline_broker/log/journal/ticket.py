"""What a writer of the journal gets for a commit, and gives back to have it synced.

Rules of this file: it is data.
"""

from pipeline_broker.files.file_system import File
from pipeline_broker.log.journal.segment import Segment

__all__ = ["Ticket"]


class Ticket:
    """A commit that was written and waits for its sync."""

    __slots__ = ("entry_count", "file", "first_lsn", "segment", "segments", "size_bytes")

    def __init__(
        self,
        first_lsn: int,
        entry_count: int,
        size_bytes: int,
        segment: Segment | None,
        file: File | None,
        segments: tuple[int, ...] = (),
    ) -> None:
        self.first_lsn = first_lsn
        self.entry_count = entry_count
        self.size_bytes = size_bytes
        self.segment = segment
        self.segments = segments  # complete ones that the sync must cover, too
        self.file = file  # None when there is nothing to sync
