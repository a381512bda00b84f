"""One segment of the journal, read.

Rules of this file: one segment is in memory at a time. Its space may have been used before: what does not belong to its
identity belongs to nobody, and is neither shown nor judged.
"""

import enum
import os
from collections.abc import Iterator
from pathlib import Path

import attrs

from pipeline_broker.inspect.errors import NoDataDirectoryError
from pipeline_broker.log.journal.frame import (
    FRAME_HEADER_SIZE,
    MAGIC_BYTES,
    FrameHeader,
    is_intact,
    read_frame_header,
    seems_of_segment,
)
from pipeline_broker.log.journal.segment import HEADER_SPACE, decode_header, segment_path
from pipeline_broker.log.journal.taken_directory import JOURNAL_NAME

__all__ = ["JournalSegment", "Rest", "journal_file", "open_segment"]

EARLIER_FRAMES_TRIED_MAX = 64
"""Places that look like a frame of an earlier use and are not, before the search for one ends."""
ZERO_SEARCH_BYTES = 1 << 20


class Rest(enum.Enum):
    """What lies behind the last frame that counts."""

    NOTHING = "nothing but zeros"
    OWN = "frames that were written for this segment, or parts of them"
    EARLIER = "frames of an earlier use of this space"
    UNKNOWN = "a commit that was cut short, or what an earlier use of this space left"


def journal_file(name: str) -> str:
    """What a file of the journal is called in findings."""
    return f"{JOURNAL_NAME}/{name}"


@attrs.frozen
class JournalSegment:
    """See the rules of the file.

    Attributes:
        number: its own.
        identity: None when the header is not readable.
    """

    number: int
    data: memoryview
    identity: int | None

    @property
    def file(self) -> str:
        """What it is called in findings."""
        return journal_file(segment_path(Path(), self.number).name)

    def header_at(self, position: int) -> FrameHeader | None:
        """The frame header there, if the frame could fit; its contents are not looked at."""
        return read_frame_header(self.data, position, len(self.data) - position)

    def frame_at(self, position: int) -> FrameHeader | None:
        """The intact frame there that was written for this segment."""
        header = self.header_at(position)
        if header is None or header.identity != self.identity or not is_intact(header, self.data, position):
            return None
        return header

    def frames_anywhere(self, position: int) -> Iterator[FrameHeader]:
        """Its intact frames wherever their magic is found from `position` on."""
        data = self.data.obj
        assert isinstance(data, bytes)
        while (position := data.find(MAGIC_BYTES, position)) >= 0:
            header = self.frame_at(position)
            if header is not None:
                yield header
                position += FRAME_HEADER_SIZE + header.body_size - len(MAGIC_BYTES)
            position += len(MAGIC_BYTES)

    def used_until(self, position: int) -> int:
        """The end of what is not zero behind `position`."""
        end = len(self.data)
        while end > position:
            start = max(position, end - ZERO_SEARCH_BYTES)
            stripped = bytes(self.data[start:end]).rstrip(b"\0")
            if stripped:
                return start + len(stripped)
            end = start
        return position

    def rest_at(self, position: int) -> Rest:
        """What lies behind the last frame that counts, where another could begin."""
        if self.used_until(position) == position:
            return Rest.NOTHING
        assert self.identity is not None, "a segment without a header has no frames"
        if seems_of_segment(self.data, position, self.identity) or any(self.frames_anywhere(position)):
            return Rest.OWN
        return Rest.EARLIER if self._has_earlier_frame(position) else Rest.UNKNOWN

    def _has_earlier_frame(self, position: int) -> bool:
        data = self.data.obj
        assert isinstance(data, bytes)
        for _ in range(EARLIER_FRAMES_TRIED_MAX):
            position = data.find(MAGIC_BYTES, position)
            if position < 0:
                return False
            header = self.header_at(position)
            if header is not None and is_intact(header, self.data, position):
                return True
            position += len(MAGIC_BYTES)
        return False

    def why_not(self, position: int, next_lsn: int) -> str:
        """Why the prefix does not go on at `position`."""
        header = self.header_at(position)
        if header is None:
            return "no frame header, or a frame longer than the file"
        if not is_intact(header, self.data, position):
            return "the frame does not match its checksum"
        if header.identity != self.identity:
            return "a frame of an earlier use of this space"
        return f"the frame begins with LSN {header.first_lsn}, not {next_lsn}"


def open_segment(directory: Path, number: int) -> JournalSegment | None:
    """Read a segment; None when a running broker takes its space back.

    What is recycled loses its name before anything is written to it: so bytes are the segment's if it still has its
    name when they are read.

    Raises:
        NoDataDirectoryError: it cannot be read.
    """
    path = segment_path(directory, number)
    try:
        while True:
            with path.open("rb") as file:
                data = memoryview(file.read())
                read = os.fstat(file.fileno())
            named = path.stat()
            if (named.st_dev, named.st_ino) == (read.st_dev, read.st_ino):
                return JournalSegment(number, data, decode_header(data[:HEADER_SPACE]))
    except FileNotFoundError:
        return None
    except OSError as error:
        raise NoDataDirectoryError(f"{path} cannot be read: {error.strerror}") from None
