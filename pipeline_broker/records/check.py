"""The checks of a produced batch, in Kafka's order and with Kafka's errors.

A batch is accepted or refused as a whole. Slow checks, which name the offending records, run only after the walk over
the records has found something. A batch that takes longer than a turn is checked in steps (`BatchCheck`), so other
clients do not wait for it.

One check is stricter than Kafka's: offset deltas must count up from 0 in uncompressed batches as well. Kafka requires
that only of compressed ones. Without it, consumers would see offsets out of order.

Counterpart in Kafka: `LogValidator`.
"""

from collections.abc import Generator
from typing import Final

import attrs

from pipeline_broker.base.buffer import Buffer
from pipeline_broker.records import record_walk
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
from pipeline_broker.records.compression import Compression
from pipeline_broker.records.decompression import DECOMPRESSED_SIZE_MAX, decompress
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
from pipeline_broker.records.record import records_in
from pipeline_broker.records.record_walk import HEADERS_MAX, NOT_WALKED, UNLIMITED, walk

NO_TIMESTAMP: Final = -1
TIMESTAMP_MAX: Final = UNLIMITED
RECORDS_BYTES_A_TURN: Final = 1 << 20  # decompressed size up to which the event loop decompresses; else a thread
RECOMPRESSED_BYTES_A_TURN: Final = 64 * 1024  # batch size up to which the event loop compresses; else a thread
RECORD_ERRORS_MAX: Final = 1_000  # offending records named in an error
SMALL_BYTES: Final = 4096


@attrs.frozen(slots=True)
class Rules:
    """The limits of a topic's configuration, with sizes in bytes. Made once per topic, not per batch."""

    size_max: int = 1048588
    segment_size_max: int = 1 << 30
    decompressed_size_max: int = DECOMPRESSED_SIZE_MAX
    timestamp_before_max_ms: int = UNLIMITED
    timestamp_after_max_ms: int = 3_600_000
    keys_required: bool = False
    subject_strategies: tuple[tuple[str, str], ...] = ()
    """Pairs of "key" or "value" and its subject name strategy, for `apis.schema_validation`."""
    append_time: bool = False
    compression: Target | None = None
    """Codec to recompress batches of other codecs with; None keeps the producer's codec."""


DEFAULT_RULES: Final = Rules()


class LongBatchError(Exception):
    """The batch takes longer than a turn, and must be checked in steps with `BatchCheck`.

    Attributes:
        header: the header of the batch; everything except the records has been checked.
        batch: the bytes of the batch.
    """

    def __init__(self, header: BatchHeader, batch: Buffer) -> None:
        super().__init__(f"{header.record_count} records in {len(batch)} bytes take longer than a turn")
        self.header = header
        self.batch = batch


def check_batch(  # noqa: C901 - runs for every batch, where a call costs more than the check that it makes
    buffer: Buffer | None,
    now_ms: int,
    rules: Rules = DEFAULT_RULES,
    *,
    zstd_allowed: bool = True,
    transactions_allowed: bool = False,
) -> BatchHeader:
    """Check the one batch in `buffer`; return its header with max timestamp and timestamp type as stored.

    If the rules ask for a codec, call `as_stored` next.

    Args:
        buffer: the records that a client sent for one partition; None is refused.
        now_ms: wall clock.
        zstd_allowed: False for Produce requests below version 7.
        transactions_allowed: the producer has a transaction, so the batch may be part of it.

    Raises:
        RecordError: the batch is refused.
        LongBatchError: the check of the records takes longer than a turn; continue with `BatchCheck`.
    """
    if buffer is None or len(buffer) < MAGIC_END:
        raise NotOneBatch("the records are not one complete record batch")
    header = first_header(buffer)
    base_offset, length, _, _, crc, attributes, last_delta, base, max_timestamp, producer_id, _, sequence, count = (
        header
    )
    end = LENGTH_OVERHEAD + length
    # One condition guards all rare checks, so most batches need no call.
    if base_offset or end != len(buffer) or end > rules.size_max or attributes & COMPRESSION_MASK:
        _check_envelope(buffer, header, rules, zstd_allowed)
    # Copying a slice of a few bytes is faster than making a view.
    view = buffer if end <= SMALL_BYTES and type(buffer) is bytes else memoryview(buffer)
    if end != len(view):
        view = view[:end]
    if crc32c(view[CHECKED_FROM:]) != crc:
        raise WrongChecksum("the checksum does not match")
    if last_delta != count - 1 or count <= 0 or attributes or producer_id >= 0 > sequence:
        _check_header(header, transactions_allowed=transactions_allowed)
    compression = attributes & COMPRESSION_MASK
    records_max = record_walk.RECORDS_A_TURN
    if count > records_max:
        raise LongBatchError(header, view)
    data = _decompressed_in_a_turn(header, view, rules) if compression else view[HEADER_SIZE:]
    if type(data) is not bytes:
        data = bytes(data)
    lowest, highest, null_key, position, headers_left, records = walk(data, count, NOT_WALKED)
    if records != count or headers_left < HEADERS_MAX - records_max:
        raise LongBatchError(header, view)
    if position != len(data):
        raise InvalidRecord("bytes are left after the last record")
    highest += base
    # False for most batches. The exact and slower checks follow only if it is true.
    if (
        highest > now_ms or (null_key and rules.keys_required) or lowest + base < now_ms - rules.timestamp_before_max_ms
    ) and _is_suspicious(lowest + base, highest, null_key, rules, now_ms):
        for _ in _check_records(header, data, rules, now_ms):
            pass  # no turns: the batch is short
    # True for nearly all batches, which keep their header. `_stored_header` would return the same.
    if (
        highest == max_timestamp >= NO_TIMESTAMP
        and not attributes & APPEND_TIME_BIT
        and not rules.append_time
        and end <= rules.segment_size_max
    ):
        return header
    return _stored_header(header, view, highest, rules, now_ms)


