"""The format of slot objects: the entries of one commit, with an index at the end.

No I/O, and no knowledge of the entries. Every byte is covered by a checksum, and nothing is used before its checksum
was compared. Every length is compared with the remaining bytes.

Layout (little-endian):

    header 48   magic 4, version 1, kind 1, zeros 2, node 4, generation 8, slot 8, nonce 16, CRC-32C 4 (of these)
    body        the entries, grouped by key, within a group in the order of the commit
    index       per group: key length 2, entry count 4, bytes 4, CRC-32C 4 (of these bytes), the key;
                then per entry of it: position in the commit 4, bytes 4, head length 2, the head
    trailer 64  the header without its checksum 44, index bytes 4, group count 4, entry count 4,
                CRC-32C 4 (of the index and the trailer so far), magic 4

An entry has a key, by which it is grouped, and a head, which the index repeats. So a takeover reads only the end of
each object. The trailer repeats the header for the same reason: the reader must know who wrote the object. The header
is unique to its writer, because it holds the nonce of one run of a process (see `settled_store`).
"""

import enum
import struct
from collections.abc import Sequence
from typing import NamedTuple

from pipeline_broker.base.buffer import Buffer
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
JOIN_BELOW_BYTES = 64 << 10  # entries below this size are copied into one buffer, larger ones are sent uncopied

_IDENTITY = struct.Struct("<4sBB2xiQQ16s")
_SUM = struct.Struct("<I")
_COUNTS = struct.Struct("<III")
_GROUP = struct.Struct("<HIII")
_ENTRY = struct.Struct("<IIH")

HEADER_SIZE = _IDENTITY.size + _SUM.size
TRAILER_SIZE = _IDENTITY.size + _COUNTS.size + _SUM.size + len(END_MAGIC)
FENCE_SIZE = HEADER_SIZE + TRAILER_SIZE
"""Size of a fence in bytes. Data always has entries, so the sizes in a listing tell fences from data."""


class DamagedSlotError(Exception):
    pass


class SlotKind(enum.IntEnum):
    DATA = 1
    """The entries of a commit."""
    FENCE = 2
    """The end of a generation, or an attempt to end it there."""
    SNAPSHOT = 3
    """Entries that replace all earlier ones."""


class SlotHeader(NamedTuple):
    """The identity of a slot object.

    Attributes:
        node: node id of the broker that wrote the object.
        generation, slot: the place of the object in the log.
        nonce: 16 random bytes of the process that wrote the object; distinguishes its objects from those of earlier
            runs.
    """

    kind: SlotKind
    node: int
    generation: int
    slot: int
    nonce: bytes


class SlotEntry(NamedTuple):
    """An entry to write.

    Attributes:
        key: entries with the same key form a group.
        head: bytes that the index repeats.
        parts: the bytes of the entry.
        size_bytes: total size of `parts`.
    """

    key: bytes
    head: bytes
    parts: Sequence[Buffer]
    size_bytes: int


class EncodedSlot(NamedTuple):
    """A slot object to store.

    Attributes:
        parts: the bytes of the object; small entries are joined.
        size_bytes: total size of `parts`.
        positions: start of each entry in the object, in the order given to `encode_slot`.
    """

    parts: list[Buffer]
    size_bytes: int
    positions: list[int]


class IndexEntry(NamedTuple):
    """An entry in the index.

    Attributes:
        place: number of the entry in the commit, starting at 0.
        position, size_bytes: the range of its bytes in the object.
    """

    place: int
    key: bytes
    position: int
    size_bytes: int
    head: bytes


class Group(NamedTuple):
    """The entries of one key.

    Attributes:
        position, size_bytes: the range of their bytes in the object.
        checksum: CRC-32C of these bytes.
    """

    key: bytes
    position: int
    size_bytes: int
    checksum: int


class SlotIndex(NamedTuple):
    """The decoded end of a slot object.

    Attributes:
        entries: the entries in the order of the commit.
        groups: the groups in the order of the object.
        object_size: size that the whole object must have.
    """

    header: SlotHeader
    entries: list[IndexEntry]
    groups: list[Group]
    object_size: int


