"""A file whose bytes are in objects, or still in memory, as readers see it at one moment.

Rules of this file: values; a file never changes, but is replaced by another one.
"""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate, groupby
from typing import NamedTuple, TypeGuard

from pipeline_broker.log.archive.objects.file_map import Range
from pipeline_broker.log.journal.entry import Buffer

__all__ = ["ObjectFile", "Piece", "is_pending", "written_pieces"]

JOINED_BELOW_BYTES = 64 << 10


class Piece(NamedTuple):
    """Bytes that are in memory, and are not known to be in an object.

    Attributes:
        data: the bytes.
        place: where they are going to be, while they are on their way there; None where they are not.
    """

    data: Buffer
    place: Range | None = None

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
        """Those that are in memory, and not on their way to an object."""
        return sum(each.size_bytes for each in self.pieces if is_pending(each))

    @property
    def ranges(self) -> tuple[Range, ...]:
        """What of it is in objects."""
        return tuple(each for each in self.pieces if isinstance(each, Range))

    def goes_to(self, object_name: str) -> bool:
        """Whether something of it is on its way to an object."""
        return any(_goes_to(each, object_name) for each in self.pieces)

    def after_upload(self, object_name: str, *, has_arrived: bool) -> "ObjectFile":
        """The file when what was on its way to an object is there, or is only in memory again."""
        pieces: list[Range | Piece] = []
        for each in self.pieces:
            if not _goes_to(each, object_name):
                pieces.append(each)
            elif has_arrived and each.place is not None:
                pieces.append(each.place)
            else:
                pieces.append(Piece(each.data))
        return ObjectFile(pieces)

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
    place = None if piece.place is None else part_of(piece.place, start, size_bytes)
    assert not isinstance(place, Piece), "a part of a range is one"
    return Piece(memoryview(piece.data)[start : start + size_bytes], place)


def is_pending(piece: Range | Piece) -> TypeGuard[Piece]:
    """Whether it is in memory, and not on its way to an object."""
    return isinstance(piece, Piece) and piece.place is None


def _goes_to(piece: Range | Piece, object_name: str) -> TypeGuard[Piece]:
    return isinstance(piece, Piece) and piece.place is not None and piece.place.object_name == object_name


def written_pieces(parts: Sequence[Buffer]) -> Iterator[Piece]:
    """What is written: large parts as they are, which an upload copies once, and small ones together."""
    for is_large, run in groupby(parts, lambda part: len(part) >= JOINED_BELOW_BYTES and memoryview(part).readonly):
        if is_large:
            yield from map(Piece, run)
        elif written := b"".join(run):
            yield Piece(written)
