"""DER, the encoding of certificates and keys: elements of a tag, a length and a content.

Nothing is copied, and nested elements are only read on request, so neither depth nor length costs time. Indefinite
lengths, tags of several bytes and lengths of more than four bytes are refused, although BER allows them.
"""

from __future__ import annotations

from collections.abc import Iterator

__all__ = ["INTEGER", "OBJECT_ID", "SEQUENCE", "Element", "elements", "object_id", "sequence"]

INTEGER, OBJECT_ID, SEQUENCE = 0x02, 0x06, 0x30
# The integers of a longer object id would grow with each byte.
OBJECT_ID_BYTES_MAX = 64

Element = tuple[int, int, int]
"""An element: its tag, and the start and end of its content."""


def elements(data: bytes, start: int, end: int) -> Iterator[Element]:
    """Yield the elements between two positions.

    Raises:
        ValueError: the bytes are not DER, or are DER that this module refuses.
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
    """Return an object id as dotted numbers.

    Args:
        tag, start, end: the element.

    Raises:
        ValueError: the element is not an object id, or is longer than OBJECT_ID_BYTES_MAX.
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


def sequence(data: bytes, element: Element, count: int) -> list[Element]:
    """Return the elements of a sequence.

    Args:
        count: the least number of elements.

    Raises:
        ValueError: the element is not a sequence, has fewer elements, or does not contain DER.
    """
    tag, start, end = element
    found = list(elements(data, start, end))
    if tag != SEQUENCE or len(found) < count:
        raise ValueError("it is damaged")
    return found