class BatchCheck:
    """The rest of `check_batch` in steps, for a batch that takes longer than a turn.

    Call `open`, which may run in a thread, then exhaust `steps`, then call `stored`, which may run in a thread. Each
    raises a RecordError if the batch is refused.

    Args:
        found: raised by `check_batch`.
        now_ms: wall clock.
    """

    def __init__(self, found: LongBatchError, now_ms: int, rules: Rules) -> None:
        self._header, self._view = found.header, found.batch
        self._now_ms = now_ms
        self._rules = rules
        self._data = b""
        self._highest = 0

    def open(self) -> None:
        compression = self._header.compression
        data = bytes(self._view[HEADER_SIZE:])
        self._data = decompress(compression, data, self._rules.decompressed_size_max) if compression else data

    def steps(self) -> Generator[None]:
        header, data, count = self._header, self._data, self._header.record_count
        walked, records = NOT_WALKED, 0
        while records < count:
            walked = walk(data, min(count, records + record_walk.RECORDS_A_TURN), walked)
            *_, records = walked
            yield
        lowest, highest, null_key, position, _, _ = walked
        if position != len(data):
            raise InvalidRecord("bytes are left after the last record")
        lowest, self._highest = lowest + header.base_timestamp, highest + header.base_timestamp
        if _is_suspicious(lowest, self._highest, null_key, self._rules, self._now_ms):
            yield from _check_records(header, data, self._rules, self._now_ms)
        self._data = b""

    def stored(self) -> tuple[BatchHeader, Buffer]:
        """Return the header and the batch to store, in the topic's codec."""
        header = _stored_header(self._header, self._view, self._highest, self._rules, self._now_ms)
        return as_stored(header, self._view, self._rules)


def _decompressed_in_a_turn(header: BatchHeader, view: Buffer, rules: Rules) -> bytes:
    # More than a turn's worth of data is left to `BatchCheck`, which decompresses in a thread.
    size_max = min(rules.decompressed_size_max, RECORDS_BYTES_A_TURN)
    try:
        return decompress(header.compression, bytes(view[HEADER_SIZE:]), size_max)
    except BatchTooLarge:
        if size_max == rules.decompressed_size_max:
            raise
        raise LongBatchError(header, view) from None


def _is_suspicious(lowest: int, highest: int, null_key: bool, rules: Rules, now_ms: int) -> bool:
    if null_key and rules.keys_required:
        return True
    # Base plus delta may exceed 64 bits, even if the topic allows every timestamp.
    if highest > TIMESTAMP_MAX:
        return True
    return lowest < now_ms - rules.timestamp_before_max_ms or highest > now_ms + rules.timestamp_after_max_ms


def _stored_header(header: BatchHeader, view: Buffer, highest: int, rules: Rules, now_ms: int) -> BatchHeader:
    if len(view) > rules.segment_size_max and not _is_recompressed(header[5] & COMPRESSION_MASK, rules):
        raise RecordListTooLarge(f"a batch of {len(view)} bytes is larger than a segment ({rules.segment_size_max})")
    if rules.append_time:
        return with_times(header, view, now_ms, append_time=True)
    highest = max(highest, NO_TIMESTAMP)  # like Kafka, treat times before 1970 as no timestamp
    if highest == header[8] and not header[5] & APPEND_TIME_BIT:
        return header
    return with_times(header, view, highest)  # clears an append time bit set by the client, like Kafka


