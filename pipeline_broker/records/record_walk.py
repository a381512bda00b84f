"""The walk over the records of a produced batch: that each is whole, and what must be known of all of them.

Rules of this file: one loop with the short integers inlined, because it runs for every record produced; it stops where
others may have a turn, and goes on from there. It takes bytes and nothing else: compiled, a byte of these is read in a
few instructions, one of any buffer by several calls into the interpreter.
"""

from typing import Final, TypeAlias

from pipeline_broker.records.errors import BatchTooLarge, InvalidRecord, RecordsOutOfOrder
from pipeline_broker.records.varint import VARLONG_BYTES_MAX, read_unsigned, read_varint

HEADERS_MAX: Final = 500_000
"""Record headers of one batch. Two bytes each, they compress to nearly nothing, and every one has to be looked at."""
RECORD_HEADERS_MAX: Final = 10_000
"""Headers of one record, which are looked at in one go."""
RECORDS_A_TURN = 3_000
"""Records, and their headers, that are looked at before others have a turn: about 4 ms of work."""
UNLIMITED: Final = (1 << 63) - 1
Walked: TypeAlias = tuple[int, int, bool, int, int, int]
"""What a walk over records found, and where it stands, as a plain tuple because one is made for every batch:

* the lowest and the highest timestamp delta;
* whether a record has no key;
* the position of the byte after the last record that was looked at;
* how many more record headers the batch may have;
* how many records were looked at, from the first.
"""
NOT_WALKED: Final[Walked] = (UNLIMITED, -UNLIMITED, False, 0, HEADERS_MAX, 0)


def walk(data: bytes, count: int, before: Walked) -> Walked:  # noqa: C901, PLR0912, PLR0915 - one inlined loop
    """Check the structure of the records up to the one numbered `count`; fewer where they have many headers."""
    lowest, highest, null_key, position, left, index = before
    size = len(data)
    previous = -1
    headers_end = left - RECORDS_A_TURN
    try:
        for index in range(index, count):  # noqa: B020 - it tells where the walk stands
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
            if left < headers_end:
                break
    except IndexError:
        raise InvalidRecord("the records are cut off") from None
    return lowest, highest, null_key, position, left, index + 1


def _walk_headers(data: bytes, position: int, end: int, left: int) -> tuple[int, int]:
    """Check a record's headers; returns how many more the batch may have, and the position behind them."""
    count, position = read_varint(data, position)
    if not 0 <= count <= end - position:
        raise InvalidRecord("more headers than bytes")
    if count > left:
        raise BatchTooLarge(f"a batch has at most {HEADERS_MAX} record headers")
    if count > RECORD_HEADERS_MAX:
        raise BatchTooLarge(f"a record has at most {RECORD_HEADERS_MAX} headers")
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
