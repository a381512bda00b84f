"""Where the files of an archive lie in bulk objects: values, their changes, and bytes <-> changes.

Rules of this file: no I/O. A file is a list of ranges of objects, one behind the other. A change keeps a file up to
some byte and says what follows, so that a file that grows by a little costs little, however long it is. What no file
has a range of is no use: the map counts what is used of each object.

Small ranges are merged: where the last 32 of a file are all small, they become one, and so again for 32 of those. So a
byte of a file that grows by 16 KiB is copied twice, one of a smaller file a few times more, and a reader finds pieces
of about a MiB, which is what it gets at once.

Layout of changes (little-endian): count of objects 4, per object: length of its name 2, its size 8, the name; count of
changes 4, per change: length of the file's name 2, kept bytes 8 (-1: the file is gone), count of ranges 4, the name,
per range: number of its object 4, position 8, size 8.
"""

import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from pipeline_broker.files.file_system import Buffer

__all__ = ["Change", "DamagedMapError", "FileMap", "Range", "cut", "decode_changes", "encode_changes", "mergeable"]

MERGED_RANGES = 32
SMALL_BYTES = tuple(MERGED_RANGES**power for power in range(1, 5))  # 32 of a kind become one of the next at most
GONE = -1

_COUNT = struct.Struct("<I")
_OBJECT = struct.Struct("<HQ")
_CHANGE = struct.Struct("<HqI")
_RANGE = struct.Struct("<IQQ")


class DamagedMapError(Exception):
    """Bytes that are no changes of a map."""


class Range(NamedTuple):
    """A piece of an object."""

    object_name: str
    start: int
    size_bytes: int


class Change(NamedTuple):
    """What becomes of a file.

    Attributes:
        name: of the file.
        kept_bytes: of what it was, from its beginning on; `GONE` when there is no such file any more.
        ranges: what follows.
    """

    name: str
    kept_bytes: int
    ranges: tuple[Range, ...] = ()


class FileMap:
    """All files, by name, and what is used of each object.

    Attributes:
        files: the ranges of each.
        object_sizes: of all objects that a file has a range of, in bytes.
        used_bytes: the bytes of these that files have.
    """

    def __init__(self) -> None:
        self.files: dict[str, tuple[Range, ...]] = {}
        self.object_sizes: dict[str, int] = {}
        self.used_bytes: dict[str, int] = {}

    def apply(self, changes: Iterable[Change], object_sizes: Mapping[str, int]) -> list[str]:
        """Make changes; returns the objects that no file has a range of any more.

        Args:
            object_sizes: of the objects that the changes name, in bytes.
        """
        self.object_sizes.update(object_sizes)
        touched = set(object_sizes)
        for name, kept_bytes, added in changes:
            before = self.files.pop(name, ())
            for each in before:
                self._use(each, -1)
                touched.add(each.object_name)
            if kept_bytes == GONE:
                continue
            after = self.files[name] = (*cut(before, kept_bytes), *added)
            for each in after:
                self._use(each, 1)
        unused = sorted(name for name in touched if not self.used_bytes.get(name))
        for name in unused:
            self.used_bytes.pop(name, None)
            self.object_sizes.pop(name, None)
        return unused

    def _use(self, one: Range, sign: int) -> None:
        self.used_bytes[one.object_name] = self.used_bytes.get(one.object_name, 0) + sign * one.size_bytes

    def as_changes(self) -> list[Change]:
        """The changes that make all of it out of nothing."""
        return [Change(name, 0, ranges) for name, ranges in sorted(self.files.items())]


def cut(ranges: Sequence[Range], size_bytes: int) -> tuple[Range, ...]:
    """So many bytes from the beginning on, which there are."""
    kept: list[Range] = []
    for each in ranges:
        if size_bytes <= 0:
            break
        kept.append(each._replace(size_bytes=min(each.size_bytes, size_bytes)))
        size_bytes -= kept[-1].size_bytes
    assert size_bytes <= 0, "a file is cut within its length"
    return tuple(kept)


def mergeable(sizes: Sequence[int]) -> int:
    """How many of the last ranges of a file, by their sizes in bytes, are to become one; 0 for none.

    Those of each kind are counted apart: to merge large ones for the sake of some small ones would copy them each time.
    """
    below = 0
    for limit in SMALL_BYTES:
        small = next((n for n, size in enumerate(reversed(sizes)) if size > limit), len(sizes))
        last = sizes[len(sizes) - small :]
        if sum(size > below for size in last) >= MERGED_RANGES:
            return small
        below = limit
    return 0


def encode_changes(changes: Sequence[Change], object_sizes: Mapping[str, int]) -> bytes:
    """The bytes of changes.

    Args:
        object_sizes: of the objects that they name, at least.
    """
    numbers: dict[str, int] = {}
    body = bytearray()
    for name, kept_bytes, ranges in changes:
        encoded = name.encode()
        body += _CHANGE.pack(len(encoded), kept_bytes, len(ranges)) + encoded
        for object_name, start, size_bytes in ranges:
            number = numbers.setdefault(object_name, len(numbers))
            body += _RANGE.pack(number, start, size_bytes)
    head = bytearray(_COUNT.pack(len(numbers)))
    for name in numbers:
        encoded = name.encode()
        head += _OBJECT.pack(len(encoded), object_sizes[name]) + encoded
    return bytes(head + _COUNT.pack(len(changes)) + body)


def decode_changes(data: Buffer) -> tuple[list[Change], dict[str, int]]:
    """The changes, and the sizes of the objects that they name; raises DamagedMapError."""
    try:
        reader = _Reader(bytes(data))
        objects = dict(reader.objects())
        names = list(objects)
        changes = list(reader.changes(names))
    except (struct.error, UnicodeDecodeError, IndexError) as error:
        raise DamagedMapError(f"the changes of the files cannot be read: {error}") from error
    if reader.position != len(data):
        raise DamagedMapError("there are bytes behind the changes of the files")
    return changes, objects


class _Reader:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self.position = 0

    def _take(self, layout: struct.Struct) -> tuple[int, ...]:
        values: tuple[int, ...] = layout.unpack_from(self._data, self.position)
        self.position += layout.size
        return values

    def _text(self, size_bytes: int) -> str:
        end = self.position + size_bytes
        if end > len(self._data):
            raise DamagedMapError("the changes of the files end too early")
        text = self._data[self.position : end].decode()
        self.position = end
        return text

    def objects(self) -> Iterator[tuple[str, int]]:
        (count,) = self._take(_COUNT)
        for _ in range(count):
            length, size_bytes = self._take(_OBJECT)
            yield self._text(length), size_bytes

    def changes(self, objects: Sequence[str]) -> Iterator[Change]:
        (count,) = self._take(_COUNT)
        for _ in range(count):
            length, kept_bytes, range_count = self._take(_CHANGE)
            name = self._text(length)
            if range_count * _RANGE.size > len(self._data) - self.position:
                raise DamagedMapError("the changes of the files end too early")
            ranges: list[Range] = []
            for _ in range(range_count):
                number, start, size_bytes = self._take(_RANGE)
                ranges.append(Range(objects[number], start, size_bytes))
            yield Change(name, kept_bytes, tuple(ranges))
