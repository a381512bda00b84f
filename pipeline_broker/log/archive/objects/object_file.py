"""An immutable view of one archive file, as ranges of objects and pieces in memory."""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate, groupby
from typing import NamedTuple, TypeGuard

from pipeline_broker.base.buffer import Buffer
from pipeline_broker.log.archive.objects.file_map import Range

__all__ = ["ObjectFile", "Piece", "is_pending", "written_pieces"]

JOINED_BELOW_BYTES = 64 << 10


class Piece(NamedTuple):
    """Bytes in memory that may not be in an object yet.

    Attributes:
        data: the bytes.
        place: their range in the object that is being uploaded; None while no upload has started.
    """

    data: Buffer
    place: Range | None = None

    @property
    def size_bytes(self) -> int:
        return len(self.data)


class ObjectFile:
    """The content of a file at one moment. Immutable; a change creates another one."""

    __slots__ = ("_ends", "pieces", "size_bytes")

    def __init__(self, pieces: Sequence[Range | Piece] = ()) -> None:
        self.pieces = tuple(pieces)
        self._ends = tuple(accumulate(each.size_bytes for each in self.pieces))
        self.size_bytes = self._ends[-1] if self._ends else 0

    @property
    def pending_bytes(self) -> int:
        return sum(each.size_bytes for each in self.pieces if is_pending(each))

    @property
    def ranges(self) -> tuple[Range, ...]:
        return tuple(each for each in self.pieces if isinstance(each, Range))

    def goes_to(self, object_name: str) -> bool:
        return any(_goes_to(each, object_name) for each in self.pieces)

    def after_upload(self, object_name: str, *, has_arrived: bool) -> "ObjectFile":
        """Return the file after the upload of an object succeeded, or failed so that its pieces are pending again."""
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
        kept: list[Range | Piece] = []
        for each, end in zip(self.pieces, self._ends, strict=True):
            start = end - each.size_bytes
            if start >= size_bytes:
                break
            kept.append(each if end <= size_bytes else part_of(each, 0, size_bytes - start))
        return kept

    def between(self, start: int, end: int) -> Iterator[Range | Piece]:
        number = bisect_right(self._ends, start)
        while start < min(end, self.size_bytes):
            piece = self.pieces[number]
            first = start - (self._ends[number] - piece.size_bytes)
            size = min(end - start, piece.size_bytes - first)
            yield part_of(piece, first, size)
            start += size
            number += 1


def part_of(piece: Range | Piece, start: int, size_bytes: int) -> Range | Piece:
    if isinstance(piece, Range):
        return Range(piece.object_name, piece.start + start, size_bytes)
    place = None if piece.place is None else part_of(piece.place, start, size_bytes)
    assert not isinstance(place, Piece), "part_of() of a Range returns a Range"
    return Piece(memoryview(piece.data)[start : start + size_bytes], place)


def is_pending(piece: Range | Piece) -> TypeGuard[Piece]:
    return isinstance(piece, Piece) and piece.place is None


def _goes_to(piece: Range | Piece, object_name: str) -> TypeGuard[Piece]:
    return isinstance(piece, Piece) and piece.place is not None and piece.place.object_name == object_name


def written_pieces(parts: Sequence[Buffer]) -> Iterator[Piece]:
    """Yield written parts as pieces.

    Small parts are joined. Large read-only parts are kept, and the upload copies them once.
    """
    for is_large, run in groupby(parts, lambda part: len(part) >= JOINED_BELOW_BYTES and memoryview(part).readonly):
        if is_large:
            yield from map(Piece, run)
        elif written := b"".join(run):
            yield Piece(written)
