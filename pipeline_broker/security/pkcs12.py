"""PKCS #12 stores of keys and certificates, Java's default format: their content, and the cost of opening one.

    PFX          = SEQUENCE { version, ContentInfo of contents, [ MacData ] }                     (RFC 7292)
    MacData      = SEQUENCE { SEQUENCE { digest, value }, salt, [ rounds ] }
    contents     = SEQUENCE of ContentInfo, each of bags as they are or encrypted
    bag          = SEQUENCE { kind, [0] value, [ attributes ] }

The hash rounds of all passwords are added up before a library computes them, because `cryptography` holds Python's lock
while it does. Bags within encrypted contents cannot be counted. Their author knows the password and may write files on
this machine, so is trusted that far. Call `read_pkcs12` in a thread.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import NamedTuple

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, pkcs12
from cryptography.x509 import Certificate

from pipeline_broker.config.properties import ConfigError
from pipeline_broker.security.der import SEQUENCE, Element, elements, object_id, sequence
from pipeline_broker.security.encrypted_keys import algorithm, number, rounds_of, rounds_of_function

__all__ = ["STORE_ROUNDS_MAX", "StoreContent", "read_pkcs12"]

STORE_ROUNDS_MAX = 250_000
"""Hash rounds of all passwords of a store: 0.1 s with SHA-1 and SHA-256. Java 8 writes 200,000, later versions 30,000,
OpenSSL 6,144.
"""
EXPLICIT, OCTETS = 0xA0, 0x04
DATA, ENCRYPTED_DATA = "1.2.840.113549.1.7.1", "1.2.840.113549.1.7.6"
PBMAC1 = "1.2.840.113549.1.5.14"
KEY_BAG, SHROUDED_KEY_BAG, NESTED_BAG = (f"1.2.840.113549.1.12.10.1.{kind}" for kind in (1, 2, 6))


class StoreContent(NamedTuple):
    """The content of a store.

    Attributes:
        key: the private key in PEM form, not encrypted; None if the store has no key.
        certificates: in PEM form. With a key its chain, its own certificate first; otherwise all certificates.
    """

    key: str | None
    certificates: tuple[str, ...]


def read_pkcs12(store: bytes, password: str, name: str) -> StoreContent:
    """Return the content of a store.

    Args:
        password: empty for a store without one.
        name: the setting and the file, for errors.

    Raises:
        ConfigError: the store cannot be opened, takes too long to open or has several private keys.
    """
    try:
        rounds, key_count = _cost(store)
    except ValueError as error:
        raise ConfigError(f"{name}: the PKCS12 store cannot be read: {error}") from None
    if rounds > STORE_ROUNDS_MAX:
        raise ConfigError(
            f"{name}: the passwords of the store need {rounds} rounds, but at most {STORE_ROUNDS_MAX} are"
            " allowed. Export the store again with openssl pkcs12 -export -iter 10000"
        )
    if key_count > 1:
        raise ConfigError(f"{name}: the store holds {key_count} private keys. Keep only the one of this broker")
    try:
        return _opened(store, password)
    except (ValueError, TypeError):
        raise ConfigError(
            f"{name}: the PKCS12 store cannot be opened: its password is wrong, or it is damaged"
        ) from None


def _opened(store: bytes, password: str) -> StoreContent:
    try:
        with warnings.catch_warnings():  # some stores contain BER; `_cost` has already read their structure as DER
            warnings.filterwarnings("ignore", message="PKCS#12 bundle could not be parsed as DER")
            content = pkcs12.load_pkcs12(store, password.encode() or None)
    except UnsupportedAlgorithm as error:
        raise ValueError(str(error)) from None
    own = None if content.cert is None else content.cert.certificate
    others = [each.certificate for each in content.additional_certs]
    key = None
    if content.key is not None:
        key = content.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
    chain = others if own is None else [own, *(_issuers(own, others) if key is not None else others)]
    return StoreContent(key, tuple(each.public_bytes(Encoding.PEM).decode() for each in chain))


def _issuers(own: Certificate, others: list[Certificate]) -> Iterator[Certificate]:
    by_subject = {each.subject.public_bytes(): each for each in others}
    last = own
    while last.issuer != last.subject and (issuer := by_subject.pop(last.issuer.public_bytes(), None)) is not None:
        yield issuer
        last = issuer


def _cost(store: bytes) -> tuple[int, int]:
    """Return the hash rounds of all passwords of a store, and its number of private keys.

    Raises:
        ValueError: the store is malformed, contains nested stores, or has a password of unknown or excessive cost.
    """
    outer = sequence(store, (SEQUENCE, 0, len(store)), 1)[0]
    parts = sequence(store, outer, 2)
    rounds = sum(_rounds_of_mac(store, part) for part in parts[2:])
    key_count = 0
    for contents in _inner_sequence(store, parts[1]):
        kind, element = _typed(store, contents)
        if kind == ENCRYPTED_DATA:
            rounds += rounds_of(store, sequence(store, sequence(store, element, 2)[1], 2)[1])
            continue
        for bag in _inner_sequence(store, contents):
            kind, element = _typed(store, bag)
            if kind == NESTED_BAG:
                raise ValueError("it contains nested stores")
            if kind == SHROUDED_KEY_BAG:
                rounds += rounds_of(store, sequence(store, element, 2)[0])
            key_count += kind in (KEY_BAG, SHROUDED_KEY_BAG)
    return rounds, key_count


def _rounds_of_mac(store: bytes, element: Element) -> int:
    digest, _, *rounds = sequence(store, element, 2)
    method = sequence(store, sequence(store, digest, 2)[0], 1)
    if object_id(store, *method[0]) == PBMAC1:
        return rounds_of_function(store, sequence(store, algorithm(store, sequence(store, digest, 2)[0])[1], 2)[0])
    return number(store, rounds[0]) if rounds else 1


def _typed(store: bytes, element: Element) -> tuple[str, Element]:
    kind, (tag, start, end) = sequence(store, element, 2)[:2]
    if tag != EXPLICIT or start == end:
        raise ValueError("it is damaged")
    return object_id(store, *kind), next(elements(store, start, end))


def _inner_sequence(store: bytes, element: Element) -> list[Element]:
    kind, (tag, start, end) = _typed(store, element)
    if kind != DATA or tag != OCTETS or start == end:
        raise ValueError("its contents are neither data nor encrypted by a password")
    return sequence(store, next(elements(store, start, end)), 0)
