"""What a client may append: the checks of a produced batch, in Kafka's order and with Kafka's errors.

Rules of this file: a batch passes as a whole or is refused as a whole; the walk over the records is one loop with
the short integers inlined, because it runs for every record produced; what is slow (naming the offending records)
happens only after that loop has found something. Stricter than Kafka in one point: offset deltas count up from 0 in
uncompressed batches too (Kafka asks it of compressed ones only), else consumers would see offsets out of order.
"""

import attrs

from pipeline_broker.records.batch import (
    APPEND_TIME_BIT,
    CHECKED_FROM,
    COMPRESSION_MASK,
    CONTROL_BIT,
    HEADER_SIZE,
    LEGACY_SIZE_MIN,
    LENGTH_OVERHEAD,
    MAGIC,
    MAGIC_END,
    BatchHeader,
    read_header,
    with_times,
)
from pipeline_broker.records.checksum import crc32c
from pipeline_broker.records.compression import DECOMPRESSED_SIZE_MAX, Compression, decompress
from pipeline_broker.records.errors import (
    BatchTooLarge,
    CorruptFirstHeader,
    CorruptRecord,
    InvalidRecord,
    InvalidTimestamp,
    KeylessRecords,
    NotOneBatch,
    RecordListTooLarge,
    RecordsOutOfOrder,
    TransactionalRecords,
    UnknownCompression,
    UnsupportedCompression,
    WrongChecksum,
)
from pipeline_broker.records.recompression import Target, recompressed
from pipeline_broker.records.record import iterate_records
from pipeline_broker.records.varint import VARLONG_BYTES_MAX, read_unsigned, read_varint

Buffer = bytes | bytearray | memoryview

NO_TIMESTAMP = -1
HEADERS_MAX = 500_000
"""Record headers of one batch. Two bytes each, they compress to nearly nothing, and every one has to be looked at."""
RECORD_ERRORS_MAX = 1_000
"""Offending records that are named, of however many there are."""
SMALL_BYTES = 4096
_UNLIMITED = TIMESTAMP_MAX = (1 << 63) - 1


@attrs.frozen(slots=True)
class Rules:
    """What a topic's configuration allows; made once per topic, not per batch."""

    size_max: int = 1048588
    segment_size_max: int = 1 << 30
    decompressed_size_max: int = DECOMPRESSED_SIZE_MAX
    timestamp_before_max_ms: int = _UNLIMITED
    timestamp_after_max_ms: int = 3_600_000
    keys_required: bool = False
    append_time: bool = False
    compression: Target | None = None
    """What a batch in another codec is compressed with before it is appended; None leaves it as it came."""


DEFAULT_RULES = Rules()


def check_batch(
    buffer: Buffer | None,
    now_ms: int,
    rules: Rules = DEFAULT_RULES,
    *,
    zstd_allowed: bool = True,
    transactions_allowed: bool = False,
) -> BatchHeader:
    """The header of the one batch in `buffer`, with max timestamp and type as the broker stores them.

    Raises a RecordError when the batch must be refused. Where the rules ask for a codec `as_stored` must follow.
    `zstd_allowed` is false for produce requests before v7; `transactions_allowed` is whether the batch may be part of a
    transaction, which only those say who know that the producer has one.
    """
    if buffer is None or len(buffer) < MAGIC_END:
        raise NotOneBatch("not one complete record batch")
    header = first_header(buffer)
    base_offset, length, _, _, crc, attributes, last_delta, base, max_timestamp, producer_id, _, sequence, count = (
        header
    )
    end = LENGTH_OVERHEAD + length
    compression = attributes & COMPRESSION_MASK
    if base_offset or end != len(buffer) or end > rules.size_max or compression:
        _check_envelope(buffer, header, rules, zstd_allowed)
    # Slices of small bytes are copied faster than views of them are made.
    view = buffer if end <= SMALL_BYTES and type(buffer) is bytes else memoryview(buffer)
    if crc32c(view[CHECKED_FROM:end]) != crc:
        raise WrongChecksum("the checksum does not match")
    if last_delta != count - 1 or count <= 0 or attributes or producer_id >= 0 > sequence:
        _check_header(header, transactions_allowed=transactions_allowed)
    data = bytes(view[HEADER_SIZE:end])
    if compression:
        data = decompress(compression, data, rules.decompressed_size_max)
    lowest, highest, null_key = _walk(data, count)
    highest += base
    if (null_key and rules.keys_required) or not (
        now_ms - rules.timestamp_before_max_ms <= lowest + base and highest <= now_ms + rules.timestamp_after_max_ms
    ):
        _check_records(header, view, rules, now_ms)
    if end > rules.segment_size_max and not _is_recompressed(compression, rules):
        raise RecordListTooLarge(f"a batch of {end} bytes is larger than a segment ({rules.segment_size_max})")
    if rules.append_time:
        return with_times(header, view, now_ms, append_time=True)
    if highest == max_timestamp and not attributes & APPEND_TIME_BIT:
        return header
    return _with_highest(header, view, highest, rules, now_ms)