def encode_slot(header: SlotHeader, entries: Sequence[SlotEntry]) -> EncodedSlot:
    """Encode the object of a commit or a snapshot; of a fence if `entries` is empty."""
    # FENCE_SIZE tells fences from data, so only a fence may be empty.
    assert bool(entries) != (header.kind is SlotKind.FENCE), "a fence has no entries, every other slot has some"
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
    """Decode the header at the start of an object.

    Raises:
        DamagedSlotError: the bytes are too few, damaged, or of another kind or version.
    """
    if len(head) < HEADER_SIZE:
        raise DamagedSlotError("it is shorter than the header of a slot")
    identity = bytes(head[: _IDENTITY.size])
    if _SUM.unpack_from(head, _IDENTITY.size)[0] != crc32c(identity):
        raise DamagedSlotError("its header does not match its checksum")
    return _header_of(identity)


def _header_of(identity: bytes) -> SlotHeader:
    magic, version, kind, node, generation, slot, nonce = _IDENTITY.unpack(identity)
    if magic != MAGIC:
        raise DamagedSlotError("it has another magic number")
    if version != VERSION or kind not in tuple(SlotKind):
        raise DamagedSlotError(f"another version of the broker wrote it: version {version}, kind {kind}")
    return SlotHeader(SlotKind(kind), node, generation, slot, nonce)


def tail_size(tail: Buffer) -> int:
    """Return the number of bytes at the end of an object that `read_index` needs.

    Args:
        tail: the last bytes of the object, at least `TRAILER_SIZE`.

    Raises:
        DamagedSlotError: the bytes are too few, or not the end of a slot.
    """
    if len(tail) < TRAILER_SIZE or tail[-len(END_MAGIC) :] != END_MAGIC:
        raise DamagedSlotError("its end is damaged or missing")
    index_size: int = _COUNTS.unpack_from(tail, len(tail) - TRAILER_SIZE + _IDENTITY.size)[0]
    return index_size + TRAILER_SIZE


def read_index(tail: Buffer) -> SlotIndex:
    """Decode the index at the end of an object.

    Args:
        tail: the last bytes of the object, at least `tail_size`.

    Raises:
        DamagedSlotError: the bytes are too few, damaged, or of another kind or version.
    """
    size = tail_size(tail)
    if size > len(tail):
        raise DamagedSlotError("its index is longer than the bytes that were read")
    # The checksum comes before everything else: counts and sizes are trusted afterwards.
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
        raise DamagedSlotError("its index does not name every entry exactly once")
    return SlotIndex(header, entries, groups, end + size)


def _index_of(index: bytes, size: int, group_count: int) -> tuple[list[IndexEntry], list[Group], int]:
    """Return the entries, the groups and the end of the body.

    Raises:
        DamagedSlotError: the index contradicts itself.
        struct.error: the index is cut off.
    """
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
            # The buffer also holds the trailer, so reading past the index would not fail by itself.
            if at > size:
                raise DamagedSlotError("its index is shorter than its entries need")
        if position != end:
            raise DamagedSlotError("its entries do not fill their group")
    if at != size:
        raise DamagedSlotError("bytes are left after its index")
    return entries, groups, position


def check_group(group: Group, data: Buffer) -> None:
    """Raise DamagedSlotError unless the bytes of a group match their size and checksum."""
    if len(data) != group.size_bytes or crc32c(data) != group.checksum:
        raise DamagedSlotError(f"its bytes at {group.position} do not match their checksum")


def read_slot(data: Buffer) -> SlotIndex:
    """Decode a whole object and verify every byte.

    Raises:
        DamagedSlotError: the object is not an intact slot.
    """
    header, index = read_header(data), read_index(data)
    if header != index.header:
        raise DamagedSlotError("its beginning and its end belong to different objects")
    if index.object_size != len(data):
        raise DamagedSlotError(f"it has {len(data)} bytes instead of {index.object_size}")
    view = memoryview(data)
    for group in index.groups:
        check_group(group, view[group.position : group.position + group.size_bytes])
    return index
