"""Conversion of Java client properties to librdkafka's, so that a `client.properties` of Kafka's tools works.

Properties with equal names and values pass unchanged. Stores are PEM files, texts in PEM form (KIP-651, Kafka 2.7) or
PKCS #12 stores. The content decides if a store has no type.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from pipeline_broker.config.properties import ConfigError
from pipeline_broker.files.bounded_file import read_bounded
from pipeline_broker.security.jaas import parse_jaas
from pipeline_broker.security.pem import DER_SEQUENCE, FILE_BYTES_MAX, read_key_store, read_trust_store

__all__ = ["as_librdkafka"]

_TRUST_STORE, _KEY_STORE = "ssl.truststore", "ssl.keystore"
# librdkafka's names of the parts of a PEM file.
_FILES = {_TRUST_STORE: ("ssl.ca.location",), _KEY_STORE: ("ssl.certificate.location", "ssl.key.location")}
_KEY_PASSWORD = "ssl.key.password"  # noqa: S105 - the name of a property
# The first bytes of stores that are not PEM: PKCS #12, and Java's own format.
_BINARY_STORES = (DER_SEQUENCE, b"\xfe")
_JAAS = "sasl.jaas.config"
_CALLBACK = "sasl.login.callback.handler.class"
# Kafka's own handler; "secured" is the package of its name before Kafka 3.4.
_CALLBACKS = frozenset(
    f"org.apache.kafka.common.security.oauthbearer.{package}OAuthBearerLoginCallbackHandler"
    for package in ("", "secured.")
)
_BEARER = "OAUTHBEARER"
_SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
# JAAS login modules by mechanism.
_MODULES = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": _SCRAM,
    "SCRAM-SHA-512": _SCRAM,
    _BEARER: "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule",
}
# librdkafka's properties by option of the JAAS line.
_PASSWORD_OPTIONS = {"username": "sasl.username", "password": "sasl.password"}
_TOKEN_OPTIONS = {
    "clientId": "sasl.oauthbearer.client.id",
    "clientSecret": "sasl.oauthbearer.client.secret",
    "scope": "sasl.oauthbearer.scope",
}
_EXTENSION = "extension_"  # prefix of SASL extensions in a JAAS line (KIP-342)
# Names of Java's clients since Kafka 4.1 (KIP-1139), which librdkafka accepts too.
_NEWER_NAMES = {
    "sasl.oauthbearer.client.credentials.client.id": "sasl.oauthbearer.client.id",
    "sasl.oauthbearer.client.credentials.client.secret": "sasl.oauthbearer.client.secret",
}


def as_librdkafka(properties: Mapping[str, str]) -> dict[str, str]:
    """Return the properties with Java's names and forms replaced by librdkafka's.

    Raises:
        ConfigError: a store cannot be read, the callback handler is not supported, or the JAAS line is malformed or
            does not match `sasl.mechanism`.
    """
    found = dict(properties)
    for store in _FILES:
        found |= _store(found, store)
    if found.get("ssl.endpoint.identification.algorithm") == "":  # Java's spelling of "none"
        found["ssl.endpoint.identification.algorithm"] = "none"
    handler = found.pop(_CALLBACK, None)
    if handler is not None and handler not in _CALLBACKS:
        raise ConfigError(f"{_CALLBACK}={handler} is not supported: use {min(_CALLBACKS, key=len)}")
    for name, known in _NEWER_NAMES.items():
        if name in found:
            found[known] = found.pop(name)
    line = found.pop(_JAAS, None)
    if line is not None:
        found.update(_login(found, line))
    return found


def _store(properties: dict[str, str], store: str) -> dict[str, str]:
    given = {name: properties.pop(name) for name in list(properties) if name.startswith(f"{store}.")}
    if given.keys() <= {f"{store}.type"}:
        return {}
    place = given.get(f"{store}.location")
    kind = given.setdefault(f"{store}.type", _content_type(place))
    if place is not None and kind.upper() == "PEM" and given.keys() == {f"{store}.location", f"{store}.type"}:
        return {name: properties.get(name, place) for name in _FILES[store]}

    if store == _TRUST_STORE:
        return {"ssl.ca.pem": read_trust_store(given) or ""}
    found = read_key_store(given | {_KEY_PASSWORD: properties.pop(_KEY_PASSWORD, "")})
    password = {_KEY_PASSWORD: found.password} if found.password else {}
    return {"ssl.certificate.pem": "".join(found.chain), "ssl.key.pem": found.key} | password


def _content_type(place: str | None) -> str:
    if place is None:
        return "PEM"

    try:
        content, _ = read_bounded(Path(place), FILE_BYTES_MAX)
    except OSError:
        return "JKS"  # the reader of stores reports the file
    # Java's default type is JKS, by which it reads PKCS #12 stores, too.
    return "JKS" if content.startswith(_BINARY_STORES) else "PEM"


def _login(properties: Mapping[str, str], line: str) -> dict[str, str]:
    mechanism = properties.get("sasl.mechanism", properties.get("sasl.mechanisms", "")).upper()
    if not mechanism:
        raise ConfigError(f"{_JAAS} needs sasl.mechanism: set it to one of {', '.join(_MODULES)}")
    if mechanism not in _MODULES:
        raise ConfigError(f"sasl.mechanism {mechanism!r} is not one of {', '.join(_MODULES)}")
    options = parse_jaas(line, _MODULES[mechanism]).options
    names = _TOKEN_OPTIONS if mechanism == _BEARER else _PASSWORD_OPTIONS
    found = {names[option]: value for option, value in options.items() if option in names}
    extensions = [
        f"{option.removeprefix(_EXTENSION)}={value}"
        for option, value in options.items()
        if mechanism == _BEARER and option.startswith(_EXTENSION)
    ]
    return found | ({"sasl.oauthbearer.extensions": ",".join(extensions)} if extensions else {})
