"""A map from archive files to ranges of bulk objects: values, changes and their encoding.

Small ranges are merged by size class (up to 32 B, 1 KiB, 32 KiB, 512 KiB): the last 32 ranges of a class become one,
and likewise 32 of the results. Ranges above 512 KiB are not merged. If a file grows by 16 KiB at a time, each byte is
copied twice. Smaller steps cost a few copies more.

Layout of changes (little-endian): count of objects 4, per object: length of its name 2, its size 8, the name; count of
changes 4, per change: length of the file's name 2, kept bytes 8 (-1: deleted), count of ranges 4, the name, per range:
number of its object 4, position 8, size 8.
"""

import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from pipeline_broker.base.buffer import Buffer
from pipeline_broker.log.journal.journal_port import ORIGIN_BYTES_MIN

__all__ = ["Change", "DamagedMapError", "FileMap", "Range", "cut", "decode_changes", "encode_changes", "mergeable"]

MERGED_RANGES = 32
# Limits of the size classes. The journal's objects are copied for batches above the last one, which then stay apart.
SMALL_BYTES = (*(MERGED_RANGES**power for power in range(1, 4)), ORIGIN_BYTES_MIN)
GONE = -1

_COUNT = struct.Struct("<I")
_OBJECT = struct.Struct("<HQ")
_CHANGE = struct.Struct("<HqI")
_RANGE = struct.Struct("<IQQ")


class DamagedMapError(Exception):
    pass


class Range(NamedTuple):
    object_name: str
    start: int
    size_bytes: int


class Change(NamedTuple):
    """A change of one file. It keeps a prefix, so that appending to a long file costs little.

    Attributes:
        kept_bytes: size of the prefix that stays; `GONE` if the file is deleted.
        ranges: the content after the prefix.
    """

    name: str
    kept_bytes: int
    ranges: tuple[Range, ...] = ()


class FileMap:
    """The ranges of all files, and the used bytes of each object.

    Attributes:
        files: the ranges of each file, in order.
        object_sizes: sizes in bytes of all objects that have a range in use.
        used_bytes: bytes of each object that files use.
    """

    def __init__(self) -> None:
        self.files: dict[str, tuple[Range, ...]] = {}
        self.object_sizes: dict[str, int] = {}
        self.used_bytes: dict[str, int] = {}

    def apply(self, changes: Iterable[Change], object_sizes: Mapping[str, int]) -> list[str]:
        """Apply changes; return the objects that no file uses any more.

        Args:
            object_sizes: sizes in bytes of the objects that the changes name.
        """
        self.object_sizes.update(object_sizes)
        # New objects are included: one without a range in use is unused from the start.
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
        return [Change(name, 0, ranges) for name, ranges in sorted(self.files.items())]


def cut(ranges: Sequence[Range], size_bytes: int) -> tuple[Range, ...]:
    """Return the first `size_bytes` bytes of the ranges, which must have at least that many."""
    kept: list[Range] = []
    for each in ranges:
        if size_bytes <= 0:
            break
        kept.append(each._replace(size_bytes=min(each.size_bytes, size_bytes)))
        size_bytes -= kept[-1].size_bytes
    assert size_bytes <= 0, "a file is cut within its length"
    return tuple(kept)


def mergeable(sizes: Sequence[int]) -> int:
    """Return how many of a file's last ranges should become one; 0 for none.

    Each size class is counted separately. Otherwise large ranges would be copied again for a few small ones.

    Args:
        sizes: sizes of all ranges of the file, in bytes.
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
    """Encode changes.

    Args:
        object_sizes: sizes in bytes, at least of the objects that the changes name.
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
    """Return the changes, and the sizes of the objects that they name.

    Raises:
        DamagedMapError: the bytes cannot be decoded.
    """
    try:
        reader = _Reader(bytes(data))
        objects = dict(reader.objects())
        names = list(objects)
        changes = list(reader.changes(names))
    except (struct.error, UnicodeDecodeError, IndexError) as error:
        raise DamagedMapError(f"the changes of the files cannot be read: {error}") from error
    if reader.position != len(data):
        raise DamagedMapError("the changes of the files end before the slot entry does")
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
            # A damaged count must not create a huge list.
            if range_count * _RANGE.size > len(self._data) - self.position:
                raise DamagedMapError("the changes of the files end too early")
            ranges: list[Range] = []
            for _ in range(range_count):
                number, start, size_bytes = self._take(_RANGE)
                ranges.append(Range(objects[number], start, size_bytes))
            yield Change(name, kept_bytes, tuple(ranges))
