"""Keys and certificates in PEM form, as Kafka's `ssl.*` settings name them: in files, or in the settings themselves.

Rules of this file: a text is taken apart into its blocks and put together again, so that one whose line ends were lost
in a settings file is read too. A refusal is one line and never shows what a setting holds, unless it is a path. JKS and
PKCS12 cannot be read; the refusal says how to convert them.
"""

from __future__ import annotations

import base64
import binascii
import re
import textwrap
from collections.abc import Mapping
from pathlib import Path

import attrs

from pipeline_broker.config.properties import ConfigError

__all__ = ["KeyStore", "read_key_store", "read_trust_store"]

BLOCK = re.compile(r"-+BEGIN (?P<label>[A-Z0-9 ]+?)-+(?P<body>[A-Za-z0-9+/=\s]+)-+END (?P=label)-+")
CERTIFICATES = frozenset({"CERTIFICATE", "X509 CERTIFICATE"})
KEYS = frozenset({"PRIVATE KEY", "ENCRYPTED PRIVATE KEY", "RSA PRIVATE KEY", "EC PRIVATE KEY"})
PEM_NAMES = (".pem", ".crt", ".cer", ".key")
FILE_BYTES_MAX = 16 << 20
"""Far above any key store; a bundle of all public authorities has a quarter of a megabyte."""


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
    _check_store(settings, "ssl.keystore", has_inline=bool(inline or chain))
    if location:
        text = _read(Path(location), "ssl.keystore.location")
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
    _check_store(settings, "ssl.truststore", has_inline=bool(inline))
    name = "ssl.truststore.location" if location else "ssl.truststore.certificates"
    certificates = _blocks(_read(Path(location), name) if location else str(inline), name, CERTIFICATES)
    if not certificates:
        raise ConfigError(f"{name}: there is no certificate in PEM form in it")
    return "".join(certificates)


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


def _read(path: Path, name: str) -> str:
    try:
        with path.open("rb") as file:
            data = file.read(FILE_BYTES_MAX + 1)
    except OSError as error:
        raise ConfigError(f"{name}: cannot read {path}: {error.strerror}") from None
    if len(data) > FILE_BYTES_MAX:
        raise ConfigError(f"{name}: {path} is larger than {FILE_BYTES_MAX} bytes")
    return data.decode("latin-1")  # PEM is ASCII, and comments around it may be anything


def _blocks(text: str, name: str, labels: frozenset[str]) -> list[str]:
    """The blocks of these kinds, each in its usual form."""
    blocks = []
    for match in BLOCK.finditer(text):
        if match["label"] in labels:
            body = "".join(match["body"].split())
            try:
                base64.b64decode(body, validate=True)
            except binascii.Error:
                raise ConfigError(f"{name}: a {match['label'].lower()} in it is damaged") from None
            lines = "\n".join(textwrap.wrap(body, 64))
            blocks.append(f"-----BEGIN {match['label']}-----\n{lines}\n-----END {match['label']}-----\n")
    return blocks
