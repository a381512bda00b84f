"""Decoding of the single records of a batch."""

from collections.abc import Callable, Iterator
from typing import NamedTuple

from pipeline_broker.base.buffer import Buffer
from pipeline_broker.records.batch import APPEND_TIME_BIT, HEADER_SIZE, BatchHeader, read_header
from pipeline_broker.records.decompression import DECOMPRESSED_SIZE_MAX, decompress_stored
from pipeline_broker.records.errors import InvalidRecord
from pipeline_broker.records.record_places import record_places
from pipeline_broker.records.varint import read_varint, read_varlong

_SEQUENCE_MODULUS = 1 << 31


class Record(NamedTuple):
    """A record as a consumer sees it.

    `timestamp` is in milliseconds since 1970, and `sequence` is -1 without an idempotent producer.
    """

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    sequence: int


def iterate_records(
    batch: Buffer,
    header: BatchHeader | None = None,
    *,
    size_max: int = DECOMPRESSED_SIZE_MAX,
    name_errors: str = "replace",
) -> Iterator[Record]:
    """Yield the records of one complete batch.

    Args:
        batch: the bytes of the batch.
        header: the header of the batch, if it was decoded already.
        size_max: limit of the decompressed records, in bytes.
        name_errors: see `records_in`.

    Raises:
        RecordError: the batch is damaged, or its decompressed records are larger than `size_max`.
    """
    if header is None:
        header = read_header(batch)
    yield from records_in(record_bytes(batch, header, size_max), header, name_errors)


def records_in(data: bytes, header: BatchHeader, name_errors: str = "replace") -> Iterator[Record]:
    """Yield the records of a batch from its decompressed bytes.

    Args:
        data: the decompressed bytes after the batch header.
        header: the header of the batch.
        name_errors: error handler for header names that are not UTF-8; "surrogateescape" keeps their bytes.

    Raises:
        InvalidRecord: the records are damaged.
    """
    append_time = header.max_timestamp if header.attributes & APPEND_TIME_BIT else None
    position = 0
    for _ in range(header.record_count):
        length, position = read_varint(data, position)
        end = position + length
        if length < 0 or end > len(data):
            raise InvalidRecord("a record is longer than its batch")
        yield _read_record(data, position, end, header, append_time, name_errors)
        position = end
    if position != len(data):
        raise InvalidRecord("bytes are left after the last record")


def chosen_records(
    batch: Buffer, header: BatchHeader, is_chosen: Callable[[bytes | None], bool]
) -> Iterator[tuple[int, Record | None]]:
    """Yield the offset of each record of one complete batch, with the record if its key is chosen, otherwise with None.

    Records that are not chosen are decoded only up to their key, which takes a third of the time.

    Args:
        is_chosen: receives the key, or None for a record without one.

    Raises:
        RecordError: the records are damaged.
    """
    data = record_bytes(batch, header)
    append_time = header.max_timestamp if header.attributes & APPEND_TIME_BIT else None
    base_offset, left = header.base_offset, header.record_count
    for start, _, end, _, offset_delta, key, _ in record_places(data, 0, len(data)):
        if not left:
            raise InvalidRecord("bytes are left after the last record")
        left -= 1
        record = None
        if is_chosen(key):
            _, position = read_varint(data, start)
            record = _read_record(data, position, end, header, append_time)
        yield base_offset + offset_delta, record
    if left:
        raise InvalidRecord("the records are cut off")


def record_bytes(batch: Buffer, header: BatchHeader, size_max: int = DECOMPRESSED_SIZE_MAX) -> bytes:
    """Return the decompressed records of a batch, without the batch header.

    Raises:
        RecordError: the records are damaged, or larger than `size_max` bytes when decompressed.
    """
    return decompress_stored(header.compression, memoryview(batch)[HEADER_SIZE : header.size_bytes], size_max)


def _read_record(
    data: bytes,
    position: int,
    end: int,
    header: BatchHeader,
    append_time: int | None,
    name_errors: str = "replace",
) -> Record:
    timestamp_delta, position = read_varlong(data, position + 1)  # one byte of attributes, none defined
    offset_delta, position = read_varint(data, position)
    key, position = _read_nullable(data, position, end)
    value, position = _read_nullable(data, position, end)
    count, position = read_varint(data, position)
    if not 0 <= count <= end - position:
        raise InvalidRecord("a record has more headers than bytes")
    headers = []
    for _ in range(count):
        name, position = _read_nullable(data, position, end)
        if name is None:
            raise InvalidRecord("a header has no key")
        content, position = _read_nullable(data, position, end)
        headers.append((name.decode(errors=name_errors), content))
    if position != end:
        raise InvalidRecord("a record does not fill its length")
    sequence = -1 if header.base_sequence < 0 else (header.base_sequence + offset_delta) % _SEQUENCE_MODULUS
    timestamp = header.base_timestamp + timestamp_delta if append_time is None else append_time
    return Record(header.base_offset + offset_delta, timestamp, key, value, tuple(headers), sequence)


def _read_nullable(data: bytes, position: int, end: int) -> tuple[bytes | None, int]:
    length, position = read_varint(data, position)
    if length < 0:
        return None, position
    stop = position + length
    if stop > end:
        raise InvalidRecord("a key, value or header is longer than its record")
    return data[position:stop], stop