def _with_highest(header: BatchHeader, batch: Buffer, highest: int, rules: Rules, now_ms: int) -> BatchHeader:
    """The header with the highest timestamp of its records, whatever the client says of it or of append time."""
    if highest > TIMESTAMP_MAX:  # as the sum of base and delta may be; the rules may allow every timestamp
        _check_records(header, batch, rules, now_ms)
    return with_times(header, batch, highest)


def _is_recompressed(codec: int, rules: Rules) -> bool:
    return rules.compression is not None and rules.compression.codec != codec


def as_stored(header: BatchHeader, batch: Buffer, rules: Rules) -> tuple[BatchHeader, Buffer]:
    """A batch that was checked, in the codec that the topic asks for; raises a RecordError when it is too large so."""
    if rules.compression is None or rules.compression.codec == header.compression:
        return header, batch
    return recompressed(
        header,
        batch,
        rules.compression,
        size_max=rules.size_max,
        segment_size_max=rules.segment_size_max,
        unpacked_size_max=rules.decompressed_size_max,
    )


def first_header(buffer: Buffer) -> BatchHeader:
    """The header of the first batch; an unreadable one is CorruptFirstHeader, which concerns the whole request."""
    try:
        return read_header(buffer)
    except CorruptRecord as error:
        raise CorruptFirstHeader(error.message) from None


def _check_envelope(buffer: Buffer, header: BatchHeader, rules: Rules, zstd_allowed: bool) -> None:
    """What Kafka looks at before the checksum."""
    _check_rest(buffer, header.size_bytes)
    if header.compression == Compression.ZSTD and not zstd_allowed:
        raise UnsupportedCompression("zstd needs produce version 7")
    if header.base_offset != 0:
        raise RecordsOutOfOrder(f"a client's batch starts at offset 0, not {header.base_offset}")
    if header.size_bytes > rules.size_max:
        raise BatchTooLarge(f"{header.size_bytes} bytes are more than max.message.bytes ({rules.size_max})")


def _check_rest(buffer: Buffer, position: int) -> None:
    """What follows the first batch: a cut-off batch is ignored, as Kafka does; a whole one is refused."""
    if len(buffer) - position < MAGIC_END:
        return
    length = int.from_bytes(buffer[position + 8 : position + 12], "big", signed=True)
    if length < LEGACY_SIZE_MIN or buffer[position + MAGIC_END - 1] > MAGIC:
        raise CorruptRecord("what follows the first batch is not a batch")
    if length <= len(buffer) - position - LENGTH_OVERHEAD:
        raise NotOneBatch("a partition's records must be exactly one batch")


def _check_header(header: BatchHeader, *, transactions_allowed: bool) -> None:
    count = header.record_count
    if header.compression > Compression.ZSTD:
        raise UnknownCompression(f"unknown compression id {header.compression}")
    if count <= 0 or header.last_offset_delta != count - 1:
        raise RecordsOutOfOrder(f"{count} records do not fill offsets 0 to {header.last_offset_delta}")
    if header.producer_id >= 0 and header.base_sequence < 0:
        raise RecordsOutOfOrder("an idempotent producer's batch has no sequence number")
    if header.attributes & CONTROL_BIT:
        raise InvalidRecord("clients may not write control records")
    if header.is_transactional and not transactions_allowed:
        raise TransactionalRecords("no transaction is going on")


