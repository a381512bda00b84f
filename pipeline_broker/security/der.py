"""DER, as certificates and keys are written in: elements of a tag, a length and a content.

Rules of this file: it copies nothing and goes into no element by itself, so no depth and no length costs anything.
Indefinite lengths, tags of several bytes and lengths of more than four bytes are refused, though BER has them.
"""

from __future__ import annotations

from collections.abc import Iterator

__all__ = ["INTEGER", "OBJECT_ID", "SEQUENCE", "Place", "elements", "object_id", "sequence"]

INTEGER, OBJECT_ID, SEQUENCE = 0x02, 0x06, 0x30
OBJECT_ID_BYTES_MAX = 64
"""The numbers of a longer one would grow with each byte."""

Place = tuple[int, int, int]
"""A tag, and where its content begins and ends."""


def elements(data: bytes, start: int, end: int) -> Iterator[Place]:
    """Yield the elements of DER that stand between two positions.

    Raises:
        ValueError: it is not DER.
    """
    position = start
    while position < end:
        if end - position < 2:
            raise ValueError("not DER: an element is cut off")
        tag, length = data[position], data[position + 1]
        position += 2
        if length >= 0x80:
            count = length - 0x80
            if not 0 < count <= 4 or position + count > end:
                raise ValueError("not DER: a length cannot be read")
            length = int.from_bytes(data[position : position + count])
            position += count
        if tag & 0x1F == 0x1F or length > end - position:
            raise ValueError("not DER: an element is cut off")
        yield tag, position, position + length
        position += length


def object_id(data: bytes, tag: int, start: int, end: int) -> str:
    """Return an object id as numbers between dots.

    Raises:
        ValueError: it is not one.
    """
    if tag != OBJECT_ID or not 0 < end - start <= OBJECT_ID_BYTES_MAX or data[end - 1] & 0x80:
        raise ValueError("not DER: an object id cannot be read")
    numbers, number = [], 0
    for byte in data[start:end]:
        number = number << 7 | byte & 0x7F
        if not byte & 0x80:
            numbers.append(number)
            number = 0
    first = min(numbers[0] // 40, 2)
    return ".".join(map(str, (first, numbers[0] - 40 * first, *numbers[1:])))


def sequence(data: bytes, place: Place, count: int) -> list[Place]:
    """Return the elements of a sequence.

    Args:
        count: elements that it has at least.

    Raises:
        ValueError: it is not one.
    """
    tag, start, end = place
    found = list(elements(data, start, end))
    if tag != SEQUENCE or len(found) < count:
        raise ValueError("it is damaged")
    return found
