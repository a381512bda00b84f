"""Journal frames: bytes <-> commits.

Rules of this file: no I/O. One frame is one commit: it is valid as a whole or not there. Every length is held against
what is left before it is used. A frame names the segment it was written for, so what an earlier life of the same disk
space left behind is foreign, however intact.

Layout (little-endian): magic 4, CRC-32C 4 (of all that follows it), body length 4, entry count 4, segment identity 8,
first LSN 8, durable LSN 8, then the body: per entry topic id 16, partition 4, batch length 4, batch.
An entry's LSN is the frame's first plus its place in it. All entries below the durable LSN were synced before this
frame was written: a damaged frame that a later one declares durable is no torn tail but damage.
"""

import struct
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from pipeline_broker.log.journal.entry import Buffer, JournalEntry
from pipeline_broker.records.checksum import crc32c

MAGIC = 0x4A504250  # "PBPJ"
MAGIC_BYTES = MAGIC.to_bytes(4, "little")

_SUM = struct.Struct("<II")
_CHECKED_HEADER = struct.Struct("<IIQQQ")
_ENTRY = struct.Struct("<16sii")
_LENGTH = struct.Struct("<i")

_ENTRY_KEY_SIZE = 20
ENTRY_OVERHEAD = _ENTRY.size
CHECKED_FROM = _SUM.size
FRAME_HEADER_SIZE = _SUM.size + _CHECKED_HEADER.size
BODY_SIZE_MAX = (1 << 31) - 1
RUN_FRAMES_MAX = RUN_ENTRIES_MAX = 64  # then whoever shares the interpreter has a turn
JOIN_BELOW_BYTES = 64 << 10  # smaller parts are copied into one buffer, larger ones are written from where they are

_NEW = tuple.__new__  # straight to the tuple's constructor, for every batch

assert _ENTRY_KEY_SIZE + _LENGTH.size == ENTRY_OVERHEAD


class FrameHeader(NamedTuple):
    """The fields before the body."""

    magic: int
    crc: int
    body_size: int
    entry_count: int
    identity: int
    first_lsn: int
    durable_lsn: int


class StoredEntry(NamedTuple):
    """An entry as a frame holds it."""

    key: bytes  # topic id and partition, see `entry_key`
    place: int  # of the batch in the journal
    batch: memoryview  # of the buffer that was read


_HEADER = struct.Struct("<IIIIQQQ")
_IDENTITY = slice(16, 24)
assert _HEADER.size == FRAME_HEADER_SIZE


def entry_key(topic_id: bytes, partition: int) -> bytes:
    """What an entry begins with: who the batch belongs to."""
    return _ENTRY.pack(topic_id, partition, 0)[:_ENTRY_KEY_SIZE]


def split_key(key: bytes) -> tuple[bytes, int]:
    """The topic id and the partition."""
    return key[:16], int.from_bytes(key[16:], "little", signed=True)


def encode_frame(
    entries: Sequence[JournalEntry], identity: int, first_lsn: int, durable_lsn: int, position: int
) -> list[Buffer]:
    """The frame in as few parts as copying only small batches allows; gives each entry its position.

    `position` is that of the frame.
    """
    chunks: list[Buffer] = []
    small: list[Buffer] = []
    pack_length = _LENGTH.pack
    start = position = position + FRAME_HEADER_SIZE
    for entry in entries:
        size = entry.size_bytes
        small += (entry.log.entry_key, pack_length(size))
        if size < JOIN_BELOW_BYTES:
            small += entry.parts
        else:
            chunks.append(b"".join(small))
            chunks += entry.parts
            small = []
        entry.position = position = position + ENTRY_OVERHEAD
        position += size
    if small:
        chunks.append(b"".join(small))
    body_size = position - start
    assert body_size <= BODY_SIZE_MAX, "a commit must stay below 2 GiB"
    checked = _CHECKED_HEADER.pack(body_size, len(entries), identity, first_lsn, durable_lsn)
    crc = crc32c(checked)
    for chunk in chunks:
        crc = crc32c(chunk, crc)
    return [_SUM.pack(MAGIC, crc) + checked, *chunks]


