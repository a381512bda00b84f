"""Record batch format v2: headers, offsets, and building batches.

Rules of this file: payloads are never copied by reading or restamping; base offset and leader epoch lie outside the
checksum, so assigning offsets never recomputes it. What a client may append is decided in `check`, single records
are read in `record`.

Layout (big-endian): base offset 8, batch length 4 (of what follows), leader epoch 4, magic 1, CRC-32C 4 (of all that
follows it), attributes 2, last offset delta 4, base timestamp 8, max timestamp 8, producer id 8, producer epoch 2,
base sequence 4, record count 4, records. Once compaction has seen a tombstone or marker in the batch, the base
timestamp is the time from which that may go (the delete horizon); timestamp deltas then count from there.
"""

import struct
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from pipeline_broker.records.checksum import crc32c
from pipeline_broker.records.compression import compress
from pipeline_broker.records.errors import CorruptRecord, NotOneBatch, OldMagic, RecordError
from pipeline_broker.records.varint import SHORT_VARINTS, varint

Buffer = bytes | bytearray | memoryview

HEADER: Final = struct.Struct(">qiibIhiqqqhii")
HEADER_SIZE: Final = HEADER.size
LENGTH_OVERHEAD: Final = 12  # base offset and the length itself
MAGIC: Final = 2
MAGIC_END: Final = 17  # the shortest prefix from which length and magic can be read
LEGACY_SIZE_MIN: Final = 14  # the smallest batch of any magic, as Kafka's own reader has it
CHECKED_FROM: Final = 21  # first byte under the checksum

COMPRESSION_MASK: Final = 0x07
APPEND_TIME_BIT: Final = 0x08
TRANSACTIONAL_BIT: Final = 0x10
CONTROL_BIT: Final = 0x20
DELETE_HORIZON_BIT: Final = 0x40

_LENGTH: Final = struct.Struct(">i")
_CHECKED_HEAD: Final = struct.Struct(">hiqqqhii")  # the header's part under the checksum
_STAMPED: Final = struct.Struct(">qiibIhiqq")  # the header up to what a broker may change
_SEQUENCE_MODULUS: Final = 1 << 31

assert HEADER_SIZE == 61
assert _CHECKED_HEAD.size == HEADER_SIZE - CHECKED_FROM


class BatchHeader(NamedTuple):
    """The 61 bytes before the records."""

    base_offset: int
    batch_length: int
    partition_leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def compression(self) -> int:
        """The id of the codec, 0 for none."""
        return self.attributes & COMPRESSION_MASK

    @property
    def timestamp_type(self) -> int:
        """0 = create time, 1 = append time."""
        return (self.attributes & APPEND_TIME_BIT) >> 3

    @property
    def is_transactional(self) -> bool:
        """Part of a transaction."""
        return bool(self.attributes & TRANSACTIONAL_BIT)

    @property
    def is_control(self) -> bool:
        """Written by a broker: not for applications."""
        return bool(self.attributes & CONTROL_BIT)

    @property
    def delete_horizon_ms(self) -> int | None:
        """From when on compaction may remove the tombstones or the marker in here; None before it saw them."""
        return self.base_timestamp if self.attributes & DELETE_HORIZON_BIT else None

    @property
    def last_offset(self) -> int:
        """The offset of the last record."""
        return self.base_offset + self.last_offset_delta

    @property
    def last_sequence(self) -> int:
        """The producer's sequence number of the last record; wraps from 2**31 - 1 to 0; -1 without a sequence."""
        if self.base_sequence < 0:
            return -1
        return (self.base_sequence + self.last_offset_delta) % _SEQUENCE_MODULUS

    @property
    def size_bytes(self) -> int:
        """The whole batch."""
        return LENGTH_OVERHEAD + self.batch_length


class NewRecord(NamedTuple):
    """A record to be written; it gets its offset from its place in the batch.

    Names of headers that are not UTF-8 have their other bytes as surrogates (PEP 383).
    """

    value: Buffer | None
    key: Buffer | None = None
    timestamp: int = -1
    headers: tuple[tuple[str, Buffer | None], ...] = ()


