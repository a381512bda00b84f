"""Parsing of certificates: the distinguished name as Java writes it, alternative names, and the expiry.

    Certificate    = SEQUENCE { TBSCertificate, ... }
    TBSCertificate = SEQUENCE { [0] version, serial, algorithm, issuer, validity, subject, key, ..., [3] extensions }
    Name           = SEQUENCE OF SET OF SEQUENCE { type OID, value }

Nothing is verified here: OpenSSL has checked the signatures before. Names are those of Java's
`X500Principal.getName()` (RFC 2253), because operators write mapping rules for them. The most specific part is first.
Nine types have a keyword; other types are numbers with a hexadecimal value.
"""

from __future__ import annotations

import datetime as dt

from pipeline_broker.security.der import SEQUENCE, Element, elements, object_id

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
# Encodings by tag: UTF8String, PrintableString, T61String, IA5String, GeneralString, BMPString.
TEXTS = {0x0C: "utf-8", 0x13: "ascii", 0x14: "latin-1", 0x16: "ascii", 0x1B: "ascii", 0x1E: "utf-16-be"}
ESCAPED = frozenset(',=+<>#;"\\')
SET = 0x31
VERSION, EXTENSIONS = 0xA0, 0xA3
ALTERNATIVE_NAMES = "2.5.29.17"
UTC_TIME = 0x17
# Position after serial, algorithm and issuer.
VALIDITY = 3
# Serial, algorithm, issuer, validity.
FIELDS_BEFORE_SUBJECT = 4
# Of a subject. X.520 allows 64 characters in most parts of a name, and each connection would keep a longer one.
DN_BYTES_MAX = 4 * 1024
"""Size of an unmapped user name from a certificate."""


def distinguished_name(certificate: bytes) -> str:
    """Return the subject of a certificate in DER form.

    Raises:
        ValueError: the certificate is malformed, or its subject is too long.
    """
    fields = _fields(certificate)
    tag, start, end = fields[FIELDS_BEFORE_SUBJECT]
    if tag != SEQUENCE:
        raise ValueError("not a certificate: the subject is not a name")
    if end - start > DN_BYTES_MAX:
        raise ValueError(f"the subject has {end - start} bytes, but at most {DN_BYTES_MAX} are allowed")
    parts = []
    for part_tag, part_start, part_end in elements(certificate, start, end):
        if part_tag != SET:
            raise ValueError("not a certificate: the subject is not a name")
        values = [_attribute(certificate, *item) for item in elements(certificate, part_start, part_end)]
        parts.append("+".join(values))
    return ",".join(reversed(parts))


def alternative_names(certificate: bytes) -> frozenset[tuple[int, bytes]]:
    """Return the alternative names of a certificate in DER form, each with the tag of its kind.

    Raises:
        ValueError: the certificate is malformed.
    """
    found: set[tuple[int, bytes]] = set()
    for tag, start, end in _fields(certificate):
        if tag != EXTENSIONS:
            continue
        ((_, list_start, list_end),) = elements(certificate, start, end)
        for _, extension_start, extension_end in elements(certificate, list_start, list_end):
            items = list(elements(certificate, extension_start, extension_end))
            if not items:
                raise ValueError("not a certificate: an extension is empty")
            if object_id(certificate, *items[0]) == ALTERNATIVE_NAMES:
                _, value_start, value_end = items[-1]
                ((_, names_start, names_end),) = elements(certificate, value_start, value_end)
                found.update(
                    (kind, certificate[name_start:name_end])
                    for kind, name_start, name_end in elements(certificate, names_start, names_end)
                )
    return frozenset(found)


def valid_until(certificate: bytes) -> dt.datetime:
    """Return the expiry of a certificate in DER form.

    Raises:
        ValueError: the certificate is malformed.
    """
    _, start, end = _fields(certificate)[VALIDITY]
    (_, (tag, time_start, time_end)) = elements(certificate, start, end)
    text = certificate[time_start:time_end].decode("ascii")
    if tag == UTC_TIME:  # two digits for the years 1950 to 2049 (RFC 5280)
        text = ("19" if text >= "5" else "20") + text
    return dt.datetime.strptime(text, "%Y%m%d%H%M%SZ").replace(tzinfo=dt.UTC)


def _fields(certificate: bytes) -> list[Element]:
    # Of the signed part (TBSCertificate), without the version.
    ((tag, start, end),) = elements(certificate, 0, len(certificate))
    outer = list(elements(certificate, start, end))
    if tag != SEQUENCE or not outer or outer[0][0] != SEQUENCE:
        raise ValueError("not a certificate")
    fields = [item for item in elements(certificate, *outer[0][1:]) if item[0] != VERSION]
    if len(fields) <= FIELDS_BEFORE_SUBJECT:
        raise ValueError("not a certificate: it has too few fields")
    return fields


def _attribute(data: bytes, tag: int, start: int, end: int) -> str:
    items = list(elements(data, start, end))
    if tag != SEQUENCE or len(items) != 2:
        raise ValueError("not a certificate: the subject is not a name")
    kind = object_id(data, *items[0])
    value_tag, value_start, value_end = items[1]
    keyword = KEYWORDS.get(kind)
    encoding = TEXTS.get(value_tag)
    if keyword is None or encoding is None:
        header_end = items[0][2]  # the value, including its DER header, follows the type
        return f"{keyword or kind}=#{data[header_end:value_end].hex()}"
    return f"{keyword}={_escape(data[value_start:value_end].decode(encoding, errors='replace'))}"


def _escape(text: str) -> str:
    """Escape a value as Java does for RFC 2253: outer blanks, special characters and NUL."""
    escaped = ["\\00" if sign == "\0" else f"\\{sign}" if sign in ESCAPED else sign for sign in text]
    leading = len(text) - len(text.lstrip(" \r"))
    trailing = len(text.rstrip(" \r"))
    return "".join(
        f"\\{sign}" if position < leading or position >= trailing else sign for position, sign in enumerate(escaped)
    )
