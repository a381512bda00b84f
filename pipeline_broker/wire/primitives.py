"""The runtime of generated codecs: error types, limits, varints and tag sections."""

from __future__ import annotations

from typing import Final

from pipeline_broker.base.buffer import Buffer

STRING_SIZE_MAX: Final = 0x7FFF
"""The longest string. Kafka enforces it for both encodings, although a compact length could exceed it."""

VARINT_BYTES_MAX: Final = 5
"""The longest unsigned varint: 32 bits, seven per byte."""

ELEMENTS_MAX: Final = 50_000
"""Array elements and tagged fields of a request above 16 KiB; one with more closes the connection. An element of one
byte takes fifty bytes after decoding."""

LARGE_BYTES = 16 * 1024
"""Larger messages are decoded in steps, and their elements are counted."""

ELEMENTS_A_TURN: Final = 2_000
"""Elements that one turn of the event loop decodes or encodes: about 4 ms of work."""

TAGS_MAX: Final = 1_000
"""Tagged fields of one section. No version of any message declares as many as twenty."""

RESPONSE_BYTES_MAX: Final = 32 * 1024 * 1024
"""The largest response, without its records; a request for more gets POLICY_VIOLATION."""

MALFORMED_UNIT_BYTES: Final = 32
"""While decoding, text of this size counts as one element of a turn, because it may be malformed."""

CHUNK_UNIT_BYTES: Final = 1024
"""While encoding, text or bytes of this size count as one element of a turn."""

OWN_PART_BYTES_MIN: Final = 16 * 1024
"""While encoding in steps, bytes of this size become a separate part, which is not copied."""

UUID_ZERO: Final = bytes(16)
"""Kafka's null UUID."""


class DecodeError(Exception):
    """Bytes that do not match the schema; the only error that decoding raises."""


class NotUtf8Error(DecodeError):
    """Text that is not UTF-8; raised only by decoders with `utf8_only`."""


class EncodeError(Exception):
    """A message that this version cannot carry; a bug of the sender, never of its peer."""


class ResponseTooLargeError(Exception):
    """A response larger than RESPONSE_BYTES_MAX, or a request that costs too much work."""


def read_uvarint(buffer: Buffer, position: int) -> tuple[int, int]:
    """Decode an unsigned varint; return the value and the position after it.

    Raises:
        DecodeError: the varint is cut short, or longer than VARINT_BYTES_MAX.
    """
    try:
        first = buffer[position]
    except IndexError:
        raise DecodeError(f"a varint is missing at byte {position}") from None
    return read_uvarint_rest(buffer, position + 1, first) if first > 0x7F else (first, position + 1)


def read_uvarint_rest(buffer: Buffer, position: int, first: int) -> tuple[int, int]:
    """Decode the rest of a varint; return the value and the position after it.

    Args:
        position: of the second byte.
        first: the first byte, which has its continuation bit set.

    Raises:
        DecodeError: the varint is cut short, or longer than VARINT_BYTES_MAX.
    """
    value = first & 0x7F
    shift = 7
    for index in range(position, position + VARINT_BYTES_MAX - 1):
        if index >= len(buffer):
            raise DecodeError(f"a varint is cut off at byte {index}")
        byte = buffer[index]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            # Five bytes carry 35 bits; a varint has 32.
            return value & 0xFFFFFFFF, index + 1
        shift += 7
    raise DecodeError(f"the varint at byte {position - 1} is longer than {VARINT_BYTES_MAX} bytes")


def read_tag_count(buffer: Buffer, position: int, end: int) -> tuple[int, int]:
    """Decode the number of fields of a tag section; return the number and the position after it.

    Raises:
        DecodeError: the number is malformed, exceeds TAGS_MAX, or does not fit into the bytes before `end`.
    """
    count, position = read_uvarint(buffer, position)
    if count > TAGS_MAX:
        raise DecodeError(f"a section has {count} tagged fields; the limit is {TAGS_MAX}")
    # A field has at least two bytes: its tag and its size.
    if count * 2 > end - position:
        raise DecodeError(f"{count} tagged fields do not fit into {end - position} bytes")
    return count, position


