"""What generated codecs call at run time: the two error types, varints and tag sections.

Rules of this file: nothing here knows a schema; a length is compared with the bytes that remain before anything
is read or allocated; whatever is wrong with the input is a DecodeError.
"""

from __future__ import annotations

from typing import Final, TypeAlias

Buffer: TypeAlias = bytes | bytearray | memoryview

STRING_SIZE_MAX: Final = 0x7FFF
"""Kafka refuses longer strings in both length encodings, although compact strings could say more."""

VARINT_BYTES_MAX: Final = 5
"""An unsigned varint carries 32 bits, seven to a byte."""

ELEMENTS_MAX: Final = 50_000
"""Array elements and tagged fields of one large message: each may be one byte and takes fifty once it is decoded."""

LARGE_BYTES = 16 * 1024
"""Messages up to this size are read in one go; larger ones in steps, and their elements are counted."""

ELEMENTS_A_TURN: Final = 2_000
"""Elements that are read or written before others have a turn: about 4 ms of work."""

TAGS_MAX: Final = 1_000
"""Tagged fields of one section: no version of any message has twenty."""

RESPONSE_BYTES_MAX: Final = 32 * 1024 * 1024
"""A response of this size is written; records do not count."""

MALFORMED_UNIT_BYTES: Final = 32
"""Text of this size counts as one element of a turn when a message with malformed text is read."""

CHUNK_UNIT_BYTES: Final = 1024
"""So many bytes of text count as one element when a response is written."""

OWN_PART_BYTES_MIN: Final = 16 * 1024
"""Bytes of this size are a part of their own of a response that is written in steps: they are not copied."""

UUID_ZERO: Final = bytes(16)
"""Kafka's "no uuid"."""


class DecodeError(Exception):
    """The bytes are not what the schema says: the one error that decoding raises."""


class NotUtf8Error(DecodeError):
    """Text is not UTF-8: raised only by the decoders that leave it to the caller what to do with such a message."""


class EncodeError(Exception):
    """The message cannot be written in this version: a mistake of ours, never of a peer."""


class ResponseTooLargeError(Exception):
    """A request asks for an answer that is larger, or takes longer to make, than any is allowed to be."""


def read_uvarint(buffer: Buffer, position: int) -> tuple[int, int]:
    """Read an unsigned varint; returns the value and the position after it."""
    try:
        first = buffer[position]
    except IndexError:
        raise DecodeError(f"no varint at byte {position}") from None
    return read_uvarint_rest(buffer, position + 1, first) if first > 0x7F else (first, position + 1)


def read_uvarint_rest(buffer: Buffer, position: int, first: int) -> tuple[int, int]:
    """Finish a varint whose first byte, at position - 1, has its continuation bit set."""
    value = first & 0x7F
    shift = 7
    for index in range(position, position + VARINT_BYTES_MAX - 1):
        if index >= len(buffer):
            raise DecodeError(f"varint cut short at byte {index}")
        byte = buffer[index]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & 0xFFFFFFFF, index + 1
        shift += 7
    raise DecodeError(f"varint longer than {VARINT_BYTES_MAX} bytes before byte {position + VARINT_BYTES_MAX - 1}")


def read_tag_count(buffer: Buffer, position: int, end: int) -> tuple[int, int]:
    """Read how many fields a tag section has; refuses more than the remaining bytes can hold, two bytes each."""
    count, position = read_uvarint(buffer, position)
    if count > TAGS_MAX:
        raise DecodeError(f"{count} tagged fields; the limit is {TAGS_MAX}")
    if count * 2 > end - position:
        raise DecodeError(f"{count} tagged fields do not fit into {end - position} bytes")
    return count, position


def skip_tags(buffer: Buffer, position: int, end: int) -> int:
    """Step over a tag section of fields unknown to us."""
    return skip_tags_within(buffer, position, end, ELEMENTS_MAX)[0]


def skip_tags_within(buffer: Buffer, position: int, end: int, left: int) -> tuple[int, int]:
    """Step over a tag section of fields unknown to us; returns the position and how many elements are left."""
    count, position = read_tag_count(buffer, position, end)
    left -= count
    if left < 0:
        raise too_many_elements("tagged fields")
    for _ in range(count):
        _, position = read_uvarint(buffer, position)
        size, position = read_uvarint(buffer, position)
        position += size
        if position > end:
            raise DecodeError(f"tagged field of {size} bytes ends {position - end} bytes behind the end")
    return position, left


def too_many_elements(path: str) -> DecodeError:
    """Name the array, or the tag section, with which a large message has more elements than are decoded."""
    return DecodeError(f"{path}: a message has at most {ELEMENTS_MAX} elements")


def bad_length(path: str, length: int, remaining: int) -> DecodeError:
    """Name the field whose length is negative, null against the schema or beyond the rest of the buffer."""
    if length == -1:
        return DecodeError(f"{path} must not be null")
    return DecodeError(f"{path}: length {length} with {remaining} bytes left")


def string_too_long(path: str, length: int) -> DecodeError:
    """Name the string field that exceeds Kafka's limit."""
    return DecodeError(f"{path}: string of {length} bytes, the limit is {STRING_SIZE_MAX}")


def response_too_large(name: str) -> ResponseTooLargeError:
    """Name the message that is larger than RESPONSE_BYTES_MAX."""
    return ResponseTooLargeError(f"{name}: a response has at most {RESPONSE_BYTES_MAX} bytes")


def bad_tag_size(path: str, surplus: int) -> DecodeError:
    """Name the tagged field whose declared size is not the size of its value."""
    return DecodeError(
        f"{path}: tagged value is {abs(surplus)} bytes {'longer' if surplus > 0 else 'shorter'} than said"
    )


def write_string_length(length: int) -> bytes:
    """Write the compact length of a string, one more than its bytes; refuses what no reader accepts."""
    if length > STRING_SIZE_MAX + 1:
        raise EncodeError(f"string of {length - 1} bytes, the limit is {STRING_SIZE_MAX}")
    return write_uvarint(length)


def cut_text(data: bytes) -> bytes:
    """What fits of a text for people: a name that it repeats may be as long as any string is."""
    return data if len(data) <= STRING_SIZE_MAX else data[:STRING_SIZE_MAX].decode(errors="ignore").encode()


def write_uvarint(value: int) -> bytes:
    """Write an unsigned varint."""
    if value < 0x80:
        return SINGLE_BYTES[value]
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def tagged_field(tag: int, payload: bytes) -> bytes:
    """One entry of a tag section."""
    return write_uvarint(tag) + write_uvarint(len(payload)) + payload


def tag_section(fields: list[bytes]) -> bytes:
    """Write a tag section from entries in ascending order of their tags."""
    return write_uvarint(len(fields)) + b"".join(fields) if fields else b"\0"


SINGLE_BYTES: Final = tuple(bytes((value,)) for value in range(0x80))
"""The varints of one byte, by value."""
