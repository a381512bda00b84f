"""Record batches of format v2: headers, restamping for the log, and building batches.

Layout (big-endian): base offset 8, batch length 4 (of the bytes after it), leader epoch 4, magic 1, CRC-32C 4 (of all
bytes after it), attributes 2, last offset delta 4, base timestamp 8, max timestamp 8, producer id 8, producer epoch 2,
base sequence 4, record count 4, records. Once compaction has seen a tombstone or marker in the batch, the base
timestamp is the delete horizon: the time from which they may be removed. Timestamp deltas then count from there.

Counterpart in Kafka: `MemoryRecords`, `DefaultRecordBatch`; a batch is bytes with a parsed header.
"""

import struct
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from pipeline_broker.base.buffer import Buffer
from pipeline_broker.records.checksum import crc32c
from pipeline_broker.records.compression import compress
from pipeline_broker.records.errors import CorruptRecord, NotOneBatch, OldMagic, RecordError
from pipeline_broker.records.varint import SHORT_VARINTS, varint

HEADER: Final = struct.Struct(">qiibIhiqqqhii")
HEADER_SIZE: Final = HEADER.size
LENGTH_OVERHEAD: Final = 12  # base offset and the length itself
MAGIC: Final = 2
MAGIC_END: Final = 17  # end of the shortest prefix that holds length and magic
LEGACY_SIZE_MIN: Final = 14  # smallest batch length of any magic that Kafka's reader accepts
CHECKED_FROM: Final = 21  # first byte covered by the checksum

COMPRESSION_MASK: Final = 0x07
APPEND_TIME_BIT: Final = 0x08
TRANSACTIONAL_BIT: Final = 0x10
CONTROL_BIT: Final = 0x20
DELETE_HORIZON_BIT: Final = 0x40

_LENGTH: Final = struct.Struct(">i")
_CHECKED_HEAD: Final = struct.Struct(">hiqqqhii")  # the part of the header covered by the checksum
_STAMPED: Final = struct.Struct(">qiibIhiqq")  # the header up to the max timestamp, the last field a broker changes
_SEQUENCE_MODULUS: Final = 1 << 31

assert HEADER_SIZE == 61
assert _CHECKED_HEAD.size == HEADER_SIZE - CHECKED_FROM


class BatchHeader(NamedTuple):
    """The decoded header of a batch: the 61 bytes before its records. Timestamps are in milliseconds since 1970."""

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
        return self.attributes & COMPRESSION_MASK

    @property
    def timestamp_type(self) -> int:
        # 0 for create time, 1 for append time.
        return (self.attributes & APPEND_TIME_BIT) >> 3

    @property
    def is_transactional(self) -> bool:
        return bool(self.attributes & TRANSACTIONAL_BIT)

    @property
    def is_control(self) -> bool:
        """True if a broker wrote the batch for itself; clients do not return such records to applications."""
        return bool(self.attributes & CONTROL_BIT)

    @property
    def delete_horizon_ms(self) -> int | None:
        """Time from which compaction may remove the batch's tombstones or marker; None before it has seen them."""
        return self.base_timestamp if self.attributes & DELETE_HORIZON_BIT else None

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def last_sequence(self) -> int:
        """The sequence number of the last record, wrapping from 2**31 - 1 to 0; -1 without an idempotent producer."""
        if self.base_sequence < 0:
            return -1
        return (self.base_sequence + self.last_offset_delta) % _SEQUENCE_MODULUS

    @property
    def size_bytes(self) -> int:
        return LENGTH_OVERHEAD + self.batch_length


class NewRecord(NamedTuple):
    """A record to write; its offset follows from its position in the batch.

    Bytes of header names that are not UTF-8 are surrogates (PEP 383).
    """

    value: Buffer | None
    key: Buffer | None = None
    timestamp: int = -1
    headers: tuple[tuple[str, Buffer | None], ...] = ()


def read_header(buffer: Buffer, position: int = 0) -> BatchHeader:
    """Decode the header of the complete batch at `position`. Records and checksum are not verified.

    Raises:
        RecordError: the header is damaged, or the batch is incomplete or of another magic.
    """
    available = len(buffer) - position
    if available >= HEADER_SIZE:
        # The tuple's constructor takes half as long as BatchHeader._make.
        header = tuple.__new__(BatchHeader, HEADER.unpack_from(buffer, position))
        if header[3] == MAGIC and HEADER_SIZE - LENGTH_OVERHEAD <= header[1] <= available - LENGTH_OVERHEAD:
            return header
    raise _header_error(buffer, position, available)


