r"""What a certificate says of its owner: the distinguished name as Java writes it, and the alternative names.

    Certificate    = SEQUENCE { TBSCertificate, ... }
    TBSCertificate = SEQUENCE { [0] version, serial, algorithm, issuer, validity, subject, key, ..., [3] extensions }
    Name           = SEQUENCE OF SET OF SEQUENCE { type OID, value }

Rules of this file: it reads and judges nothing; who signed a certificate is checked by OpenSSL before. Input that is no
certificate is a ValueError. Names are those of Java's `X500Principal.getName()` (RFC 2253), because the mapping rules
that operators have are written for them: the most specific part first, nine well-known types by keyword and the rest by
number with a value in hexadecimal.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator

__all__ = ["alternative_names", "distinguished_name", "valid_until"]

KEYWORDS = {
    "2.5.4.3": "CN",
    "2.5.4.6": "C",
    "2.5.4.7": "L",
    "2.5.4.8": "ST",
    "2.5.4.9": "STREET",
    "2.5.4.10": "O",
    "2.5.4.11": "OU",
    "0.9.2342.19200300.100.1.25": "DC",
    "0.9.2342.19200300.100.1.1": "UID",
}
TEXTS = {0x0C: "utf-8", 0x13: "ascii", 0x14: "latin-1", 0x16: "ascii", 0x1B: "ascii", 0x1E: "utf-16-be"}
"""Tags of values that are texts: UTF8String, PrintableString, T61String, IA5String, GeneralString, BMPString."""
ESCAPED = frozenset(',=+<>#;"\\')
SEQUENCE, SET, OBJECT_ID = 0x30, 0x31, 0x06
VERSION, EXTENSIONS = 0xA0, 0xA3
ALTERNATIVE_NAMES = "2.5.29.17"
UTC_TIME = 0x17
VALIDITY = 3
"""Behind serial, algorithm and issuer."""
FIELDS_BEFORE_SUBJECT = 4
"""Serial, algorithm, issuer, validity."""
DN_BYTES_MAX = 64 * 1024


def distinguished_name(certificate: bytes) -> str:
    """The subject of a certificate in DER form.

    Raises:
        ValueError: it is none.
    """
    fields = _fields(certificate)
    tag, start, end = fields[FIELDS_BEFORE_SUBJECT]
    if tag != SEQUENCE or end - start > DN_BYTES_MAX:
        raise ValueError("not a certificate: the subject is no name")
    parts = []
    for part_tag, part_start, part_end in _elements(certificate, start, end):
        if part_tag != SET:
            raise ValueError("not a certificate: the subject is no name")
        values = [_attribute(certificate, *place) for place in _elements(certificate, part_start, part_end)]
        parts.append("+".join(values))
    return ",".join(reversed(parts))


def alternative_names(certificate: bytes) -> frozenset[tuple[int, bytes]]:
    """The alternative names of a certificate in DER form, each with the tag of its kind.

    Raises:
        ValueError: it is none.
    """
    found: set[tuple[int, bytes]] = set()
    for tag, start, end in _fields(certificate):
        if tag != EXTENSIONS:
            continue
        ((_, list_start, list_end),) = _elements(certificate, start, end)
        for _, extension_start, extension_end in _elements(certificate, list_start, list_end):
            places = list(_elements(certificate, extension_start, extension_end))
            if not places:
                raise ValueError("not a certificate: an extension is empty")
            if _object_id(certificate, *places[0]) == ALTERNATIVE_NAMES:
                _, value_start, value_end = places[-1]
                ((_, names_start, names_end),) = _elements(certificate, value_start, value_end)
                found.update(
                    (kind, certificate[name_start:name_end])
                    for kind, name_start, name_end in _elements(certificate, names_start, names_end)
                )
    return frozenset(found)


def valid_until(certificate: bytes) -> dt.datetime:
    """The last moment of a certificate in DER form.

    Raises:
        ValueError: it is none.
    """
    _, start, end = _fields(certificate)[VALIDITY]
    (_, (tag, time_start, time_end)) = _elements(certificate, start, end)
    text = certificate[time_start:time_end].decode("ascii")
    if tag == UTC_TIME:  # RFC 5280: years from 1950 to 2049, by two digits
        text = ("19" if text >= "5" else "20") + text
    return dt.datetime.strptime(text, "%Y%m%d%H%M%SZ").replace(tzinfo=dt.UTC)


Place = tuple[int, int, int]
"""A tag, and where its content begins and ends."""


def _fields(certificate: bytes) -> list[Place]:
    """The fields of the part that is signed, without the version."""
    ((tag, start, end),) = _elements(certificate, 0, len(certificate))
    outer = list(_elements(certificate, start, end))
    if tag != SEQUENCE or not outer or outer[0][0] != SEQUENCE:
        raise ValueError("not a certificate")
    fields = [place for place in _elements(certificate, *outer[0][1:]) if place[0] != VERSION]
    if len(fields) <= FIELDS_BEFORE_SUBJECT:
        raise ValueError("not a certificate: it has too few fields")
    return fields


def _elements(data: bytes, start: int, end: int) -> Iterator[Place]:
    """The elements of DER that stand between two positions."""
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


def _attribute(data: bytes, tag: int, start: int, end: int) -> str:
    places = list(_elements(data, start, end))
    if tag != SEQUENCE or len(places) != 2:
        raise ValueError("not a certificate: the subject is no name")
    kind = _object_id(data, *places[0])
    value_tag, value_start, value_end = places[1]
    keyword = KEYWORDS.get(kind)
    encoding = TEXTS.get(value_tag)
    if keyword is None or encoding is None:
        header_end = places[0][2]  # the value, header and all, follows its type
        return f"{keyword or kind}=#{data[header_end:value_end].hex()}"
    return f"{keyword}={_escape(data[value_start:value_end].decode(encoding, errors='replace'))}"


def _object_id(data: bytes, tag: int, start: int, end: int) -> str:
    if tag != OBJECT_ID or start == end or data[end - 1] & 0x80:
        raise ValueError("not DER: an object id cannot be read")
    numbers, number = [], 0
    for byte in data[start:end]:
        number = number << 7 | byte & 0x7F
        if not byte & 0x80:
            numbers.append(number)
            number = 0
    first = min(numbers[0] // 40, 2)
    return ".".join(map(str, (first, numbers[0] - 40 * first, *numbers[1:])))


def _escape(text: str) -> str:
    """RFC 2253 as Java does it: blanks at either end, the signs of the grammar, NUL."""
    escaped = ["\\00" if sign == "\0" else f"\\{sign}" if sign in ESCAPED else sign for sign in text]
    leading = len(text) - len(text.lstrip(" \r"))
    trailing = len(text.rstrip(" \r"))
    return "".join(
        f"\\{sign}" if position < leading or position >= trailing else sign for position, sign in enumerate(escaped)
    )
