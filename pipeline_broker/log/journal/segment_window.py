"""Forward reading of one journal segment, in pieces of bounded size, for recovery and `inspect`."""

from __future__ import annotations

from collections.abc import Iterator

from pipeline_broker.files.file_system import ReadableFile
from pipeline_broker.files.window import WINDOW_BYTES, Window
from pipeline_broker.log.errors import JournalCorrupt
from pipeline_broker.log.journal.frame import (
    CHECKED_FROM,
    FRAME_HEADER_SIZE,
    MAGIC_BYTES,
    FrameHeader,
    is_intact,
    read_frame_header,
)
from pipeline_broker.log.journal.segment import HEADER_SPACE, decode_header
from pipeline_broker.records.checksum import crc32c_of

__all__ = ["SegmentWindow"]

ZERO_SEARCH_BYTES = 1 << 20
DOUBTFUL_BYTES_MAX = 4 << 30
"""Limit on bytes of broken frames whose checksums one search computes. Torn commits have far fewer."""


class SegmentWindow(Window):
    """A sliding window over a segment file that finds its intact frames.

    A body is kept in memory only after its checksum matched: the size in a damaged header may be anything up to 2 GiB.

    Attributes:
        identity: identity of the segment; None if its header is invalid.
    """

    def __init__(self, source: ReadableFile, window_bytes: int = WINDOW_BYTES) -> None:
        super().__init__(source, window_bytes)
        self.ensure(0, HEADER_SPACE)
        self.identity = decode_header(memoryview(self.data)[:HEADER_SPACE])

    def header_at(self, position: int) -> FrameHeader | None:
        """Return the frame header at a position; None if no frame can start there.

        The frame may be of this segment or of an earlier use of its space.
        """
        place = self.ensure(position, FRAME_HEADER_SIZE)
        return read_frame_header(self.data, place, self.size_bytes - position)

    def is_intact(self, header: FrameHeader, position: int) -> bool:
        """Return whether the frame with this header matches its checksum. An intact frame then lies in the window."""
        size_bytes = FRAME_HEADER_SIZE + header.body_size
        is_long = self.is_long(size_bytes)
        # A long body is verified in pieces, before memory is allocated for all of it.
        if is_long and crc32c_of(self.pieces(position + CHECKED_FROM, position + size_bytes)) != header.crc:
            return False
        place = self.ensure(position, size_bytes)
        if place + size_bytes > len(self.data):
            return False  # another process has truncated the file since its size was read
        return is_long or is_intact(header, self.data, place)

    def frame_at(self, position: int, lsn: int | None = None) -> FrameHeader | None:
        """Return the header of the intact frame of this segment at a position; None without one.

        The frame then lies in the window.

        Args:
            position: start of the frame in the file.
            lsn: the required first LSN; None accepts any.
        """
        header = self.header_at(position)
        if header is None or header.identity != self.identity or (lsn is not None and header.first_lsn != lsn):
            return None
        return header if self.is_intact(header, position) else None

    def frames_anywhere(self, position: int) -> Iterator[FrameHeader]:
        """Yield the headers of all intact frames of this segment from a position, wherever they begin.

        Raises:
            JournalCorrupt: more than DOUBTFUL_BYTES_MAX bytes of broken frames, so a search could take very long.
        """
        doubtful_bytes = 0
        while (position := self.find(MAGIC_BYTES, position)) >= 0:
            header = self.header_at(position)
            if header is not None and header.identity == self.identity:
                if self.is_intact(header, position):
                    yield header
                    position += FRAME_HEADER_SIZE + header.body_size
                    continue
                doubtful_bytes += header.body_size
                if doubtful_bytes > DOUBTFUL_BYTES_MAX:
                    raise JournalCorrupt("a segment has too many broken frames at its end; nothing was changed")
            position += len(MAGIC_BYTES)

    def used_until(self, position: int) -> int:
        """Return the end of the last nonzero byte at or after a position; the position itself if all are zero."""
        end = self.size_bytes
        while end > position:
            start = max(position, end - ZERO_SEARCH_BYTES)
            # Skips holes of a sparse file without reading them.
            if self.source.data_from(start) < end:
                stripped = bytes(self.source.read(end - start, start)).rstrip(b"\0")
                if stripped:
                    return start + len(stripped)
            end = start
        return position
