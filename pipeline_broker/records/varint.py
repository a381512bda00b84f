"""Zig-zag variable-length integers, as records use them.

Rules of this file: a number takes at most 5 bytes (int32) or 10 bytes (int64); a longer one, or one that runs
past the end of the buffer, is an InvalidRecord. The hot loop of `check` inlines the one- and two-byte cases.
"""

from typing import Final

from pipeline_broker.records.errors import InvalidRecord

Buffer = bytes | bytearray | memoryview

VARINT_BYTES_MAX: Final = 5
VARLONG_BYTES_MAX: Final = 10
_SHORT_COUNT: Final = 2048
"""Most lengths and offsets are smaller; a producer spends a third of its time encoding them one by one."""


def write_varint(target: bytearray, value: int) -> None:
    """Append a signed number (int32 and int64 share the layout)."""
    raw = value << 1 if value >= 0 else (-value << 1) - 1
    while raw > 0x7F:
        target.append(raw & 0x7F | 0x80)
        raw >>= 7
    target.append(raw)


def varint(value: int) -> bytes:
    """Encode a signed number."""
    if 0 <= value < _SHORT_COUNT:
        return SHORT_VARINTS[value]
    encoded = bytearray()
    write_varint(encoded, value)
    return bytes(encoded)


def _short_varints() -> tuple[bytes, ...]:
    encoded = []
    for value in range(_SHORT_COUNT):
        target = bytearray()
        write_varint(target, value)
        encoded.append(bytes(target))
    return tuple(encoded)


SHORT_VARINTS: Final = _short_varints()
"""The encoded numbers from 0 on."""


def read_unsigned(buffer: Buffer, position: int, bytes_max: int = VARINT_BYTES_MAX) -> tuple[int, int]:
    """The raw (not yet zig-zag decoded) number at `position` and the position after it."""
    raw = shift = 0
    limit = min(len(buffer), position + bytes_max)
    while position < limit:
        byte = buffer[position]
        position += 1
        raw |= (byte & 0x7F) << shift
        if byte < 0x80:
            return raw & (0xFFFFFFFF if bytes_max == VARINT_BYTES_MAX else 0xFFFFFFFFFFFFFFFF), position
        shift += 7
    raise InvalidRecord("a variable-length number is too long or cut off")


def read_varint(buffer: Buffer, position: int) -> tuple[int, int]:
    """The signed int32 at `position` and the position after it."""
    raw, position = read_unsigned(buffer, position)
    return (raw >> 1) ^ -(raw & 1), position


def read_varlong(buffer: Buffer, position: int) -> tuple[int, int]:
    """The signed int64 at `position` and the position after it."""
    raw, position = read_unsigned(buffer, position, VARLONG_BYTES_MAX)
    return (raw >> 1) ^ -(raw & 1), position