def _check_records(header: BatchHeader, batch: Buffer, rules: Rules, now_ms: int) -> None:
    """Refuse the batch if there are records that these rules forbid, and name them."""
    earliest = now_ms - rules.timestamp_before_max_ms
    latest = min(now_ms + rules.timestamp_after_max_ms, TIMESTAMP_MAX)
    keyless: list[tuple[int, str]] = []
    offending: list[tuple[int, str]] = []
    for index, record in enumerate(iterate_records(batch, header, size_max=rules.decompressed_size_max)):
        if len(keyless) == RECORD_ERRORS_MAX or len(offending) == RECORD_ERRORS_MAX:
            break
        if record.key is None and rules.keys_required:
            keyless.append((index, "record without a key"))
        elif not rules.append_time and record.timestamp != NO_TIMESTAMP and not earliest <= record.timestamp <= latest:
            offending.append((index, f"timestamp {record.timestamp} is not within [{earliest}, {latest}]"))
    if keyless:
        raise KeylessRecords("a compacted topic needs keys", tuple(keyless))
    if offending:
        raise InvalidTimestamp("records have timestamps outside the allowed window", tuple(offending))


def _walk(data: bytes, count: int) -> tuple[int, int, bool]:  # noqa: C901, PLR0912, PLR0915 - one inlined loop
    """Check the structure of `count` records; returns lowest and highest timestamp delta, and if a key is null."""
    position = 0
    size = len(data)
    lowest, highest = _UNLIMITED, -_UNLIMITED
    null_key = False
    previous = -1
    left = HEADERS_MAX
    try:
        for index in range(count):
            raw = data[position]
            position += 1
            if raw > 0x7F:
                byte = data[position]
                position += 1
                if byte > 0x7F:
                    raw, position = read_unsigned(data, position - 2)
                else:
                    raw = raw & 0x7F | byte << 7
            end = position + (raw >> 1)
            if raw & 1 or end > size:
                raise InvalidRecord("a record is longer than its batch")
            raw = data[position + 1]  # behind one byte of attributes
            position += 2
            if raw > 0x7F:
                byte = data[position]
                position += 1
                if byte > 0x7F:
                    raw, position = read_unsigned(data, position - 2, VARLONG_BYTES_MAX)
                else:
                    raw = raw & 0x7F | byte << 7
            if raw != previous:  # most neighbours share their timestamp or grow
                previous = raw
                delta = ~(raw >> 1) if raw & 1 else raw >> 1
                if delta > highest:
                    highest = delta
                if delta < lowest:
                    lowest = delta
            raw = data[position]
            position += 1
            if raw > 0x7F:
                byte = data[position]
                position += 1
                if byte > 0x7F:
                    raw, position = read_unsigned(data, position - 2)
                else:
                    raw = raw & 0x7F | byte << 7
            if raw != index << 1:
                raise RecordsOutOfOrder("offsets in the batch are not consecutive", ((index, "unexpected offset"),))
            raw = data[position]
            position += 1
            if raw > 0x7F:
                raw, position = read_unsigned(data, position - 1)
            if raw & 1:
                null_key = True
            else:
                position += raw >> 1
            raw = data[position]
            position += 1
            if raw > 0x7F:
                byte = data[position]
                position += 1
                if byte > 0x7F:
                    raw, position = read_unsigned(data, position - 2)
                else:
                    raw = raw & 0x7F | byte << 7
            if not raw & 1:
                position += raw >> 1
            if data[position]:
                left, position = _walk_headers(data, position, end, left)
            else:
                position += 1
            if position != end:
                raise InvalidRecord("a record does not fill its length")
    except IndexError:
        raise InvalidRecord("the records are cut off") from None
    if position != size:
        raise InvalidRecord("bytes are left after the last record")
    return lowest, highest, null_key


def _walk_headers(data: bytes, position: int, end: int, left: int) -> tuple[int, int]:
    """Check a record's headers; returns how many more the batch may have, and the position behind them."""
    count, position = read_varint(data, position)
    if not 0 <= count <= end - position:
        raise InvalidRecord("more headers than bytes")
    if count > left:
        raise BatchTooLarge(f"a batch has at most {HEADERS_MAX} record headers")
    for _ in range(count):
        length, position = read_varint(data, position)
        if length < 0:
            raise InvalidRecord("a header without a key")
        position += length
        length, position = read_varint(data, position)
        position += max(length, 0)
        if position > end:
            raise InvalidRecord("a header is longer than its record")
    return left - count, position
