"""A segment of the journal, read forwards in pieces, and the frames in it.

Rules of this file: memory is spent on a frame only when its checksum is right. What is read of a segment, by a start or
by `inspect`, is read here.
"""

from __future__ import annotations

from collections.abc import Iterator

from pipeline_broker.files.file_system import ReadableFile
from pipeline_broker.files.window import Window
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
"""Bytes whose checksum is compared in a search for intact frames: no torn commit begins as so many frames."""


class SegmentWindow(Window):
    """See the rules of the file.

    Attributes:
        identity: of the segment; None where its header cannot be read.
    """

    def __init__(self, source: ReadableFile) -> None:
        super().__init__(source)
        self.ensure(0, HEADER_SPACE)
        self.identity = decode_header(memoryview(self.data)[:HEADER_SPACE])

    def header_at(self, position: int) -> FrameHeader | None:
        """The header of what may be a frame of this segment or of an earlier use of its space, not of what follows."""
        place = self.ensure(position, FRAME_HEADER_SIZE)
        return read_frame_header(self.data, place, self.size_bytes - position)

    def is_intact(self, header: FrameHeader, position: int) -> bool:
        """Return whether the frame with this header matches its checksum; if so, it lies in the window."""
        size_bytes = FRAME_HEADER_SIZE + header.body_size
        is_long = self.is_long(size_bytes)
        if is_long and crc32c_of(self.pieces(position + CHECKED_FROM, position + size_bytes)) != header.crc:
            return False
        place = self.ensure(position, size_bytes)
        if place + size_bytes > len(self.data):
            return False  # the file became shorter since its size was asked: somebody else is at work
        return is_long or is_intact(header, self.data, place)

    def frame_at(self, position: int, lsn: int | None = None) -> FrameHeader | None:
        """The intact frame of this segment at a position, with this LSN unless any will do; it lies in the window."""
        header = self.header_at(position)
        if header is None or header.identity != self.identity or (lsn is not None and header.first_lsn != lsn):
            return None
        return header if self.is_intact(header, position) else None

    def frames_anywhere(self, position: int) -> Iterator[FrameHeader]:
        """The intact frames of this segment wherever their magic is found, starting at a position.

        Raises:
            JournalCorrupt: so many bytes begin as a frame that the search does not end.
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
        """Return the end of the bytes other than zero that start at a position."""
        end = self.size_bytes
        while end > position:
            start = max(position, end - ZERO_SEARCH_BYTES)
            if self.source.data_from(start) < end:
                stripped = bytes(self.source.read(end - start, start)).rstrip(b"\0")
                if stripped:
                    return start + len(stripped)
            end = start
        return position
