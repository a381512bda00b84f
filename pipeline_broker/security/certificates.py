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

from pipeline_broker.security.der import SEQUENCE, Place, elements, object_id

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
SET = 0x31
VERSION, EXTENSIONS = 0xA0, 0xA3
ALTERNATIVE_NAMES = "2.5.29.17"
UTC_TIME = 0x17
VALIDITY = 3
"""Behind serial, algorithm and issuer."""
FIELDS_BEFORE_SUBJECT = 4
"""Serial, algorithm, issuer, validity."""
DN_BYTES_MAX = 4 * 1024
"""Of a subject. X.520 allows 64 characters in most parts of one, and each connection would keep a longer name."""


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
    for part_tag, part_start, part_end in elements(certificate, start, end):
        if part_tag != SET:
            raise ValueError("not a certificate: the subject is no name")
        values = [_attribute(certificate, *place) for place in elements(certificate, part_start, part_end)]
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
        ((_, list_start, list_end),) = elements(certificate, start, end)
        for _, extension_start, extension_end in elements(certificate, list_start, list_end):
            places = list(elements(certificate, extension_start, extension_end))
            if not places:
                raise ValueError("not a certificate: an extension is empty")
            if object_id(certificate, *places[0]) == ALTERNATIVE_NAMES:
                _, value_start, value_end = places[-1]
                ((_, names_start, names_end),) = elements(certificate, value_start, value_end)
                found.update(
                    (kind, certificate[name_start:name_end])
                    for kind, name_start, name_end in elements(certificate, names_start, names_end)
                )
    return frozenset(found)


def valid_until(certificate: bytes) -> dt.datetime:
    """The last moment of a certificate in DER form.

    Raises:
        ValueError: it is none.
    """
    _, start, end = _fields(certificate)[VALIDITY]
    (_, (tag, time_start, time_end)) = elements(certificate, start, end)
    text = certificate[time_start:time_end].decode("ascii")
    if tag == UTC_TIME:  # RFC 5280: years from 1950 to 2049, by two digits
        text = ("19" if text >= "5" else "20") + text
    return dt.datetime.strptime(text, "%Y%m%d%H%M%SZ").replace(tzinfo=dt.UTC)


def _fields(certificate: bytes) -> list[Place]:
    """The fields of the part that is signed, without the version."""
    ((tag, start, end),) = elements(certificate, 0, len(certificate))
    outer = list(elements(certificate, start, end))
    if tag != SEQUENCE or not outer or outer[0][0] != SEQUENCE:
        raise ValueError("not a certificate")
    fields = [place for place in elements(certificate, *outer[0][1:]) if place[0] != VERSION]
    if len(fields) <= FIELDS_BEFORE_SUBJECT:
        raise ValueError("not a certificate: it has too few fields")
    return fields


def _attribute(data: bytes, tag: int, start: int, end: int) -> str:
    places = list(elements(data, start, end))
    if tag != SEQUENCE or len(places) != 2:
        raise ValueError("not a certificate: the subject is no name")
    kind = object_id(data, *places[0])
    value_tag, value_start, value_end = places[1]
    keyword = KEYWORDS.get(kind)
    encoding = TEXTS.get(value_tag)
    if keyword is None or encoding is None:
        header_end = places[0][2]  # the value, header and all, follows its type
        return f"{keyword or kind}=#{data[header_end:value_end].hex()}"
    return f"{keyword}={_escape(data[value_start:value_end].decode(encoding, errors='replace'))}"


def _escape(text: str) -> str:
    """RFC 2253 as Java does it: blanks at either end, the signs of the grammar, NUL."""
    escaped = ["\\00" if sign == "\0" else f"\\{sign}" if sign in ESCAPED else sign for sign in text]
    leading = len(text) - len(text.lstrip(" \r"))
    trailing = len(text.rstrip(" \r"))
    return "".join(
        f"\\{sign}" if position < leading or position >= trailing else sign for position, sign in enumerate(escaped)
    )