def read_header(buffer: Buffer, position: int = 0) -> BatchHeader:
    """The header of the complete batch that starts at `position`; records and checksum are not looked at."""
    available = len(buffer) - position
    if available >= HEADER_SIZE:
        # Straight to the tuple's constructor: BatchHeader._make would take twice as long.
        header = tuple.__new__(BatchHeader, HEADER.unpack_from(buffer, position))
        if header[3] == MAGIC and HEADER_SIZE - LENGTH_OVERHEAD <= header[1] <= available - LENGTH_OVERHEAD:
            return header
    raise _header_error(buffer, position, available)


def _header_error(buffer: Buffer, position: int, available: int) -> RecordError:
    """What Kafka would say first about a header that cannot be read."""
    if available < MAGIC_END:
        return NotOneBatch("not one complete record batch")
    (length,) = _LENGTH.unpack_from(buffer, position + 8)
    if length < LEGACY_SIZE_MIN:
        return CorruptRecord(f"impossible batch length {length}")
    magic = buffer[position + MAGIC_END - 1]
    if magic > MAGIC:
        return CorruptRecord(f"unknown record batch magic {magic}")
    if length > available - LENGTH_OVERHEAD:
        return NotOneBatch("not one complete record batch")
    if magic < MAGIC:
        return OldMagic(f"records of magic {magic} are not accepted, only {MAGIC}")
    return CorruptRecord(f"batch length {length} is smaller than a header")


def restamp(
    header: BatchHeader, buffer: Buffer, base_offset: int, leader_epoch: int = 0, position: int = 0
) -> tuple[bytes, memoryview]:
    """The batch at `position` with its place in the log: a new head and, not copied, all that follows it.

    The head reaches to the max timestamp, so that what the broker has corrected in `header` is in it (`with_times`).
    """
    _, length, _, magic, crc, attributes, last_delta, base, max_timestamp, _, _, _, _ = header
    head = _STAMPED.pack(base_offset, length, leader_epoch, magic, crc, attributes, last_delta, base, max_timestamp)
    return head, memoryview(buffer)[position + _STAMPED.size : position + LENGTH_OVERHEAD + length]


def restamped(header: BatchHeader, batch: bytes, base_offset: int, leader_epoch: int = 0) -> bytes:
    """`restamp` of a batch so small that copying it is cheaper than carrying parts."""
    _, length, _, magic, crc, attributes, last_delta, base, max_timestamp, _, _, _, _ = header
    head = _STAMPED.pack(base_offset, length, leader_epoch, magic, crc, attributes, last_delta, base, max_timestamp)
    return head + batch[_STAMPED.size : LENGTH_OVERHEAD + length]


def with_times(
    header: BatchHeader, buffer: Buffer, max_timestamp: int, *, append_time: bool = False, position: int = 0
) -> BatchHeader:
    """The header with another max timestamp (and type), and the checksum that belongs to it."""
    attributes = header.attributes & ~APPEND_TIME_BIT | (APPEND_TIME_BIT if append_time else 0)
    changed = header._replace(attributes=attributes, max_timestamp=max_timestamp)
    crc = crc32c(_CHECKED_HEAD.pack(*changed[5:]))
    records = memoryview(buffer)[position + HEADER_SIZE : position + header.size_bytes]
    return changed._replace(crc=crc32c(records, crc))


def assembled(header: BatchHeader, payload: Buffer) -> tuple[BatchHeader, bytes]:
    """The batch of a header and its records as stored (compressed or not); length and checksum are made to fit."""
    length = HEADER_SIZE - LENGTH_OVERHEAD + len(payload)
    crc = crc32c(payload, crc32c(_CHECKED_HEAD.pack(*header[5:])))
    fitting = header._replace(batch_length=length, crc=crc)
    return fitting, HEADER.pack(*fitting) + payload


