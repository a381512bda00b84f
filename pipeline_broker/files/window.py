"""A window into a file that is read forwards, so memory does not grow with the file."""

from __future__ import annotations

from collections.abc import Iterator

from pipeline_broker.base.buffer import Buffer
from pipeline_broker.files.file_system import ReadableFile

__all__ = ["Window"]

WINDOW_BYTES = 4 << 20
"""Default size of one read of a journal or manifest."""


class Window:
    """A window into a file, which skips holes when it searches.

    Attributes:
        size_bytes: size of the file when the window was made.
        start: position in the file of the first byte of `data`.
        data: the bytes read last; kept until others are needed.
    """

    def __init__(self, source: ReadableFile, window_bytes: int = WINDOW_BYTES) -> None:
        self.source = source
        self._window_bytes = window_bytes
        self.size_bytes = source.size_bytes()
        self.start = 0
        self.data: Buffer = b""

    def ensure(self, position: int, size_bytes: int) -> int:
        """Load a range, shorter at the end of the file, into `data`; return the index of its first byte in `data`.

        A caller may ask for more than the window if it has verified that length (see `is_long`).
        """
        if not self.start <= position <= position + size_bytes <= self.start + len(self.data):
            self.data = b""  # frees the old window first, so that memory never holds two
            self.start = position
            self.data = self.source.read(max(self._window_bytes, size_bytes), position)
        return position - self.start

    def is_long(self, size_bytes: int) -> bool:
        """Return whether data exceeds the window, so that `pieces` should verify it before `ensure` loads it."""
        return size_bytes > self._window_bytes

    def pieces(self, position: int, end: int) -> Iterator[Buffer]:
        """Yield the bytes between two positions in pieces; fewer if the file ends first."""
        while position < end and (piece := self.source.read(min(self._window_bytes, end - position), position)):
            yield piece
            position += len(piece)

    def find(self, pattern: bytes, position: int) -> int:
        """Return the next position of the pattern, or -1.

        Args:
            pattern: not only zeros.
            position: the start of the search.
        """
        assert any(pattern), "a pattern of zeros could be in a hole, and holes are skipped"
        while position + len(pattern) <= self.size_bytes:
            # The pattern may begin with zeros, and these may be the last bytes of the hole.
            position = max(position, self.source.data_from(position) - len(pattern) + 1)
            start = self.ensure(position, len(pattern))
            found = bytes(self.data).find(pattern, start)
            if found >= 0:
                return self.start + found
            position = max(position + 1, self.start + len(self.data) - len(pattern) + 1)
        return -1
