"""A file read forwards in pieces, so that memory does not grow with the file.

Rules of this file: a hole is not read; a piece is kept until another one is wanted.
"""

from __future__ import annotations

from collections.abc import Iterator

from pipeline_broker.files.file_system import Buffer, ReadableFile

__all__ = ["Window"]

WINDOW_BYTES = 4 << 20
"""Bytes that are read at once; a caller that has proved that it needs more gets more."""


class Window:
    """See the rules of the file.

    Attributes:
        size_bytes: of the file when it was opened.
        start: position in the file of the first byte in `data`.
        data: what was read last.
    """

    def __init__(self, source: ReadableFile) -> None:
        self.source = source
        self.size_bytes = source.size_bytes()
        self.start = 0
        self.data: Buffer = b""

    def ensure(self, position: int, size_bytes: int) -> int:
        """Make these bytes available, fewer at the end of the file; return where they start in `data`."""
        if not self.start <= position <= position + size_bytes <= self.start + len(self.data):
            self.data = b""  # given back before as much is taken anew
            self.start = position
            self.data = self.source.read(max(WINDOW_BYTES, size_bytes), position)
        return position - self.start

    def is_long(self, size_bytes: int) -> bool:
        """Return whether these are more bytes than are read at once: prove them right by `pieces` before `ensure`."""
        return size_bytes > WINDOW_BYTES

    def pieces(self, position: int, end: int) -> Iterator[Buffer]:
        """The bytes between two positions, a piece at a time; fewer where the file ends too early."""
        while position < end and (piece := self.source.read(min(WINDOW_BYTES, end - position), position)):
            yield piece
            position += len(piece)

    def find(self, pattern: bytes, position: int) -> int:
        """Return the next position where the pattern, which has a byte other than zero, is found; -1 if there is none.

        Args:
            position: of the first byte that counts.
        """
        assert any(pattern), "a hole is taken for a part without the pattern"
        while position + len(pattern) <= self.size_bytes:
            # A hole may hold the last zeros before the pattern, or of its beginning.
            position = max(position, self.source.data_from(position) - len(pattern) + 1)
            place = self.ensure(position, len(pattern))
            found = bytes(self.data).find(pattern, place)
            if found >= 0:
                return self.start + found
            position = max(position + 1, self.start + len(self.data) - len(pattern) + 1)
        return -1
