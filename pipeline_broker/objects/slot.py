"""Slot objects: bytes <-> entries that became durable together.

Rules of this file: no I/O, and no knowledge of what an entry is. An entry has a key, under which it is grouped, and a
head, which the index repeats: whoever takes a log over learns what it needs from the end of an object. A checksum
covers every byte, and every length is held against what is left before it is used. What a checksum covers is not
trusted before the checksum was compared.

Layout (little-endian):

    header 48   magic 4, version 1, kind 1, zeros 2, node 4, generation 8, slot 8, nonce 16, CRC-32C 4 (of these)
    body        the entries, grouped by key, within a group in the order of the commit
    index       per group: key length 2, entry count 4, bytes 4, CRC-32C 4 (of these bytes), the key;
                then per entry of it: place in the commit 4, bytes 4, head length 2, the head
    trailer 64  the header without its checksum 44, index bytes 4, group count 4, entry count 4,
                CRC-32C 4 (of the index and the trailer so far), magic 4

The trailer repeats the header because a takeover reads only the end of an object, and must know whose it is. The first
bytes of an object are its writer's alone: they hold the nonce of one life of a process.
"""

import enum
import struct
from collections.abc import Sequence
from typing import NamedTuple

from pipeline_broker.files.file_system import Buffer
from pipeline_broker.records.checksum import crc32c

__all__ = [
    "FENCE_SIZE",
    "HEADER_SIZE",
    "TRAILER_SIZE",
    "DamagedSlotError",
    "EncodedSlot",
    "Group",
    "IndexEntry",
    "SlotEntry",
    "SlotHeader",
    "SlotIndex",
    "SlotKind",
    "check_group",
    "encode_slot",
    "read_header",
    "read_index",
    "read_slot",
    "tail_size",
]

MAGIC = b"PBSL"
END_MAGIC = b"LSBP"
VERSION = 1
NONCE_SIZE = 16
KEY_SIZE_MAX = HEAD_SIZE_MAX = (1 << 16) - 1
OBJECT_SIZE_MAX = (1 << 32) - 1
JOIN_BELOW_BYTES = 64 << 10  # smaller parts are copied into one buffer, larger ones are sent from where they are

_IDENTITY = struct.Struct("<4sBB2xiQQ16s")
_SUM = struct.Struct("<I")
_COUNTS = struct.Struct("<III")
_GROUP = struct.Struct("<HIII")
_ENTRY = struct.Struct("<IIH")

HEADER_SIZE = _IDENTITY.size + _SUM.size
TRAILER_SIZE = _IDENTITY.size + _COUNTS.size + _SUM.size + len(END_MAGIC)
FENCE_SIZE = HEADER_SIZE + TRAILER_SIZE
"""A fence has no entries, data always has: so a listing, which has sizes, tells one from the other."""


class DamagedSlotError(Exception):
    """Bytes that are not those of a slot object as it was made."""


class SlotKind(enum.IntEnum):
    """What an object in a slot says."""

    DATA = 1
    """Entries of a commit."""
    FENCE = 2
    """Its generation ends in front of it, or was to end there."""
    SNAPSHOT = 3
    """Entries that make all earlier ones unnecessary."""


class SlotHeader(NamedTuple):
    """Whose slot it is.

    Attributes:
        node: the broker that made it.
        generation, slot: its place in the log.
        nonce: drawn by the process that made it: tells its own objects from those of an earlier life.
    """

    kind: SlotKind
    node: int
    generation: int
    slot: int
    nonce: bytes


class SlotEntry(NamedTuple):
    """What goes into a slot.

    Attributes:
        key: what it is grouped by.
        head: what the index repeats of it.
        parts: its bytes.
        size_bytes: of all its parts.
    """

    key: bytes
    head: bytes
    parts: Sequence[Buffer]
    size_bytes: int


class EncodedSlot(NamedTuple):
    """An object to be stored.

    Attributes:
        parts: its bytes, in as few buffers as copying only small ones allows.
        size_bytes: of all of them.
        positions: where each entry begins, in the order in which they were given.
    """

    parts: list[Buffer]
    size_bytes: int
    positions: list[int]


class IndexEntry(NamedTuple):
    """What the index says of an entry.

    Attributes:
        place: in the commit, from 0.
        position, size_bytes: where its bytes are in the object.
    """

    place: int
    key: bytes
    position: int
    size_bytes: int
    head: bytes


class Group(NamedTuple):
    """The entries of one key.

    Attributes:
        position, size_bytes: where their bytes are in the object, one behind the other.
        checksum: CRC-32C of these bytes.
    """

    key: bytes
    position: int
    size_bytes: int
    checksum: int


class SlotIndex(NamedTuple):
    """What the end of an object says.

    Attributes:
        entries: in the order of the commit.
        groups: in the order of the object.
        object_size: how long the whole object must be.
    """

    header: SlotHeader
    entries: list[IndexEntry]
    groups: list[Group]
    object_size: int