def read_frame_header(buffer: Buffer, position: int, available: int) -> FrameHeader | None:
    """The header at `position`, None when no frame of at most `available` bytes can start there.

    `available` counts from `position` and may reach beyond the buffer.
    """
    if available < FRAME_HEADER_SIZE or len(buffer) - position < FRAME_HEADER_SIZE:
        return None
    header = tuple.__new__(FrameHeader, _HEADER.unpack_from(buffer, position))
    if header.magic != MAGIC or header.body_size > min(available - FRAME_HEADER_SIZE, BODY_SIZE_MAX):
        return None
    return header


def is_intact(header: FrameHeader, buffer: Buffer, position: int) -> bool:
    """Whether the whole frame, which must lie within the buffer, matches its checksum."""
    end = position + FRAME_HEADER_SIZE + header.body_size
    return crc32c(memoryview(buffer)[position + CHECKED_FROM : end]) == header.crc


def seems_of_segment(buffer: Buffer, position: int, identity: int) -> bool:
    """Whether bytes that are no intact frame of the segment began as one, or as the first part of one.

    Space that is used again holds frames of other identities, which are whole from the first that is not overwritten:
    so who has the magic and is not whole was written for this segment, and so was who has its identity.
    """
    header = read_frame_header(buffer, position, len(buffer) - position)
    if header is not None and header.identity != identity and is_intact(header, buffer, position):
        return False
    head = bytes(buffer[position : position + FRAME_HEADER_SIZE])
    has_magic = bool(head) and head.startswith(MAGIC_BYTES[: len(head)])
    return has_magic or head[_IDENTITY] == identity.to_bytes(8, "little")


def iterate_entries(header: FrameHeader, buffer: Buffer, position: int, place: int) -> Iterator[StoredEntry]:
    """The entries of an intact frame; raises ValueError when they do not fill it (a writer's mistake).

    `place` is where the buffer begins in the journal.
    """
    start = position + FRAME_HEADER_SIZE
    entries: list[StoredEntry] = []
    _add_entries(entries, buffer, memoryview(buffer), start, start + header.body_size, header.entry_count, place)
    yield from entries


def _add_entries(
    entries: list[StoredEntry], buffer: Buffer, view: memoryview, start: int, end: int, count: int, place: int
) -> None:
    unpack_length, add = _LENGTH.unpack_from, entries.append
    for _ in range(count):
        batch = start + ENTRY_OVERHEAD
        if batch > end:
            raise ValueError("a frame has fewer bytes than its entries need")
        (size,) = unpack_length(buffer, start + _ENTRY_KEY_SIZE)
        if not 0 <= size <= end - batch:
            raise ValueError("an entry is longer than its frame")
        key = bytes(buffer[start : start + _ENTRY_KEY_SIZE])
        start = batch + size
        add(_NEW(StoredEntry, (key, place + batch, view[batch:start])))
    if start != end:
        raise ValueError("bytes are left behind a frame's entries")


class FrameRun(NamedTuple):
    """Frames that follow each other, taken together because there are many.

    Attributes:
        entries: of all of them.
        end: the position behind the last one.
        end_lsn: the LSN behind it.
        durable_lsn: what the last one declares durable.
    """

    entries: list[StoredEntry]
    end: int
    end_lsn: int
    durable_lsn: int


def read_run(buffer: Buffer, position: int, identity: int, lsn: int, from_lsn: int, place: int) -> FrameRun:
    """The intact frames from a position on that lie in the buffer as a whole and follow in LSN order, or the first.

    Empty where there is none. Entries of frames in front of `from_lsn` are left out; for `place` and what is raised,
    see `iterate_entries`. It is `read_frame_header`, `is_intact` and that in one, for a start that has millions to
    read.
    """
    entries: list[StoredEntry] = []
    view, available, durable_lsn = memoryview(buffer), len(buffer) - FRAME_HEADER_SIZE, 0
    frames = 0
    while position <= available and frames < RUN_FRAMES_MAX and len(entries) < RUN_ENTRIES_MAX:
        magic, crc, body_size, count, owner, first_lsn, declared = _HEADER.unpack_from(buffer, position)
        start = position + FRAME_HEADER_SIZE
        end = start + body_size
        if magic != MAGIC or owner != identity or first_lsn != lsn or end - FRAME_HEADER_SIZE > available:
            break
        if crc32c(view[position + CHECKED_FROM : end]) != crc:
            break
        if first_lsn >= from_lsn:
            _add_entries(entries, buffer, view, start, end, count, place)
        position, durable_lsn = end, declared
        lsn += count
        frames += 1
    return FrameRun(entries, position, lsn, durable_lsn)
