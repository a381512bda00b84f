"""Where the records of a batch lie, without taking them apart.

Rules of this file: one loop with the short integers inlined, because it runs twice for every record of a compacted log.
A record stays where it is; only its key is copied out. Headers are skipped: what they hold decides nothing.
"""

from collections.abc import Iterator

from pipeline_broker.records.errors import InvalidRecord
from pipeline_broker.records.varint import VARLONG_BYTES_MAX, read_unsigned, write_varint

HALF_OF_LONGS = 1 << 63
RecordPlace = tuple[int, int, int, int, int, bytes | None, bool]
"""start, where the rest behind the timestamp delta begins, end, timestamp delta, offset delta, key, has no value"""


def record_places(data: bytes, position: int, stop: int) -> Iterator[RecordPlace]:
    """The places of the records that fill a batch's decompressed bytes from `position` to `stop`."""
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
            is_tombstone = bool(data[position] & 1)  # a length below zero: no value
            if position >= end:
                raise InvalidRecord("a key is longer than its record")
            yield start, rest, end, timestamp_delta, offset_delta, key, is_tombstone
            position = end
    except IndexError:
        raise InvalidRecord("the records are cut off") from None


def append_shifted(
    target: bytearray, data: bytes, position: int, stop: int, shift_ms: int, *, all_alike: bool = False
) -> None:
    """Write the records anew with timestamp deltas that are larger by `shift_ms`, or are all just that.

    A delta has 64 bits, as a timestamp, and clients subtract and add as Java does: what does not fit goes round.
    """
    for _, rest, end, timestamp_delta, *_ in record_places(data, position, stop):
        head = bytearray(1)  # record attributes: none are defined
        delta = shift_ms if all_alike else shift_ms + timestamp_delta
        write_varint(head, (delta + HALF_OF_LONGS) % (2 * HALF_OF_LONGS) - HALF_OF_LONGS)
        write_varint(target, len(head) + end - rest)
        target += head
        target += data[rest:end]
