"""Zig-zag variable-length integers of record batches: up to 5 bytes for int32, 10 bytes for int64."""

from typing import Final

from pipeline_broker.base.buffer import Buffer
from pipeline_broker.records.errors import InvalidRecord

VARINT_BYTES_MAX: Final = 5
VARLONG_BYTES_MAX: Final = 10
# Most lengths and offset deltas are smaller. Encoding them one by one took a third of a producer's time.
_SHORT_COUNT: Final = 2048


def write_varint(target: bytearray, value: int) -> None:
    """Append a signed number; int32 and int64 have the same encoding."""
    raw = value << 1 if value >= 0 else (-value << 1) - 1
    while raw > 0x7F:
        target.append(raw & 0x7F | 0x80)
        raw >>= 7
    target.append(raw)


def varint(value: int) -> bytes:
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
"""The encodings of the first non-negative numbers."""


def read_unsigned(buffer: Buffer, position: int, bytes_max: int = VARINT_BYTES_MAX) -> tuple[int, int]:
    """Return the raw number at `position`, before zig-zag decoding, and the position after it.

    Raises:
        InvalidRecord: the number is longer than `bytes_max` bytes, or cut off.
    """
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
    """Return the signed int32 at `position`, and the position after it.

    Raises:
        InvalidRecord: the number is longer than 5 bytes, or cut off.
    """
    raw, position = read_unsigned(buffer, position)
    return (raw >> 1) ^ -(raw & 1), position


def read_varlong(buffer: Buffer, position: int) -> tuple[int, int]:
    """Return the signed int64 at `position`, and the position after it.

    Raises:
        InvalidRecord: the number is longer than 10 bytes, or cut off.
    """
    raw, position = read_unsigned(buffer, position, VARLONG_BYTES_MAX)
    return (raw >> 1) ^ -(raw & 1), position
