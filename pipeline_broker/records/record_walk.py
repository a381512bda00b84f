"""The structural check of a produced batch's records: one pass that can pause between turns.

The loop inlines the short integers, because it runs for every produced record. It accepts only bytes. In compiled code,
reading a byte of a bytes object takes a few instructions. Any other buffer takes several calls into the interpreter.
"""

from typing import Final, TypeAlias

from pipeline_broker.records.errors import BatchTooLarge, InvalidRecord, RecordsOutOfOrder
from pipeline_broker.records.varint import VARLONG_BYTES_MAX, read_unsigned, read_varint

# Limit of the record headers in a batch. Headers of two bytes compress to almost nothing, but each must be checked.
HEADERS_MAX: Final = 500_000
RECORD_HEADERS_MAX: Final = 10_000  # limit of the headers in one record, which are checked without a pause
RECORDS_A_TURN = 3_000  # records and headers checked in one turn, about 4 ms of work
"""Records and headers that are checked in one turn; the check continues in a later turn."""
UNLIMITED: Final = (1 << 63) - 1
Walked: TypeAlias = tuple[int, int, bool, int, int, int]
"""The state of a walk, a plain tuple because one is made for every batch:

* the lowest and the highest timestamp delta;
* whether a record has no key;
* the position after the last record checked;
* how many more record headers the batch may have;
* the number of records checked.
"""
NOT_WALKED: Final[Walked] = (UNLIMITED, -UNLIMITED, False, 0, HEADERS_MAX, 0)


def walk(data: bytes, count: int, before: Walked) -> Walked:  # noqa: C901, PLR0912, PLR0915 - one inlined loop
    """Check records from the state `before` until `count` of the batch are checked, and return the new state.

    The walk stops earlier if the records have many headers, so that a turn stays short.

    Raises:
        InvalidRecord: a record is damaged.
        RecordsOutOfOrder: the offset deltas do not count up from 0.
        BatchTooLarge: the batch or a record has too many headers.
    """
    lowest, highest, null_key, position, left, index = before
    size = len(data)
    previous = -1
    headers_end = left - RECORDS_A_TURN
    try:
        for index in range(index, count):  # noqa: B020 - `index` is part of the result
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
            raw = data[position + 1]  # skips one byte of attributes
            position += 2
            if raw > 0x7F:
                byte = data[position]
                position += 1
                if byte > 0x7F:
                    raw, position = read_unsigned(data, position - 2, VARLONG_BYTES_MAX)
                else:
                    raw = raw & 0x7F | byte << 7
            if raw != previous:  # consecutive records often have the same timestamp
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
                raise RecordsOutOfOrder(
                    "offsets in the batch are not consecutive", ((index, "the offset is not the next one"),)
                )
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
    """Check the headers of a record; return how many more the batch may have, and the position after them."""
    count, position = read_varint(data, position)
    if not 0 <= count <= end - position:
        raise InvalidRecord("a record has more headers than bytes")
    if count > left:
        raise BatchTooLarge(f"a batch has at most {HEADERS_MAX} record headers")
    if count > RECORD_HEADERS_MAX:
        raise BatchTooLarge(f"a record has at most {RECORD_HEADERS_MAX} headers")
    for _ in range(count):
        length, position = read_varint(data, position)
        if length < 0:
            raise InvalidRecord("a header has no key")
        position += length
        length, position = read_varint(data, position)
        position += max(length, 0)
        if position > end:
            raise InvalidRecord("a header is longer than its record")
    return left - count, position