def iterate_batches(buffer: Buffer) -> Iterator[tuple[BatchHeader, memoryview]]:
    """The complete batches one after the other; a cut-off last one (a fetch may end so) is left out."""
    view = memoryview(buffer)
    position, size = 0, len(view)
    while size - position >= MAGIC_END:
        (length,) = _LENGTH.unpack_from(view, position + 8)
        end = position + LENGTH_OVERHEAD + length
        if length >= LEGACY_SIZE_MIN and end > size:
            return
        yield read_header(view, position), view[position:end]
        position = end


class BatchBody:
    """Records of a batch that is to be built: of very many, some are written now and others later.

    Attributes:
        data: the records as they are stored.
        count: how many they are.
        base_timestamp, max_timestamp: theirs; the first record's timestamp is the base.
    """

    __slots__ = ("base_timestamp", "count", "data", "max_timestamp")

    def __init__(self) -> None:
        self.data = bytearray()
        self.count = 0
        self.base_timestamp = self.max_timestamp = -1

    def add(self, record: NewRecord) -> None:
        """Write the next record."""
        self.extend((record,))

    def extend(self, records: Iterable[NewRecord]) -> None:
        """Write the next records."""
        short, short_count = SHORT_VARINTS, len(SHORT_VARINTS)  # calls of `varint` would take half of the time
        parts: list[Buffer] = []
        base, latest, offset_delta = self.base_timestamp, self.max_timestamp, self.count
        for value, key, timestamp, headers in records:
            if offset_delta == 0:
                base = timestamp
            if timestamp > latest:
                latest = timestamp
            delta = timestamp - base
            times = short[delta] if 0 <= delta < short_count else varint(delta)
            offsets = short[offset_delta] if offset_delta < short_count else varint(offset_delta)
            key_size, value_size = -1 if key is None else len(key), -1 if value is None else len(value)
            key_head = short[key_size] if 0 <= key_size < short_count else varint(key_size)
            value_head = short[value_size] if 0 <= value_size < short_count else varint(value_size)
            tail = _encode_headers(headers) if headers else b"\0"
            size = 1 + len(times) + len(offsets) + len(key_head) + len(value_head) + len(tail)
            size += (0 if key is None else key_size) + (0 if value is None else value_size)
            head = short[size] if size < short_count else varint(size)
            # No attributes are defined, so they are 0.
            parts += (head, b"\0", times, offsets, key_head, key or b"", value_head, value or b"", tail)
            offset_delta += 1
        self.data += b"".join(parts)
        self.base_timestamp, self.max_timestamp, self.count = base, latest, offset_delta


def build_batch(
    records: Iterable[NewRecord] | BatchBody,
    base_offset: int = 0,
    compression: int = 0,
    *,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    leader_epoch: int = -1,
    transactional: bool = False,
    control: bool = False,
    compression_level: int | None = None,
) -> bytes:
    """One batch with create times; the first record's timestamp is the base."""
    if isinstance(records, BatchBody):
        body = records
    else:
        body = BatchBody()
        body.extend(records)
    count = body.count
    assert count > 0, "a batch holds at least one record"
    payload = compress(compression, body.data, compression_level) if compression else body.data
    attributes = compression | (TRANSACTIONAL_BIT if transactional else 0) | (CONTROL_BIT if control else 0)
    times = (body.base_timestamp, body.max_timestamp)
    checked = _CHECKED_HEAD.pack(attributes, count - 1, *times, producer_id, producer_epoch, base_sequence, count)
    crc = crc32c(payload, crc32c(checked))
    length = HEADER_SIZE - LENGTH_OVERHEAD + len(payload)
    return struct.pack(">qiibI", base_offset, length, leader_epoch, MAGIC, crc) + checked + payload


def _encode_headers(headers: tuple[tuple[str, Buffer | None], ...]) -> bytes:
    parts: list[Buffer] = [varint(len(headers))]
    for name, content in headers:
        encoded = name.encode(errors="surrogateescape")
        parts += varint(len(encoded)), encoded, varint(-1 if content is None else len(content)), content or b""
    return b"".join(parts)
