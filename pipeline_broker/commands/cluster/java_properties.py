"""Conversion of Java client properties to librdkafka's, so that a `client.properties` of Kafka's tools works.

Properties with equal names and values pass unchanged. Key stores must be PEM files (KIP-651, Kafka 2.7).
"""

from __future__ import annotations

from collections.abc import Mapping

from pipeline_broker.config.properties import ConfigError
from pipeline_broker.security.jaas import parse_jaas

__all__ = ["as_librdkafka"]

_STORES = {"truststore": ("ssl.ca.location",), "keystore": ("ssl.certificate.location", "ssl.key.location")}
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
        ConfigError: a key store is not a PEM file, or the JAAS line is malformed.
    """
    found = dict(properties)
    for store, names in _STORES.items():
        place, kind = found.pop(f"ssl.{store}.location", None), found.pop(f"ssl.{store}.type", "PEM")
        if place is None:
            continue
        if kind.upper() != "PEM":
            raise ConfigError(f"ssl.{store}.type={kind} cannot be read: give a PEM file with ssl.{store}.type=PEM")
        for name in names:
            found.setdefault(name, place)
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


def _login(properties: Mapping[str, str], line: str) -> dict[str, str]:
    mechanism = properties.get("sasl.mechanism", "").upper()
    if mechanism not in _MODULES:
        raise ConfigError(f"{_JAAS} needs sasl.mechanism: set it to one of {', '.join(_MODULES)}")
    options = parse_jaas(line, _MODULES[mechanism]).options
    names = _TOKEN_OPTIONS if mechanism == _BEARER else _PASSWORD_OPTIONS
    found = {names[option]: value for option, value in options.items() if option in names}
    extensions = [
        f"{option.removeprefix(_EXTENSION)}={value}"
        for option, value in options.items()
        if mechanism == _BEARER and option.startswith(_EXTENSION)
    ]
    return found | ({"sasl.oauthbearer.extensions": ",".join(extensions)} if extensions else {})
