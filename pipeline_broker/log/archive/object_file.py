"""A file whose bytes are in objects, or still in memory, as readers see it at one moment.

Rules of this file: values; a file never changes, but is replaced by another one.
"""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import NamedTuple

from pipeline_broker.log.archive.file_map import Range
from pipeline_broker.log.entry import Buffer

__all__ = ["ObjectFile", "Piece"]


class Piece(NamedTuple):
    """Bytes that are in memory and in no object yet."""

    data: Buffer

    @property
    def size_bytes(self) -> int:
        return len(self.data)


class ObjectFile:
    """A file as it is read now; never changed, but replaced."""

    __slots__ = ("_ends", "pieces", "size_bytes")

    def __init__(self, pieces: Sequence[Range | Piece] = ()) -> None:
        self.pieces = tuple(pieces)
        self._ends = tuple(accumulate(each.size_bytes for each in self.pieces))
        self.size_bytes = self._ends[-1] if self._ends else 0

    @property
    def pending_bytes(self) -> int:
        """Those in no object."""
        return sum(each.size_bytes for each in self.pieces if isinstance(each, Piece))

    @property
    def ranges(self) -> tuple[Range, ...]:
        """What of it is in objects."""
        return tuple(each for each in self.pieces if isinstance(each, Range))

    def cut_at(self, size_bytes: int) -> list[Range | Piece]:
        """The pieces of its beginning."""
        kept: list[Range | Piece] = []
        for each, end in zip(self.pieces, self._ends, strict=True):
            start = end - each.size_bytes
            if start >= size_bytes:
                break
            kept.append(each if end <= size_bytes else part_of(each, 0, size_bytes - start))
        return kept

    def between(self, start: int, end: int) -> Iterator[Range | Piece]:
        """The pieces that hold these bytes."""
        number = bisect_right(self._ends, start)
        while start < min(end, self.size_bytes):
            piece = self.pieces[number]
            first = start - (self._ends[number] - piece.size_bytes)
            size = min(end - start, piece.size_bytes - first)
            yield part_of(piece, first, size)
            start += size
            number += 1


def part_of(piece: Range | Piece, start: int, size_bytes: int) -> Range | Piece:
    """So many bytes of a piece."""
    if isinstance(piece, Range):
        return Range(piece.object_name, piece.start + start, size_bytes)
    return Piece(memoryview(piece.data)[start : start + size_bytes])
