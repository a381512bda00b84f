"""Positions of the records in a batch, without decoding values and headers.

One loop, with the short integers inlined, because it runs twice for every record of a compacted log. Only keys are
copied.
"""

from collections.abc import Iterator

from pipeline_broker.records.errors import InvalidRecord
from pipeline_broker.records.varint import VARLONG_BYTES_MAX, read_unsigned, write_varint

HALF_OF_LONGS = 1 << 63
RecordPlace = tuple[int, int, int, int, int, bytes | None, bool]
"""Start, end of the timestamp delta, end, timestamp delta, offset delta, key, and whether the value is null."""


def record_places(data: bytes, position: int, stop: int) -> Iterator[RecordPlace]:
    """Yield the positions in `data` and the key of each record between `position` and `stop`.

    Args:
        data: the decompressed records of a batch.

    Raises:
        InvalidRecord: the records are damaged.
    """
    try:
        while position < stop:
            start = position
            raw = data[position]
            position += 1
            if raw > 0x7F:
                raw, position = read_unsigned(data, start)
            end = position + (raw >> 1)
            if raw & 1 or end > stop:
                raise InvalidRecord("a record is longer than its batch")
            position += 1  # one byte of attributes, none defined
            raw = data[position]
            position += 1
            if raw > 0x7F:
                raw, position = read_unsigned(data, position - 1, VARLONG_BYTES_MAX)
            timestamp_delta = ~(raw >> 1) if raw & 1 else raw >> 1
            rest = position
            raw = data[position]
            position += 1
            if raw > 0x7F:
                raw, position = read_unsigned(data, rest)
            offset_delta = ~(raw >> 1) if raw & 1 else raw >> 1
            raw = data[position]
            position += 1
            if raw > 0x7F:
                raw, position = read_unsigned(data, position - 1)
            key = None
            if not raw & 1:
                key_start = position
                position += raw >> 1
                key = data[key_start:position]
            is_tombstone = bool(data[position] & 1)  # a negative length: the value is null
            if position >= end:
                raise InvalidRecord("a key is longer than its record")
            yield start, rest, end, timestamp_delta, offset_delta, key, is_tombstone
            position = end
    except IndexError:
        raise InvalidRecord("the records are cut off") from None


def append_shifted(
    target: bytearray, data: bytes, position: int, stop: int, shift_ms: int, *, all_alike: bool = False
) -> None:
    """Append copies of records with other timestamp deltas to `target`.

    Deltas wrap around at 64 bits, because clients add and subtract like Java.

    Args:
        data: decompressed records.
        position, stop: the range of the records in `data`.
        shift_ms: is added to each delta.
        all_alike: set each delta to `shift_ms` instead.

    Raises:
        InvalidRecord: the records are damaged.
    """
    for _, rest, end, timestamp_delta, *_ in record_places(data, position, stop):
        head = bytearray(1)  # record attributes: none are defined
        delta = shift_ms if all_alike else shift_ms + timestamp_delta
        write_varint(head, (delta + HALF_OF_LONGS) % (2 * HALF_OF_LONGS) - HALF_OF_LONGS)
        write_varint(target, len(head) + end - rest)
        target += head
        target += data[rest:end]
