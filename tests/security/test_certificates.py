"""Distinguished names equal those of Java's X500Principal.getName() for the same bytes (Java 17)."""

import contextlib
import datetime as dt
import ipaddress

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509 import DNSName, IPAddress, Name, NameAttribute, ObjectIdentifier, RelativeDistinguishedName
from cryptography.x509.name import _ASN1Type
from cryptography.x509.oid import NameOID
from hypothesis import given
from hypothesis import strategies as st

from pipeline_broker.security.certificates import DN_BYTES_MAX, alternative_names, distinguished_name, valid_until
from tests.security.tokens import ec_key

IA5, UNIVERSAL, PRINTABLE = _ASN1Type.IA5String, _ASN1Type.UniversalString, _ASN1Type.PrintableString


def certificate(name, *alternative, begins=dt.datetime(2026, 1, 1, tzinfo=dt.UTC)):
    builder = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(Name([NameAttribute(NameOID.COMMON_NAME, "the authority")]))
        .public_key(ec_key().public_key())
        .serial_number(1 << 150)
        .not_valid_before(begins)
        .not_valid_after(begins + dt.timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
    )
    if alternative:
        builder = builder.add_extension(x509.SubjectAlternativeName(alternative), critical=False)
    return builder.sign(ec_key(), hashes.SHA256()).public_bytes(Encoding.DER)


def named(*attributes):
    return Name([NameAttribute(kind, text, _type=tag) for kind, text, tag in attributes])


def common(text, tag=None):
    return named((NameOID.COMMON_NAME, text, tag))


@pytest.mark.parametrize("year", [1999, 2026, 2049, 2050, 2100])
def test_the_last_moment_is_read_in_both_forms(year):
    begins = dt.datetime(year, 12, 30, 23, 59, 58, tzinfo=dt.UTC)
    assert valid_until(certificate(common("broker"), begins=begins)) == begins + dt.timedelta(days=1)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (
            named(
                (NameOID.COUNTRY_NAME, "DE", None),
                (NameOID.STATE_OR_PROVINCE_NAME, "BE", None),
                (NameOID.LOCALITY_NAME, "Berlin", None),
                (NameOID.ORGANIZATION_NAME, "Acme, Inc.", None),
                (NameOID.ORGANIZATIONAL_UNIT_NAME, "R+D", None),
                (NameOID.COMMON_NAME, "kafka client", None),
            ),
            r"CN=kafka client,OU=R\+D,O=Acme\, Inc.,L=Berlin,ST=BE,C=DE",
        ),
        (
            named(
                (NameOID.DOMAIN_COMPONENT, "org", IA5),
                (NameOID.DOMAIN_COMPONENT, "acme", IA5),
                (NameOID.USER_ID, "jdoe", None),
                (NameOID.STREET_ADDRESS, "Main 1", None),
            ),
            "STREET=Main 1,UID=jdoe,DC=acme,DC=org",
        ),
        (
            named(
                (NameOID.EMAIL_ADDRESS, "a@b.c", IA5),
                (NameOID.COMMON_NAME, "x", None),
                (NameOID.SERIAL_NUMBER, "77", PRINTABLE),
            ),
            "2.5.4.5=#13023737,CN=x,1.2.840.113549.1.9.1=#16056140622e63",
        ),
        (common(" lead and trail "), r"CN=\ lead and trail\ "),
        (common("  "), r"CN=\ \ "),
        (common('quo"te<>;=#\\plus+'), r"CN=quo\"te\<\>\;\=\#\\plus\+"),
        (common("Zoë Ünïcode 漢字"), "CN=Zoë Ünïcode 漢字"),
        (common("univ", UNIVERSAL), "CN=#1c10000000750000006e0000006900000076"),
        (common("nul\0byte"), r"CN=nul\00byte"),
        (common("line\nbreak\r"), "CN=line\nbreak\\\r"),
        (named((ObjectIdentifier("1.2.3.4"), "x" * 300, None)), "1.2.3.4=#0c82012c" + "78" * 300),
        (Name([]), ""),
        (named((ObjectIdentifier("1.2.3.4"), "odd", None)), "1.2.3.4=#0c036f6464"),
        (named((ObjectIdentifier("2.999.70000"), "x", None)), "2.999.70000=#0c0178"),
        (
            Name(
                [
                    RelativeDistinguishedName(
                        [NameAttribute(NameOID.COMMON_NAME, "multi"), NameAttribute(NameOID.USER_ID, "m1")]
                    ),
                    RelativeDistinguishedName([NameAttribute(NameOID.ORGANIZATION_NAME, "o")]),
                ]
            ),
            "O=o,CN=multi+UID=m1",
        ),
    ],
)
def test_a_name_is_written_as_java_writes_it(name, expected):
    assert distinguished_name(certificate(name)) == expected


def test_alternative_names_are_those_of_the_certificate():
    made = certificate(common("x"), DNSName("a.test"), IPAddress(ipaddress.ip_address("127.0.0.1")))
    assert alternative_names(made) == {(0x82, b"a.test"), (0x87, bytes([127, 0, 0, 1]))}
    assert alternative_names(certificate(common("x"))) == frozenset()


def element(tag, *contents, length=None):
    """Encode a DER element; `length` replaces the correct encoding of its length."""
    content = b"".join(contents)
    if length is None:
        size = len(content)
        length = bytes([size]) if size < 0x80 else b"\x84" + size.to_bytes(4)
    return bytes([tag]) + length + content


