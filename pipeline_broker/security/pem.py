"""Keys and certificates, in PEM form or in PKCS #12 stores, as Kafka's `ssl.*` settings name them.

Rules of this file: PEM is in files, or in the settings themselves. A text is taken apart into its blocks and put
together again, so that one whose line ends were lost in a settings file is read too. A refusal is one line and never
shows what a setting holds, unless it is a path. A store of Java's own format, JKS, cannot be read; the refusal says how
to convert it. Like Java, a PKCS #12 store is read also where the type says JKS. Each character is looked at a fixed
number of times, and an encrypted key is refused whose password takes long to try: its author chooses that cost.
Call it in a thread.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import attrs

from pipeline_broker.config.properties import ConfigError
from pipeline_broker.files.bounded_file import read_bounded
from pipeline_broker.security.encrypted_keys import check_cost
from pipeline_broker.security.pkcs12 import StoreContent, read_pkcs12

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
DER_SEQUENCE = b"\x30"
"""The first byte of a PKCS #12 store; a text in PEM form and a store in JKS form have others."""
ENCRYPTED_KEY = "ENCRYPTED PRIVATE KEY"
FILE_BYTES_MAX = 1 << 20
"""A bundle of all public authorities has a quarter of it."""


@attrs.frozen(repr=False)
class KeyStore:
    """What a listener proves itself by.

    Attributes:
        key: the private key, in PEM form, perhaps encrypted.
        chain: the certificates in PEM form, its own first.
        password: of the key; empty for none.
    """

    key: str
    chain: tuple[str, ...]
    password: str

    @property
    def certificate(self) -> bytes:
        """Its own certificate in DER form."""
        return base64.b64decode("".join(self.chain[0].splitlines()[1:-1]))


def read_key_store(settings: Mapping[str, str]) -> KeyStore:
    """The key store that the settings name.

    Raises:
        ConfigError: it is missing, or cannot be read.
    """
    location, inline = settings.get("ssl.keystore.location"), settings.get("ssl.keystore.key")
    chain = settings.get("ssl.keystore.certificate.chain")
    store = _read_java_store(settings, "ssl.keystore")
    if store is not None:
        if store.key is None or not store.certificates:
            raise ConfigError(f"ssl.keystore.location: {location} must hold one private key and its certificates")
        if settings.get("ssl.key.password", "") not in ("", settings.get("ssl.keystore.password", "")):
            raise ConfigError("ssl.key.password: a PKCS12 store has one password; leave it out, or give that one")
        return KeyStore(store.key, store.certificates, "")
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
        name = "ssl.keystore.key"
    else:
        raise ConfigError("a TLS listener needs ssl.keystore.location, or ssl.keystore.key with .certificate.chain")
    if len(keys) != 1 or not certificates:
        raise ConfigError(f"{name} must hold one private key and, in the store or beside it, its certificates, in PEM")
    return KeyStore(keys[0], tuple(certificates), settings.get("ssl.key.password", ""))


def read_trust_store(settings: Mapping[str, str]) -> str | None:
    """The certificates of those who sign clients' certificates, in PEM form; None where nothing is set.

    Raises:
        ConfigError: they cannot be read.
    """
    location, inline = settings.get("ssl.truststore.location"), settings.get("ssl.truststore.certificates")
    if not location and not inline:
        return None
    store = _read_java_store(settings, "ssl.truststore")
    if store is not None:
        if not store.certificates:
            raise ConfigError(f"ssl.truststore.location: there is no certificate in {location}")
        return "".join(store.certificates)
    _check_store(settings, "ssl.truststore", has_inline=bool(inline))
    name = "ssl.truststore.location" if location else "ssl.truststore.certificates"
    certificates = _blocks(_read_pem(Path(location), name) if location else str(inline), name, CERTIFICATES)
    if not certificates:
        raise ConfigError(f"{name}: there is no certificate in PEM form in it")
    return "".join(certificates)


def _read_java_store(settings: Mapping[str, str], prefix: str) -> StoreContent | None:
    """Return the content of a PKCS #12 store; None if the settings name none."""
    kind = settings.get(f"{prefix}.type", "JKS").upper()
    location = settings.get(f"{prefix}.location")
    if not location or kind not in (PKCS12, "JKS"):
        return None
    try:
        data = _read(Path(location), f"{prefix}.location")
    except ConfigError:
        if kind == PKCS12:
            raise
        return None
    if kind != PKCS12 and not data.startswith(DER_SEQUENCE):
        return None
    return read_pkcs12(data, settings.get(f"{prefix}.password", ""), f"{prefix}.location: {location}")


def _check_store(settings: Mapping[str, str], prefix: str, *, has_inline: bool) -> None:
    """What Kafka asks of the settings of a store in PEM form."""
    kind = settings.get(f"{prefix}.type", "JKS")
    location = settings.get(f"{prefix}.location")
    if kind.upper() != "PEM":
        if f"{prefix}.type" not in settings and (not location or location.endswith(PEM_NAMES)):
            raise ConfigError(
                f"set {prefix}.type=PEM and {prefix}.location={location or '/path/store.pem'}:"
                " without a type it is JKS, which cannot be read here"
            )
        path = location or "store.jks"
        raise ConfigError(
            f"{prefix}.type: {kind} cannot be read here, convert it: keytool -importkeystore -srckeystore {path}"
            " -destkeystore store.p12 -deststoretype PKCS12 && openssl pkcs12 -in store.p12 -noenc -out store.pem,"
            f" then set {prefix}.type=PEM and {prefix}.location=store.pem"
        )
    if location and has_inline:
        raise ConfigError(f"{prefix}.location and certificates in the settings are both set: set one of them")
    if settings.get(f"{prefix}.password"):
        raise ConfigError(f"{prefix}.password is not for PEM: only a private key has a password, ssl.key.password")


def _read(path: Path, name: str) -> bytes:
    try:
        data, _ = read_bounded(path, FILE_BYTES_MAX)
    except OSError as error:
        raise ConfigError(f"{name}: cannot read {path}: {error.strerror}") from None
    return data


def _read_pem(path: Path, name: str) -> str:
    return _read(path, name).decode("latin-1")  # PEM is ASCII, and comments around it may be anything


def _blocks(text: str, name: str, labels: frozenset[str]) -> list[str]:
    """Return the blocks of these kinds, each in its usual form."""
    blocks = []
    for label, content in _all_blocks(text):
        if label not in labels:
            continue
        body = "".join(content.split())
        try:
            data = base64.b64decode(body, validate=True)
        except binascii.Error:
            raise ConfigError(f"{name}: a {label.lower()} in it is damaged") from None
        if label == ENCRYPTED_KEY:
            try:
                check_cost(data)
            except ValueError as error:
                advice = "encrypt it again by openssl pkcs8 -topk8 -v2 aes-256-cbc"
                raise ConfigError(f"{name}: the private key is refused: {error}; {advice}") from None
        lines = "\n".join(body[start : start + LINE_CHARS] for start in range(0, len(body), LINE_CHARS))
        blocks.append(f"-----BEGIN {label}-----\n{lines}\n-----END {label}-----\n")
    return blocks


def _all_blocks(text: str) -> Iterator[tuple[str, str]]:
    """Yield the label and the body of each block, from dash to dash: no character is searched more than twice."""
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
