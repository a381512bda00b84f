"""Keys and certificates in PEM form or in PKCS #12 stores, from Kafka's `ssl.*` settings.

PEM is read from files or from the settings themselves. A text is split into its blocks, which are rebuilt with line
breaks, because a settings file may have lost them. As in Java, a PKCS #12 store is also read if its type is given as
JKS. JKS itself is not supported; the error shows the command that converts it.

A text is scanned in linear time. An encrypted key that takes too long to decrypt is refused, because its author chose
the cost. Call these functions in a thread.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import attrs

from pipeline_broker.config.properties import ConfigError
from pipeline_broker.files.bounded_file import read_bounded
from pipeline_broker.security.encrypted_keys import check_cost

if TYPE_CHECKING:
    from pipeline_broker.security.pkcs12 import StoreContent

__all__ = ["KeyStore", "read_key_store", "read_trust_store"]

BEGIN = "BEGIN "
LABEL_CHARS_MAX = 32
DASHES = re.compile("-*")
BODY = re.compile(r"[A-Za-z0-9+/=\s]+", re.ASCII)
LINE_CHARS = 64
CERTIFICATES = frozenset({"CERTIFICATE", "X509 CERTIFICATE"})
KEYS = frozenset({"PRIVATE KEY", "ENCRYPTED PRIVATE KEY", "RSA PRIVATE KEY", "EC PRIVATE KEY"})
PEM_NAMES = (".pem", ".crt", ".cer", ".key")
PKCS12 = "PKCS12"
# The first byte of a PKCS #12 store. PEM texts and JKS stores start with others.
DER_SEQUENCE = b"\x30"
ENCRYPTED_KEY = "ENCRYPTED PRIVATE KEY"
# A bundle of all public certificate authorities takes a quarter of it.
FILE_BYTES_MAX = 1 << 20
"""Size of a key store or trust store."""
KEY_BYTES_MAX = 5 << 10
"""Bytes of a private key: 8,192 bits of RSA. Its signature takes 30 ms at each handshake."""


@attrs.frozen(repr=False)
class KeyStore:
    """The private key and certificates of a listener.

    Attributes:
        key: the private key in PEM form, possibly encrypted.
        chain: the certificates in PEM form, the listener's own first.
        password: password of the private key; empty if it is not encrypted.
    """

    key: str
    chain: tuple[str, ...]
    password: str

    @property
    def certificate(self) -> bytes:
        return _der(self.chain[0])


def read_key_store(settings: Mapping[str, str]) -> KeyStore:
    """Return the key store that the settings name or contain.

    Raises:
        ConfigError: the settings contain no store or contradict each other, or the store cannot be read or used.
    """
    location, inline = settings.get("ssl.keystore.location"), settings.get("ssl.keystore.key")
    chain = settings.get("ssl.keystore.certificate.chain")
    store = _read_java_store(settings, "ssl.keystore")
    if store is not None:
        if store.key is None or not store.certificates:
            raise ConfigError(f"ssl.keystore.location: {location} must hold one private key and its certificates")
        if settings.get("ssl.key.password", "") not in ("", settings.get("ssl.keystore.password", "")):
            raise ConfigError(
                "ssl.key.password: a PKCS12 store has one password. Remove this property, or set it to that password"
            )
        return _checked(KeyStore(store.key, store.certificates, ""), f"ssl.keystore.location: {location}")
    _check_store(settings, "ssl.keystore", has_inline=bool(inline or chain))
    if location:
        text = _read_pem(Path(location), "ssl.keystore.location")
        keys, certificates = (
            _blocks(text, "ssl.keystore.location", KEYS),
            _blocks(text, "ssl.keystore.location", CERTIFICATES),
        )
        name = f"ssl.keystore.location: {location}"
    elif inline and chain:
        keys = _blocks(inline, "ssl.keystore.key", KEYS)
        certificates = _blocks(chain, "ssl.keystore.certificate.chain", CERTIFICATES)
        name = "ssl.keystore.key with ssl.keystore.certificate.chain"
    else:
        raise ConfigError(
            "a TLS listener needs ssl.keystore.location, or ssl.keystore.key and ssl.keystore.certificate.chain"
        )
    if len(keys) != 1 or not certificates:
        raise ConfigError(f"{name} must hold one private key and its certificates in PEM form")
    return _checked(KeyStore(keys[0], tuple(certificates), settings.get("ssl.key.password", "")), name)


def _checked(store: KeyStore, name: str) -> KeyStore:
    if len(_der(store.key)) > KEY_BYTES_MAX:
        raise ConfigError(f"{name}: the private key has more than 8,192 bits. Use an RSA key of 2,048 to 4,096 bits")
    return store


def _der(block: str) -> bytes:
    return base64.b64decode("".join(block.splitlines()[1:-1]))


def read_trust_store(settings: Mapping[str, str]) -> str | None:
    """Return the certificates that may sign clients' certificates, in PEM form; None if none are set.

    Raises:
        ConfigError: the settings contradict each other, or the store cannot be read or contains no certificate.
    """
    location, inline = settings.get("ssl.truststore.location"), settings.get("ssl.truststore.certificates")
    # `ssl.client.auth` decides whether a trust store is needed.
    if not location and not inline:
        return None
    store = _read_java_store(settings, "ssl.truststore")
    if store is not None:
        if not store.certificates:
            raise ConfigError(f"ssl.truststore.location: {location} contains no certificate")
        return "".join(store.certificates)
    _check_store(settings, "ssl.truststore", has_inline=bool(inline))
    name = "ssl.truststore.location" if location else "ssl.truststore.certificates"
    certificates = _blocks(_read_pem(Path(location), name) if location else str(inline), name, CERTIFICATES)
    if not certificates:
        raise ConfigError(f"{name} contains no certificate in PEM form")
    return "".join(certificates)


def _read_java_store(settings: Mapping[str, str], prefix: str) -> StoreContent | None:
    kind = settings.get(f"{prefix}.type", "JKS").upper()
    location = settings.get(f"{prefix}.location")
    if not location or kind not in (PKCS12, "JKS"):
        return None
    if f"{prefix}.type" not in settings and location.endswith(PEM_NAMES):
        return None  # JKS is also the default type, so `_check_store` has a better error
    data = _read(Path(location), f"{prefix}.location")
    if kind != PKCS12 and not data.startswith(DER_SEQUENCE):
        return None
    name = f"{prefix}.location: {location}"
    try:
        from pipeline_broker.security.pkcs12 import read_pkcs12  # noqa: PLC0415 - it needs the package of an extra
    except ImportError:
        raise ConfigError(
            f"{name}: PKCS12 needs the package cryptography. Run pip install 'pipeline-broker[pkcs12]'"
        ) from None
    return read_pkcs12(data, settings.get(f"{prefix}.password", ""), name)


def _check_store(settings: Mapping[str, str], prefix: str, *, has_inline: bool) -> None:
    """Refuse stores that are not in PEM form, and the combinations of settings that Kafka refuses for PEM.

    Raises:
        ConfigError: the store or a combination is refused.
    """
    kind = settings.get(f"{prefix}.type", "JKS")
    location = settings.get(f"{prefix}.location")
    if kind.upper() != "PEM":
        if f"{prefix}.type" not in settings and (not location or location.endswith(PEM_NAMES)):
            raise ConfigError(
                f"set {prefix}.type=PEM and {prefix}.location={location or '/path/store.pem'}:"
                " without a type the store is JKS, which cannot be read here"
            )
        path = location or "store.jks"
        raise ConfigError(
            f"{prefix}.type: {kind} cannot be read here. Convert the store with keytool -importkeystore -srckeystore"
            f" {path} -destkeystore store.p12 -deststoretype PKCS12 && openssl pkcs12 -in store.p12 -noenc -out"
            f" store.pem, then set {prefix}.type=PEM and {prefix}.location=store.pem"
        )
    if location and has_inline:
        raise ConfigError(f"{prefix}.location and certificates in the settings are both set. Remove one of them")
    if settings.get(f"{prefix}.password"):
        raise ConfigError(
            f"{prefix}.password has no effect with PEM. Remove it, and set the password of the private key as"
            " ssl.key.password"
        )


def _read(path: Path, name: str) -> bytes:
    try:
        data, _ = read_bounded(path, FILE_BYTES_MAX)
    except OSError as error:
        raise ConfigError(f"{name}: cannot read {path}: {error.strerror}") from None
    return data


def _read_pem(path: Path, name: str) -> str:
    return _read(path, name).decode("latin-1")  # PEM is ASCII, but text around it may have any encoding


def _blocks(text: str, name: str, labels: frozenset[str]) -> list[str]:
    blocks = []
    for label, content in _all_blocks(text):
        if label not in labels:
            continue
        body = "".join(content.split())
        try:
            data = base64.b64decode(body, validate=True)
        except binascii.Error:
            raise ConfigError(f"{name} contains a damaged {label.lower()}") from None
        if label == ENCRYPTED_KEY:
            try:
                check_cost(data)
            except ValueError as error:
                advice = "Encrypt it again with openssl pkcs8 -topk8 -v2 aes-256-cbc"
                raise ConfigError(f"{name}: the private key is refused: {error}. {advice}") from None
        lines = "\n".join(body[start : start + LINE_CHARS] for start in range(0, len(body), LINE_CHARS))
        blocks.append(f"-----BEGIN {label}-----\n{lines}\n-----END {label}-----\n")
    return blocks


def _all_blocks(text: str) -> Iterator[tuple[str, str]]:
    """Yield the label and the body of each block. No character is scanned more than twice."""
    position = 0
    while (begin := text.find(BEGIN, position)) >= 0:
        position = begin + len(BEGIN)
        label_end = text.find("-", position, position + LABEL_CHARS_MAX)
        if label_end < 0 or not text.startswith("-", begin - 1):
            continue
        label = text[position:label_end]
        body_start = _after_dashes(text, label_end)
        body_end = text.find("-", body_start)
        if body_end < 0:
            return
        position = _after_dashes(text, body_end)
        end = f"END {label}-"
        if text.startswith(end, position) and BODY.fullmatch(text, body_start, body_end):
            position += len(end)
            yield label, text[body_start:body_end]


def _after_dashes(text: str, start: int) -> int:
    dashes = DASHES.match(text, start)
    assert dashes is not None
    return dashes.end()
