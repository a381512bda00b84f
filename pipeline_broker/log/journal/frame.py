"""Encoding and decoding of journal frames. One frame is one commit.

Layout (little-endian): magic 4, CRC-32C 4 (of all following bytes), body length 4, entry count 4, segment identity 8,
first LSN 8, durable LSN 8, then the body. Per entry: topic id 16, partition 4, batch length 4, batch.

* The LSN of an entry is the frame's first LSN plus its index in the frame.
* The identity is that of the segment the frame was written for. Intact frames of an earlier use of the same disk space
  have another one, so they are ignored.
* All entries below the durable LSN were synced before the frame was written. If such an entry is unreadable, it was
  damaged, and is not a torn tail.
* Every length is checked against the remaining bytes before it is used.
"""

import struct
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from pipeline_broker.base.buffer import Buffer
from pipeline_broker.log.journal.entry import JournalEntry
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
RUN_FRAMES_MAX = RUN_ENTRIES_MAX = 64  # short runs, so that other threads get the interpreter in between
JOIN_BELOW_BYTES = 64 << 10  # smaller batches are copied into one buffer; larger ones are written without copying

_NEW = tuple.__new__  # faster than calling the NamedTuple; used for every batch of a recovery

assert _ENTRY_KEY_SIZE + _LENGTH.size == ENTRY_OVERHEAD


class FrameHeader(NamedTuple):
    magic: int
    crc: int
    body_size: int
    entry_count: int
    identity: int
    first_lsn: int
    durable_lsn: int


class StoredEntry(NamedTuple):
    key: bytes  # topic id and partition, see `entry_key`
    place: int  # global position of the batch
    batch: memoryview  # into the read buffer


_HEADER = struct.Struct("<IIIIQQQ")
_IDENTITY = slice(16, 24)
assert _HEADER.size == FRAME_HEADER_SIZE


def entry_key(topic_id: bytes, partition: int) -> bytes:
    return _ENTRY.pack(topic_id, partition, 0)[:_ENTRY_KEY_SIZE]


def split_key(key: bytes) -> tuple[bytes, int]:
    return key[:16], int.from_bytes(key[16:], "little", signed=True)


def encode_frame(
    entries: Sequence[JournalEntry], identity: int, first_lsn: int, durable_lsn: int, position: int
) -> list[Buffer]:
    """Encode a commit and set the positions of its entries.

    Args:
        entries: entries of the commit; may be empty.
        identity: identity of the segment.
        first_lsn: LSN of the first entry.
        durable_lsn: all entries below it are synced.
        position: global position of the frame.

    Returns:
        the parts of the frame. Only batches below JOIN_BELOW_BYTES are copied.
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
        # Positions of a refused write are overwritten when it is tried again.
        entry.position = position = position + ENTRY_OVERHEAD
        position += size
    if small:
        chunks.append(b"".join(small))
    body_size = position - start
    # The body length is unsigned in the format, but readers take 2 GiB as the limit of a plausible header.
    assert body_size <= BODY_SIZE_MAX, "a commit must stay below 2 GiB"
    checked = _CHECKED_HEADER.pack(body_size, len(entries), identity, first_lsn, durable_lsn)
    crc = crc32c(checked)
    for chunk in chunks:
        crc = crc32c(chunk, crc)
    return [_SUM.pack(MAGIC, crc) + checked, *chunks]


def read_frame_header(buffer: Buffer, position: int, available: int) -> FrameHeader | None:
    """Return the header at `position`; None if no frame of at most `available` bytes can start there.

    `available` counts from `position` and may exceed the buffer.
    """
    if available < FRAME_HEADER_SIZE or len(buffer) - position < FRAME_HEADER_SIZE:
        return None
    header = tuple.__new__(FrameHeader, _HEADER.unpack_from(buffer, position))
    if header.magic != MAGIC or header.body_size > min(available - FRAME_HEADER_SIZE, BODY_SIZE_MAX):
        return None
    return header


def is_intact(header: FrameHeader, buffer: Buffer, position: int) -> bool:
    """Return whether the frame matches its checksum. All of it must lie in the buffer."""
    end = position + FRAME_HEADER_SIZE + header.body_size
    return crc32c(memoryview(buffer)[position + CHECKED_FROM : end]) == header.crc


def seems_of_segment(buffer: Buffer, position: int, identity: int) -> bool:
    """Return whether bytes that are not an intact frame of the segment began as one, as a torn frame does.

    In recycled space, old frames of other identities are whole unless overwritten. So bytes with the magic that are not
    an intact foreign frame were written for this segment, and so were bytes with its identity.
    """
    header = read_frame_header(buffer, position, len(buffer) - position)
    if header is not None and header.identity != identity and is_intact(header, buffer, position):
        return False
    head = bytes(buffer[position : position + FRAME_HEADER_SIZE])
    has_magic = bool(head) and head.startswith(MAGIC_BYTES[: len(head)])
    return has_magic or head[_IDENTITY] == identity.to_bytes(8, "little")


def iterate_entries(header: FrameHeader, buffer: Buffer, position: int, place: int) -> Iterator[StoredEntry]:
    """Yield the entries of an intact frame.

    Args:
        buffer: contains the whole frame.
        position: position of the frame in the buffer.
        place: global position of the start of the buffer.

    Raises:
        ValueError: the entries do not fill the frame exactly. The checksum matched, so this is a bug of the writer.
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
        raise ValueError("a frame has more bytes than its entries need")


class FrameRun(NamedTuple):
    """Consecutive frames, decoded together for speed.

    Attributes:
        entries: entries of the frames starting at the requested LSN; earlier frames are only checked.
        end: end position of the last frame in the buffer.
        end_lsn: the LSN after the last entry.
        durable_lsn: the durable LSN of the last frame; 0 without frames.
    """

    entries: list[StoredEntry]
    end: int
    end_lsn: int
    durable_lsn: int


def read_run(buffer: Buffer, position: int, identity: int, lsn: int, from_lsn: int, place: int) -> FrameRun:
    """Decode the next intact frames in LSN order, up to RUN_FRAMES_MAX frames or about RUN_ENTRIES_MAX entries.

    Only an empty run means that no such frame starts at the position. Combines `read_frame_header`, `is_intact` and
    `iterate_entries` in one loop, because recovery reads up to a million frames.

    Args:
        buffer: bytes of a segment.
        position: start of the first frame in the buffer.
        identity: identity of the segment.
        lsn: expected first LSN.
        from_lsn: entries of frames below it are skipped.
        place: global position of the start of the buffer.

    Raises:
        ValueError: as in `iterate_entries`.
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
