"""A key that takes long to decrypt is refused before it is tried, in every scheme."""

import base64
import contextlib
import subprocess
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline_broker.config.properties import ConfigError
from pipeline_broker.security.encrypted_keys import ROUNDS_MAX, check_cost
from pipeline_broker.security.pem import read_key_store


def openssl(*words, data=None):
    return subprocess.run(["openssl", *words], input=data, check=True, capture_output=True).stdout


@pytest.fixture(scope="module")
def plain():
    return openssl("genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256")


def der(pem):
    return base64.b64decode(b"".join(pem.strip().splitlines()[1:-1]))


SCHEMES = {
    "PBKDF2": ["-v2", "aes-256-cbc", "-iter", "1000"],
    "PBKDF2 SHA-1": ["-v2", "aes-128-cbc", "-v2prf", "hmacWithSHA1", "-iter", "1000"],
    "scrypt": ["-scrypt"],
    "scrypt that is large": ["-scrypt", "-scrypt_N", "16384", "-scrypt_r", "8", "-scrypt_p", "2"],
    "PKCS #12": ["-v1", "PBE-SHA1-3DES", "-iter", "1000"],
}


@pytest.mark.parametrize("words", SCHEMES.values(), ids=SCHEMES)
def test_a_key_that_openssl_makes_is_let_through(plain, words):
    check_cost(der(openssl("pkcs8", "-topk8", "-passout", "pass:x", *words, data=plain)))


@pytest.mark.parametrize("rounds", [ROUNDS_MAX + 1, 2**23, 2**31 - 1])
@pytest.mark.parametrize("words", [["-v2", "aes-256-cbc"], ["-v1", "PBE-SHA1-3DES"]])
def test_a_key_with_more_rounds_is_refused_at_once(plain, words, rounds):
    key = der(openssl("pkcs8", "-topk8", "-passout", "pass:x", "-iter", "65536", *words, data=plain))
    wanted, size = b"\x02\x03\x01\x00\x00", 3 if rounds < 2**23 else 4
    longer = (
        key.replace(wanted, bytes([2, size]) + rounds.to_bytes(size), 1) if size == 3 else grown(key, wanted, rounds)
    )
    began = time.perf_counter()
    with pytest.raises(ValueError, match=f"{rounds} rounds, but at most {ROUNDS_MAX} are allowed"):
        check_cost(longer)
    assert time.perf_counter() - began < 0.1


def grown(key, wanted, rounds):
    """Return the same key with a number of four bytes, so that each element around it is one byte longer."""
    at = key.index(wanted)
    starts, position = [], 0
    while position < at:
        length, header = key[position + 1], 2
        if length >= 0x80:
            count = length - 0x80
            length, header = int.from_bytes(key[position + 2 : position + 2 + count]), 2 + count
        if position + header <= at < position + header + length:
            starts.append((position, header))
            position += header
        else:
            position += header + length
    changed = bytearray(key)
    for start, header in starts:
        field = slice(start + 1, start + 2) if header == 2 else slice(start + 2, start + header)
        changed[field] = (int.from_bytes(changed[field]) + 1).to_bytes(field.stop - field.start)
    return bytes(changed[:at]) + b"\x02\x04" + rounds.to_bytes(4) + bytes(changed[at + len(wanted) :])


@pytest.mark.parametrize("words", [("1048576", "8", "1"), ("16384", "8", "64"), ("2", "1048576", "1")])
def test_scrypt_is_bounded_by_its_memory_and_its_work(words):
    n, r, p = map(int, words)
    with pytest.raises(ValueError, match=f"scrypt with N={n}, r={r}, p={p}"):
        check_cost(with_scrypt(n, r, p))


def element(tag, *parts):
    data = b"".join(parts)
    length = bytes([len(data)]) if len(data) < 0x80 else b"\x82" + len(data).to_bytes(2)
    return bytes([tag]) + length + data


def number(value):
    return element(2, value.to_bytes(value.bit_length() // 8 + 1))


def object_id(text):
    first, second, *rest = map(int, text.split("."))
    encoded = bytearray([40 * first + second])
    for each in rest:
        groups = [each & 0x7F]
        while each := each >> 7:
            groups.append(each & 0x7F | 0x80)
        encoded += bytes(reversed(groups))
    return element(6, bytes(encoded))


def with_scrypt(n, r, p):
    function = element(
        0x30, object_id("1.3.6.1.4.1.11591.4.11"), element(0x30, element(4, b"salt"), number(n), number(r), number(p))
    )
    scheme = element(0x30, object_id("1.2.840.113549.1.5.13"), element(0x30, function, element(0x30, b"")))
    return element(0x30, scheme, element(4, b"data"))


def test_an_encryption_that_is_not_known_is_refused_since_its_cost_is_not_known():
    scheme = element(0x30, object_id("1.2.3.4"), element(0x30, element(4, b"salt"), number(1)))
    with pytest.raises(ValueError, match=r"its encryption, 1\.2\.3\.4, is not one of"):
        check_cost(element(0x30, scheme, element(4, b"data")))


def test_an_indefinite_length_is_refused(plain):
    key = der(openssl("pkcs8", "-topk8", "-passout", "pass:x", "-v2", "aes-256-cbc", data=plain))
    with pytest.raises(ValueError, match="not DER"):
        check_cost(b"\x30\x80" + key[3:] + b"\0\0")


@given(st.binary(max_size=200))
def test_any_bytes_are_let_through_or_refused(data):
    with contextlib.suppress(ValueError):
        check_cost(data)


def test_the_refusal_of_a_store_names_the_setting_and_the_remedy(plain):
    key = openssl(
        "pkcs8", "-topk8", "-passout", "pass:x", "-iter", str(ROUNDS_MAX + 1), "-v2", "aes-256-cbc", data=plain
    )
    settings = {"ssl.keystore.type": "PEM", "ssl.keystore.key": key.decode(), "ssl.keystore.certificate.chain": "x"}
    with pytest.raises(
        ConfigError, match=r"ssl\.keystore\.key: the private key is refused: .* Encrypt it again"
    ) as caught:
        read_key_store(settings)
    assert "\n" not in str(caught.value)