def skip_tags(buffer: Buffer, position: int, end: int) -> int:
    """Skip a tag section of unknown fields; return the position after it.

    Raises:
        DecodeError: the section is malformed, or ends after `end`.
    """
    return skip_tags_within(buffer, position, end, ELEMENTS_MAX)[0]


def skip_tags_within(buffer: Buffer, position: int, end: int, left: int) -> tuple[int, int]:
    """Skip a tag section of unknown fields.

    Args:
        end: length of the message in bytes.
        left: the number of elements that the message may still have.

    Returns:
        the position after the section, and `left` minus the number of its fields.

    Raises:
        DecodeError: the section is malformed, ends after `end`, or has more than `left` fields.
    """
    count, position = read_tag_count(buffer, position, end)
    left -= count
    if left < 0:
        raise too_many_elements("tagged fields")
    for _ in range(count):
        _, position = read_uvarint(buffer, position)
        size, position = read_uvarint(buffer, position)
        position += size
        if position > end:
            raise DecodeError(f"a tagged field of {size} bytes ends {position - end} bytes after the message")
    return position, left


def too_many_elements(path: str) -> DecodeError:
    return DecodeError(f"{path}: a message has at most {ELEMENTS_MAX} elements")


def bad_length(path: str, length: int, remaining: int) -> DecodeError:
    """Return the error for a length that is negative, null in a field that is not nullable, or exceeds the buffer."""
    if length == -1:
        return DecodeError(f"{path} must not be null")
    return DecodeError(f"{path} has the length {length}, but {remaining} bytes are left")


def string_too_long(path: str, length: int) -> DecodeError:
    return DecodeError(f"{path} has {length} bytes; the limit of a string is {STRING_SIZE_MAX}")


def response_too_large(name: str) -> ResponseTooLargeError:
    return ResponseTooLargeError(f"{name}: a response has at most {RESPONSE_BYTES_MAX} bytes")


def bad_tag_size(path: str, surplus: int) -> DecodeError:
    """Return the error for a tagged field with a value longer or shorter than its declared size."""
    return DecodeError(
        f"{path}: the tagged value is {abs(surplus)} bytes {'longer' if surplus > 0 else 'shorter'} than declared"
    )


def write_string_length(length: int) -> bytes:
    """Encode the compact length of a string.

    Args:
        length: the size of the string in bytes plus one.

    Raises:
        EncodeError: the string is longer than STRING_SIZE_MAX.
    """
    if length > STRING_SIZE_MAX + 1:
        raise EncodeError(f"a string has {length - 1} bytes; the limit is {STRING_SIZE_MAX}")
    return write_uvarint(length)


def cut_text(data: bytes) -> bytes:
    """Truncate UTF-8 text to STRING_SIZE_MAX bytes, between characters.

    An error message may be too long, because it quotes a name that is as long as a string may be.
    """
    return data if len(data) <= STRING_SIZE_MAX else data[:STRING_SIZE_MAX].decode(errors="ignore").encode()


def write_uvarint(value: int) -> bytes:
    if value < 0x80:
        return SINGLE_BYTES[value]
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def tagged_field(tag: int, payload: bytes) -> bytes:
    return write_uvarint(tag) + write_uvarint(len(payload)) + payload


def tag_section(fields: list[bytes]) -> bytes:
    """Encode a tag section.

    Args:
        fields: the encoded fields (`tagged_field`), in ascending order of their tags.
    """
    return write_uvarint(len(fields)) + b"".join(fields) if fields else b"\0"


SINGLE_BYTES: Final = tuple(bytes((value,)) for value in range(0x80))
"""Encoded varints of one byte, by value."""