def encode_slot(header: SlotHeader, entries: Sequence[SlotEntry]) -> EncodedSlot:
    """The object of a commit; of a fence, where there are no entries."""
    assert bool(entries) != (header.kind is SlotKind.FENCE), "a fence has no entries, and all else has some"
    identity = _IDENTITY.pack(MAGIC, VERSION, header.kind, header.node, header.generation, header.slot, header.nonce)
    by_key: dict[bytes, list[int]] = {}
    for place, entry in enumerate(entries):
        by_key.setdefault(entry.key, []).append(place)
    parts: list[Buffer] = [identity + _SUM.pack(crc32c(identity))]
    positions = [0] * len(entries)
    index: list[bytes] = []
    position, pack_entry = HEADER_SIZE, _ENTRY.pack
    for key, places in by_key.items():
        start, first_part = position, len(parts)
        heads: list[bytes] = []
        small: list[Buffer] = []
        for place in places:
            _, head, entry_parts, size_bytes = entries[place]
            positions[place] = position
            position += size_bytes
            heads += (pack_entry(place, size_bytes, len(head)), head)
            if size_bytes < JOIN_BELOW_BYTES:
                small += entry_parts
            else:
                _add_joined(parts, small)
                parts += entry_parts
                small = []
        _add_joined(parts, small)
        checksum = 0
        for part in parts[first_part:]:
            checksum = crc32c(part, checksum)
        index += (_GROUP.pack(len(key), len(places), position - start, checksum), key, *heads)
    joined = b"".join(index)
    checked = joined + identity + _COUNTS.pack(len(joined), len(by_key), len(entries))
    parts.append(checked + _SUM.pack(crc32c(checked)) + END_MAGIC)
    size_bytes = position + len(joined) + TRAILER_SIZE
    assert size_bytes <= OBJECT_SIZE_MAX, "a slot must stay below 4 GiB"
    return EncodedSlot(parts, size_bytes, positions)


def _add_joined(parts: list[Buffer], small: list[Buffer]) -> None:
    if small:
        parts.append(b"".join(small))


def read_header(head: Buffer) -> SlotHeader:
    """Whose object begins with these bytes; raises DamagedSlotError."""
    if len(head) < HEADER_SIZE:
        raise DamagedSlotError("it is shorter than the header of a slot")
    identity = bytes(head[: _IDENTITY.size])
    if _SUM.unpack_from(head, _IDENTITY.size)[0] != crc32c(identity):
        raise DamagedSlotError("its header does not match its checksum")
    return _header_of(identity)


def _header_of(identity: bytes) -> SlotHeader:
    magic, version, kind, node, generation, slot, nonce = _IDENTITY.unpack(identity)
    if magic != MAGIC:
        raise DamagedSlotError("it is no slot")
    if version != VERSION or kind not in tuple(SlotKind):
        raise DamagedSlotError(f"version {version}, kind {kind}: it was made by another version")
    return SlotHeader(SlotKind(kind), node, generation, slot, nonce)


def tail_size(tail: Buffer) -> int:
    """How many bytes from the end on `read_index` needs, told by the last ones of an object.

    Raises:
        DamagedSlotError: there are fewer than a trailer has, or these are none.
    """
    if len(tail) < TRAILER_SIZE or tail[-len(END_MAGIC) :] != END_MAGIC:
        raise DamagedSlotError("it does not end as a slot does")
    index_size: int = _COUNTS.unpack_from(tail, len(tail) - TRAILER_SIZE + _IDENTITY.size)[0]
    return index_size + TRAILER_SIZE


def read_index(tail: Buffer) -> SlotIndex:
    """What an object holds, told by its end: at least `tail_size` bytes; raises DamagedSlotError."""
    size = tail_size(tail)
    if size > len(tail):
        raise DamagedSlotError("its index is longer than what is there")
    tail = bytes(tail[len(tail) - size :])
    checked = size - len(END_MAGIC) - _SUM.size
    if _SUM.unpack_from(tail, checked)[0] != crc32c(memoryview(tail)[:checked]):
        raise DamagedSlotError("its index does not match its checksum")
    index_size = size - TRAILER_SIZE
    header = _header_of(tail[index_size : index_size + _IDENTITY.size])
    _, group_count, entry_count = _COUNTS.unpack_from(tail, index_size + _IDENTITY.size)
    try:
        entries, groups, end = _index_of(tail, index_size, group_count)
    except struct.error:
        raise DamagedSlotError("its index is shorter than its entries need") from None
    entries.sort()
    if [entry.place for entry in entries] != list(range(entry_count)):
        raise DamagedSlotError("its index does not have every entry once")
    return SlotIndex(header, entries, groups, end + size)


def _index_of(index: bytes, size: int, group_count: int) -> tuple[list[IndexEntry], list[Group], int]:
    """Entries, groups, and where the body ends; struct.error where the index does."""
    entries: list[IndexEntry] = []
    groups: list[Group] = []
    at, position = 0, HEADER_SIZE
    for _ in range(group_count):
        key_size, count, group_size, checksum = _GROUP.unpack_from(index, at)
        at += _GROUP.size
        key = index[at : at + key_size]
        at += key_size
        groups.append(Group(key, position, group_size, checksum))
        end = position + group_size
        for _ in range(count):
            place, size_bytes, head_size = _ENTRY.unpack_from(index, at)
            at += _ENTRY.size
            entries.append(IndexEntry(place, key, position, size_bytes, index[at : at + head_size]))
            at += head_size
            position += size_bytes
            if at > size:
                raise DamagedSlotError("its index is shorter than its entries need")
        if position != end:
            raise DamagedSlotError("its entries do not fill their group")
    if at != size:
        raise DamagedSlotError("bytes are left behind its index")
    return entries, groups, position


def check_group(group: Group, data: Buffer) -> None:
    """Compare the bytes of a group with their checksum; raises DamagedSlotError."""
    if len(data) != group.size_bytes or crc32c(data) != group.checksum:
        raise DamagedSlotError(f"its bytes at {group.position} do not match their checksum")


def read_slot(data: Buffer) -> SlotIndex:
    """What a whole object holds, every byte of which was looked at; raises DamagedSlotError."""
    header, index = read_header(data), read_index(data)
    if header != index.header:
        raise DamagedSlotError("its end belongs to another object than its beginning")
    if index.object_size != len(data):
        raise DamagedSlotError(f"it has {len(data)} bytes in place of {index.object_size}")
    view = memoryview(data)
    for group in index.groups:
        check_group(group, view[group.position : group.position + group.size_bytes])
    return index