SEQUENCE, SET, OBJECT_ID, INTEGER, UTF8, OCTETS = 0x30, 0x31, 0x06, 0x02, 0x0C, 0x04
COMMON_NAME = b"\x55\x04\x03"


def with_subject(subject, serial=None):
    """Return the smallest certificate with a subject: without a version, and with nothing after the subject."""
    before = (serial or element(INTEGER, b"\1"), element(SEQUENCE), element(SEQUENCE), element(SEQUENCE))
    return element(SEQUENCE, element(SEQUENCE, *before, subject))


def subject_of(tag=SEQUENCE, kind=OBJECT_ID, type_length=None, type_id=COMMON_NAME):
    attribute = element(tag, element(kind, type_id, length=type_length), element(UTF8, b"x"))
    return element(SEQUENCE, element(SET, attribute))


def test_the_subject_may_be_the_last_field_and_empty():
    assert distinguished_name(with_subject(element(SEQUENCE))) == ""
    assert distinguished_name(with_subject(subject_of())) == "CN=x"


def test_a_length_may_take_four_bytes_and_none_is_longer_or_left_open():
    for size in range(1, 5):
        length = bytes([0x80 + size]) + len(COMMON_NAME).to_bytes(size)
        assert distinguished_name(with_subject(subject_of(type_length=length))) == "CN=x"
    assert distinguished_name(with_subject(element(SEQUENCE, length=b"\x81\x00"))) == ""
    for length in (b"\x85" + len(COMMON_NAME).to_bytes(5), b"\x80"):
        with pytest.raises(ValueError):
            distinguished_name(with_subject(subject_of(type_length=length)))
        with pytest.raises(ValueError):
            distinguished_name(with_subject(subject_of(), serial=element(INTEGER, bytes(128), length=length)))


def test_a_length_that_is_left_open_is_none_of_nothing():
    with pytest.raises(ValueError):
        distinguished_name(with_subject(subject_of(), serial=bytes([INTEGER, 0x80])))


@pytest.mark.parametrize(
    ("type_id", "expected"),
    [
        (b"\x27", "0.39"),
        (b"\x28", "1.0"),
        (b"\x4f\x01", "1.39.1"),
        (b"\x50", "2.0"),
        (b"\x78\x81\x00", "2.40.128"),
        (b"\x88\x37\x03", "2.999.3"),
    ],
)
def test_an_attribute_that_has_no_name_is_written_by_its_numbers(type_id, expected):
    assert distinguished_name(with_subject(subject_of(type_id=type_id))) == f"{expected}=#0c0178"


def test_a_subject_is_a_sequence_of_sets():
    for subject in (element(SET), element(SEQUENCE, element(SEQUENCE))):
        with pytest.raises(ValueError):
            distinguished_name(with_subject(subject))


def test_a_tag_of_several_bytes_is_a_value_error():
    """It must not be read as the tag in its first byte."""
    with pytest.raises(ValueError):
        distinguished_name(with_subject(subject_of(), serial=element(0x1F)))


def test_the_parts_of_a_certificate_must_be_sequences():
    subject, field = subject_of(), element(SEQUENCE)
    fields = (element(INTEGER, b"\1"), field, field, field)
    assert distinguished_name(element(SEQUENCE, element(SEQUENCE, *fields, subject))) == "CN=x"
    for other in (
        element(SET, element(SEQUENCE, *fields, subject)),
        element(SEQUENCE, element(SET, *fields, subject)),
        element(SEQUENCE, element(SEQUENCE, *fields, element(SET, subject))),
        element(SEQUENCE, element(SEQUENCE, *fields)),
        element(SEQUENCE),
    ):
        with pytest.raises(ValueError):
            distinguished_name(other)


def test_a_subject_has_64_kilobytes_at_most():
    attribute = element(SEQUENCE, element(OBJECT_ID, COMMON_NAME), element(UTF8, b"x" * (DN_BYTES_MAX - 23)))
    parts = element(SET, attribute)
    assert len(parts) == DN_BYTES_MAX
    assert len(distinguished_name(with_subject(element(SEQUENCE, parts)))) == DN_BYTES_MAX - 23 + len("CN=")
    with pytest.raises(ValueError):
        distinguished_name(with_subject(element(SEQUENCE, parts, element(SET))))


def test_an_attribute_of_other_tags_or_with_half_a_type_is_a_value_error():
    for subject in (subject_of(tag=SET), subject_of(kind=OCTETS), subject_of(type_id=b"\x55\x04\x83")):
        with pytest.raises(ValueError):
            distinguished_name(with_subject(subject))


@given(data=st.binary(max_size=60))
def test_any_bytes_are_a_certificate_or_a_value_error(data):
    for read in (distinguished_name, alternative_names):
        with pytest.raises(ValueError):
            read(data)


SAMPLE = certificate(common("x"), DNSName("a.test"))


def test_a_certificate_cut_at_any_byte_is_a_value_error():
    for size in range(len(SAMPLE)):
        with pytest.raises(ValueError):
            distinguished_name(SAMPLE[:size])


def test_a_certificate_with_any_one_byte_changed_never_ends_otherwise():
    for position in range(len(SAMPLE)):
        for byte in range(256):
            damaged = SAMPLE[:position] + bytes([byte]) + SAMPLE[position + 1 :]
            for read in (distinguished_name, alternative_names):
                with contextlib.suppress(ValueError):
                    assert isinstance(read(damaged), str | frozenset)
