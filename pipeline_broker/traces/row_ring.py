"""The ring in memory that rows are packed into.

Rules of this file: a full ring drops rows and counts them, it never makes a request wait.
"""

from struct import Struct

__all__ = ["NO_ROOM", "RowRing"]

NO_ROOM = -1


class RowRing:
    """A preallocated ring of packed rows with one writer (the event loop) and one reader (a thread).

    The two cursors only grow and each has one writer, so no lock is needed. The writer of a wide row packs it itself,
    between `claim` and `publish`: passing two dozen values through one more call costs a third of the whole.

    Args:
        layout: of a row.
        rows_max: capacity; a row that finds the ring full is dropped and counted.

    Attributes:
        row_bytes: of a row.
        pack_into: packs a row into `buffer`, at the position that was claimed.
        dropped: rows without room.
    """

    __slots__ = ("_read", "_rows_max", "_written", "buffer", "dropped", "pack_into", "row_bytes")

    def __init__(self, layout: Struct, rows_max: int) -> None:
        self.pack_into = layout.pack_into
        self.row_bytes = layout.size
        self.buffer = bytearray(layout.size * rows_max)
        self._rows_max = rows_max
        self._written = 0
        self._read = 0
        self.dropped = 0

    def __len__(self) -> int:
        """The number of rows that wait to be read."""
        return self._written - self._read

    def claim(self) -> int:
        """Where the next row goes, or NO_ROOM; the reader sees it after `publish`."""
        written = self._written
        if written - self._read >= self._rows_max:
            self.dropped += 1
            return NO_ROOM
        return (written % self._rows_max) * self.row_bytes

    def publish(self) -> None:
        """The row that was claimed is complete."""
        self._written += 1

    def append(self, *values: int) -> None:
        """Pack one row; drop and count it when the ring is full."""
        position = self.claim()
        if position != NO_ROOM:
            self.pack_into(self.buffer, position, *values)
            self.publish()

    def take(self) -> bytes:
        """The packed rows that were not read yet, oldest first."""
        read, written = self._read, self._written
        first, last = read % self._rows_max, written % self._rows_max
        if read == written:
            return b""
        view = memoryview(self.buffer)
        if first < last:
            rows = bytes(view[first * self.row_bytes : last * self.row_bytes])
        else:
            rows = bytes(view[first * self.row_bytes :]) + bytes(view[: last * self.row_bytes])
        self._read = written
        return rows
