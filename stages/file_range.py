"""Ranges of files in responses. A transport may send them without a copy of their bytes in this process."""

from __future__ import annotations

from typing import Protocol, final

__all__ = ["FileRange", "RangeSource"]


class RangeSource(Protocol):
    """The file of a range, readable until the response has left; any thread may use it."""

    def send_to(self, descriptor: int, position: int, size_bytes: int) -> int:
        """Send bytes from a position to a socket, and return their number; never waits.

        Returns 0 if the bytes are not in memory. Then call `load` before the next attempt.

        Raises:
            BlockingIOError: the socket takes no bytes.
            OSError: the connection or the file is broken.
        """

    def load(self, position: int, size_bytes: int) -> None:
        """Load bytes into memory, for `send_to`; may wait for a disk, and raises OSError."""

    def read(self, position: int, size_bytes: int) -> bytes:
        """Return these bytes; may wait for a disk, and raises OSError."""


@final
class FileRange:
    """A part of a response that lies in a file: `size_bytes` bytes at `position`."""

    __slots__ = ("position", "size_bytes", "source")

    def __init__(self, source: RangeSource, position: int, size_bytes: int) -> None:
        self.source = source
        self.position = position
        self.size_bytes = size_bytes

    def __len__(self) -> int:
        return self.size_bytes

    def __bytes__(self) -> bytes:
        return self.source.read(self.position, self.size_bytes)

    def after(self, count: int) -> FileRange:
        return FileRange(self.source, self.position + count, self.size_bytes - count)

    def load(self) -> None:
        self.source.load(self.position, self.size_bytes)
