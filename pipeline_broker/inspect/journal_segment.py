"""One segment of the journal, read for inspection."""

from __future__ import annotations

import enum
import os
from pathlib import Path

from pipeline_broker.base.buffer import Buffer
from pipeline_broker.files.errors import reason_of
from pipeline_broker.files.file_system import FileSystem, ReadableFile
from pipeline_broker.inspect.errors import NoDataDirectoryError
from pipeline_broker.log.errors import JournalCorrupt
from pipeline_broker.log.journal.frame import FRAME_HEADER_SIZE, MAGIC_BYTES, seems_of_segment
from pipeline_broker.log.journal.journal import SEGMENT_BYTES
from pipeline_broker.log.journal.segment import open_segment_file, segment_path
from pipeline_broker.log.journal.segment_window import SegmentWindow
from pipeline_broker.log.journal.taken_directory import JOURNAL_NAME

__all__ = ["JournalSegment", "Rest", "journal_file", "open_segment", "snapshot"]

EARLIER_FRAMES_TRIED_MAX = 64  # false starts of an earlier frame after which the search ends


class Rest(enum.Enum):
    NOTHING = "only zeros"
    OWN = "frames of this segment, or parts of them"
    EARLIER = "frames of an earlier use of this space"
    UNKNOWN = "a commit that was cut short, or remains of an earlier use of this space"


def journal_file(name: str) -> str:
    return f"{JOURNAL_NAME}/{name}"


class JournalSegment(SegmentWindow):
    """A segment of the journal: all of it in memory, or a window into a larger one.

    Its space may have been used before. Frames with another identity are ignored.
    """

    def __init__(self, number: int, source: ReadableFile) -> None:
        super().__init__(source)
        self.number = number

    @property
    def file(self) -> str:
        return journal_file(segment_path(Path(), self.number).name)

    def rest_at(self, position: int) -> Rest:
        """Classify the bytes after the last valid frame, which ends at `position`."""
        if self.used_until(position) == position:
            return Rest.NOTHING
        assert self.identity is not None, "a segment without a header has no frames"
        if self._seems_own(self.identity, position) or any(self.frames_anywhere(position)):
            return Rest.OWN
        return Rest.EARLIER if self._has_earlier_frame(position) else Rest.UNKNOWN

    def _seems_own(self, identity: int, position: int) -> bool:
        header = self.header_at(position)
        if header is not None and header.identity != identity and self.is_intact(header, position):
            return False
        start = self.ensure(position, FRAME_HEADER_SIZE)
        return seems_of_segment(self.data, start, identity)

    def _has_earlier_frame(self, position: int) -> bool:
        for _ in range(EARLIER_FRAMES_TRIED_MAX):
            position = self.find(MAGIC_BYTES, position)
            if position < 0:
                return False
            header = self.header_at(position)
            if header is not None and self.is_intact(header, position):
                return True
            position += len(MAGIC_BYTES)
        return False

    def why_not(self, position: int, next_lsn: int) -> str:
        """Return why the frame at `position` does not continue the prefix."""
        header = self.header_at(position)
        if header is None:
            return "no frame header, or a frame longer than the file"
        if not self.is_intact(header, position):
            return "the frame does not match its checksum"
        if header.identity != self.identity:
            return "a frame of an earlier use of this space"
        return f"the frame begins with LSN {header.first_lsn}, not {next_lsn}"


class _Snapshot(ReadableFile):
    """The content of a file at one moment. A running broker keeps writing, and later bytes are not judged."""

    def __init__(self, content: bytes) -> None:
        self._content = memoryview(content)

    def read(self, size_bytes: int, position: int) -> Buffer:
        return self._content[position : position + size_bytes]

    def size_bytes(self) -> int:
        return len(self._content)

    def data_from(self, position: int) -> int:
        return position


def snapshot(number: int, content: bytes) -> JournalSegment:
    return JournalSegment(number, _Snapshot(content))


def open_segment(files: FileSystem, directory: Path, number: int) -> JournalSegment | None:
    """Read a segment; None if a running broker is reusing its space.

    A reused segment loses its name before it is overwritten. So the bytes belong to the segment if it still has its
    name after the read. Segments above `SEGMENT_BYTES` are never reused, and are read in windows.

    Raises:
        NoDataDirectoryError: the segment cannot be read.
    """
    path = segment_path(directory, number)
    try:
        while True:
            file = open_segment_file(files, directory, number)
            opened = path.stat()
            size_bytes = file.size_bytes()
            if size_bytes > SEGMENT_BYTES:
                return JournalSegment(number, file)
            content = bytes(file.read(size_bytes, 0))
            if os.path.samestat(path.stat(), opened):
                return snapshot(number, content)
    except FileNotFoundError:
        return None
    except JournalCorrupt as error:
        raise NoDataDirectoryError(str(error)) from None
    except OSError as error:
        raise NoDataDirectoryError(f"{path} cannot be read: {reason_of(error, path)}") from None
