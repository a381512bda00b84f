"""The in-memory ring of packed trace rows. A full ring drops and counts rows; it never makes a request wait."""

from struct import Struct

__all__ = ["RING_FULL", "RowRing"]

RING_FULL = -1


class RowRing:
    """A preallocated ring of packed rows with one writer (the event loop) and one reader (a thread).

    Args:
        rows_max: capacity in rows. A row that finds the ring full is dropped and counted.

    Attributes:
        row_bytes: the size of a row.
        pack_into: packs a row into `buffer`, at a claimed position.
        dropped: the number of dropped rows.
    """

    __slots__ = ("_read", "_rows_max", "_written", "buffer", "dropped", "pack_into", "row_bytes")

    def __init__(self, layout: Struct, rows_max: int) -> None:
        self.pack_into = layout.pack_into
        self.row_bytes = layout.size
        self.buffer = bytearray(layout.size * rows_max)
        self._rows_max = rows_max
        # Both cursors only grow, and each has one writer, so the ring needs no lock.
        self._written = 0
        self._read = 0
        self.dropped = 0

    def __len__(self) -> int:
        return self._written - self._read

    def claim(self) -> int:
        """Return the byte position of the next row, or count a dropped row and return RING_FULL.

        The reader sees the row after `publish`.

        Writers of wide rows pack into that position themselves: passing two dozen values through another call takes a
        third of the whole time.
        """
        written = self._written
        if written - self._read >= self._rows_max:
            self.dropped += 1
            return RING_FULL
        return (written % self._rows_max) * self.row_bytes

    def publish(self) -> None:
        # After packing: the reader takes all rows below this cursor.
        self._written += 1

    def append(self, *values: int) -> None:
        position = self.claim()
        if position != RING_FULL:
            self.pack_into(self.buffer, position, *values)
            self.publish()

    def take(self) -> bytes:
        # One read of each cursor: the writer may publish more rows during the copy, which the next call takes.
        read, written = self._read, self._written
        first, last = read % self._rows_max, written % self._rows_max
        if read == written:
            return b""
        view = memoryview(self.buffer)
        if first < last:
            rows = bytes(view[first * self.row_bytes : last * self.row_bytes])
        else:
            rows = bytes(view[first * self.row_bytes :]) + bytes(view[: last * self.row_bytes])
        # After the copy: advancing the cursor lets the writer overwrite these rows.
        self._read = written
        return rows
