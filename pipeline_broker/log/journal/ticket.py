"""A receipt for one written commit of the journal, which `Journal.sync` takes."""

from pipeline_broker.files.file_system import File
from pipeline_broker.log.journal.segment import Segment

__all__ = ["Ticket"]


class Ticket:
    """A written commit and the files that its sync must cover."""

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
        self.segments = segments  # complete segments with earlier unsynced commits
        self.file = file  # None if this commit needs no sync