def _header_error(buffer: Buffer, position: int, available: int) -> RecordError:
    # The checks are in Kafka's order, so the client gets the error that Kafka would find first.
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
    """Return the batch at `position` with another base offset and leader epoch, as a new head and an uncopied tail.

    The head reaches up to the max timestamp. So it also contains the corrections of `with_times`, if `header` has them.
    """
    _, length, _, magic, crc, attributes, last_delta, base, max_timestamp, _, _, _, _ = header
    head = _STAMPED.pack(base_offset, length, leader_epoch, magic, crc, attributes, last_delta, base, max_timestamp)
    return head, memoryview(buffer)[position + _STAMPED.size : position + LENGTH_OVERHEAD + length]


def restamped(header: BatchHeader, batch: bytes, base_offset: int, leader_epoch: int = 0) -> bytes:
    """Like `restamp`, but copy the batch at the start of `batch` into one part.

    For a small batch, the copy is cheaper than sending two parts.
    """
    _, length, _, magic, crc, attributes, last_delta, base, max_timestamp, _, _, _, _ = header
    head = _STAMPED.pack(base_offset, length, leader_epoch, magic, crc, attributes, last_delta, base, max_timestamp)
    return head + batch[_STAMPED.size : LENGTH_OVERHEAD + length]


def with_times(
    header: BatchHeader, buffer: Buffer, max_timestamp: int, *, append_time: bool = False, position: int = 0
) -> BatchHeader:
    """Return the header with another max timestamp and timestamp type, and the matching checksum.

    Args:
        header: the header of the batch at `position`.
        max_timestamp: milliseconds since 1970, or -1 for none.
        append_time: True for append time, False for create time.
    """
    attributes = header.attributes & ~APPEND_TIME_BIT | (APPEND_TIME_BIT if append_time else 0)
    changed = header._replace(attributes=attributes, max_timestamp=max_timestamp)
    crc = crc32c(_CHECKED_HEAD.pack(*changed[5:]))
    records = memoryview(buffer)[position + HEADER_SIZE : position + header.size_bytes]
    return changed._replace(crc=crc32c(records, crc))


def assembled(header: BatchHeader, payload: Buffer) -> tuple[BatchHeader, bytes]:
    """Build a batch from a header and its stored records; return the corrected header and the batch.

    Args:
        header: all fields except length and checksum, which are computed.
        payload: the records, compressed as the attributes say.
    """
    length = HEADER_SIZE - LENGTH_OVERHEAD + len(payload)
    crc = crc32c(payload, crc32c(_CHECKED_HEAD.pack(*header[5:])))
    fitting = header._replace(batch_length=length, crc=crc)
    return fitting, HEADER.pack(*fitting) + payload


def iterate_batches(buffer: Buffer) -> Iterator[tuple[BatchHeader, memoryview]]:
    """Yield the header and the bytes of each complete batch. A last batch that is cut off, as in a fetch, is skipped.

    Raises:
        RecordError: a batch header is damaged or of another magic.
    """
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
    """The records of a batch that is built in steps, so that a very large batch does not block the event loop.

    Attributes:
        data: the encoded records.
        count: the number of records.
        base_timestamp, max_timestamp: the first and the largest timestamp of the records; -1 without records.
    """

    __slots__ = ("base_timestamp", "count", "data", "max_timestamp")

    def __init__(self) -> None:
        self.data = bytearray()
        self.count = 0
        self.base_timestamp = self.max_timestamp = -1

    def add(self, record: NewRecord) -> None:
        self.extend((record,))

    def extend(self, records: Iterable[NewRecord]) -> None:
        short, short_count = SHORT_VARINTS, len(SHORT_VARINTS)  # inlined: calls of `varint` would take half of the time
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
            # The attributes byte is 0: Kafka defines no record attributes.
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
    """Build a batch with create times; the first record's timestamp is the base.

    Args:
        records: at least one record, or a filled body.
        base_offset: offset of the first record.
        compression: id of the codec; 0 for none.
        producer_id, producer_epoch, base_sequence: the fields of an idempotent producer; -1 for none.
        leader_epoch: the leader epoch of the partition; -1 for none.
        transactional: sets the transactional bit.
        control: sets the control bit.
        compression_level: a level of the codec, numbered like Kafka's; None for Kafka's default.

    Raises:
        UnknownCompression: no codec has this id.
    """
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