def _is_recompressed(codec: int, rules: Rules) -> bool:
    return rules.compression is not None and rules.compression.codec != codec


def takes_long_to_store(header: BatchHeader, rules: Rules) -> bool:
    """Return whether `as_stored` should run in a thread, because it recompresses a compressed or large batch."""
    codec = header.compression
    is_large = codec != Compression.NONE or header.size_bytes > RECOMPRESSED_BYTES_A_TURN
    return is_large and rules.compression is not None and rules.compression.codec != codec


def as_stored(header: BatchHeader, batch: Buffer, rules: Rules) -> tuple[BatchHeader, Buffer]:
    """Return the header and the bytes of a checked batch, recompressed if its topic requires another codec.

    Raises:
        RecordError: the recompressed batch is too large.
    """
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
    """Decode the header of the first batch.

    Raises:
        CorruptFirstHeader: the header is damaged, so Kafka refuses the whole request.
        NotOneBatch: the batch is incomplete or of an older magic.
    """
    try:
        return read_header(buffer)
    except CorruptRecord as error:
        raise CorruptFirstHeader(error.message) from None


def _check_envelope(buffer: Buffer, header: BatchHeader, rules: Rules, zstd_allowed: bool) -> None:
    # Kafka makes these checks before that of the checksum.
    _check_rest(buffer, header.size_bytes)
    if header.compression == Compression.ZSTD and not zstd_allowed:
        raise UnsupportedCompression("zstd needs produce version 7")
    if header.base_offset != 0:
        raise RecordsOutOfOrder(f"a client's batch starts at offset 0, not {header.base_offset}")
    if header.size_bytes > rules.size_max:
        raise BatchTooLarge(f"the batch has {header.size_bytes} bytes, more than max.message.bytes ({rules.size_max})")


def _check_rest(buffer: Buffer, position: int) -> None:
    if len(buffer) - position < MAGIC_END:
        return
    length = int.from_bytes(buffer[position + 8 : position + 12], "big", signed=True)
    if length < LEGACY_SIZE_MIN or buffer[position + MAGIC_END - 1] > MAGIC:
        raise CorruptRecord("the bytes after the first batch are not a batch")
    # Like Kafka, ignore a batch that is cut off, and refuse a complete one.
    if length <= len(buffer) - position - LENGTH_OVERHEAD:
        raise NotOneBatch("a partition's records must be exactly one batch")


def _check_header(header: BatchHeader, *, transactions_allowed: bool) -> None:
    count = header.record_count
    if header.compression > Compression.ZSTD:
        raise UnknownCompression(f"the compression id {header.compression} is unknown")
    if count <= 0 or header.last_offset_delta != count - 1:
        raise RecordsOutOfOrder(f"{count} records do not fill offsets 0 to {header.last_offset_delta}")
    if header.producer_id >= 0 and header.base_sequence < 0:
        raise RecordsOutOfOrder("an idempotent producer's batch has no sequence number")
    if header.attributes & CONTROL_BIT:
        raise InvalidRecord("clients may not write control records")
    if header.is_transactional and not transactions_allowed:
        raise TransactionalRecords("the producer has no ongoing transaction")


def _check_records(header: BatchHeader, data: bytes | bytearray, rules: Rules, now_ms: int) -> Generator[None]:
    earliest = now_ms - rules.timestamp_before_max_ms
    latest = min(now_ms + rules.timestamp_after_max_ms, TIMESTAMP_MAX)
    keyless: list[tuple[int, str]] = []
    offending: list[tuple[int, str]] = []
    walked = 0
    for index, record in enumerate(records_in(data, header)):  # type: ignore[arg-type]  # a bytearray reads like bytes
        if len(keyless) == RECORD_ERRORS_MAX or len(offending) == RECORD_ERRORS_MAX:
            break
        walked += 1 + len(record.headers)
        if walked >= record_walk.RECORDS_A_TURN:
            walked = 0
            yield
        if record.key is None and rules.keys_required:
            keyless.append((index, "the record has no key"))
        elif not rules.append_time and record.timestamp != NO_TIMESTAMP and not earliest <= record.timestamp <= latest:
            offending.append((index, f"timestamp {record.timestamp} is not within [{earliest}, {latest}]"))
    if keyless:
        raise KeylessRecords("a compacted topic needs keys", tuple(keyless))
    if offending:
        raise InvalidTimestamp("records have timestamps outside the allowed window", tuple(offending))
