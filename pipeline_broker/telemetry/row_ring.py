"""A trace ring whose rows are packed by the caller.

Rules of this file: as in `stages.timeline.TraceRing`, one writer and one reader, and a row without room is dropped
and counted. The writer of a wide row packs it itself, between `claim` and `publish`: passing two dozen values through
one more call costs a third of the whole.
"""

from stages.timeline import TraceRing

__all__ = ["NO_ROOM", "RowRing"]

NO_ROOM = -1


class RowRing(TraceRing):
    """A ring with a claim in front of each row.

    Attributes:
        pack_into: of the row's format; packs at the position that was claimed.
        buffer: what it packs into.
    """

    __slots__ = ("buffer", "pack_into")

    def __init__(self, row_format: str, rows_max: int) -> None:
        super().__init__(row_format, rows_max)
        self.pack_into = self._pack_into
        self.buffer = self._buffer

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
