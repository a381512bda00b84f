"""Properties of Java's clients in librdkafka's words.

Rules of this file: what both have is passed on as it is; `client.properties` of Kafka's own tools works where its key
stores are of PEM, as Java has it since 2.7 (KIP-651). What is wrong is one line, and never shows a password.
"""

from __future__ import annotations

from collections.abc import Mapping

from pipeline_broker.config.properties import ConfigError

__all__ = ["as_librdkafka"]

_STORES = {"truststore": ("ssl.ca.location",), "keystore": ("ssl.certificate.location", "ssl.key.location")}
_JAAS = "sasl.jaas.config"
_CALLBACK = "sasl.login.callback.handler.class"
_CALLBACKS = frozenset(
    f"org.apache.kafka.common.security.oauthbearer.{package}OAuthBearerLoginCallbackHandler"
    for package in ("", "secured.")
)
"""Of the client that Kafka has; the second one is what it was called before 3.4."""
_BEARER = "OAUTHBEARER"
_SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
_MODULES = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": _SCRAM,
    "SCRAM-SHA-512": _SCRAM,
    _BEARER: "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule",
}
"""The login module of each mechanism that the client has."""
_PASSWORD_OPTIONS = {"username": "sasl.username", "password": "sasl.password"}
_TOKEN_OPTIONS = {
    "clientId": "sasl.oauthbearer.client.id",
    "clientSecret": "sasl.oauthbearer.client.secret",
    "scope": "sasl.oauthbearer.scope",
}
"""What options of a JAAS line are as properties."""
_EXTENSION = "extension_"
"""How names of extensions begin there (KIP-342)."""
_NEWER_NAMES = {
    "sasl.oauthbearer.client.credentials.client.id": "sasl.oauthbearer.client.id",
    "sasl.oauthbearer.client.credentials.client.secret": "sasl.oauthbearer.client.secret",
}
"""Those of Java's clients since 4.1 (KIP-1139), which librdkafka takes too."""


def as_librdkafka(properties: Mapping[str, str]) -> dict[str, str]:
    """The same properties; those of Java's that have another name or form get librdkafka's.

    Raises:
        ConfigError: a key store is not of PEM, or the JAAS line cannot be read.
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
    if found.get("ssl.endpoint.identification.algorithm") == "":  # Java's way to say none
        found["ssl.endpoint.identification.algorithm"] = "none"
    handler = found.pop(_CALLBACK, None)
    if handler is not None and handler not in _CALLBACKS:
        raise ConfigError(f"{_CALLBACK} may only be {min(_CALLBACKS, key=len)}: no code is loaded")
    for name, known in _NEWER_NAMES.items():
        if name in found:
            found[known] = found.pop(name)
    line = found.pop(_JAAS, None)
    if line is not None:
        found.update(_login(found, line))
    return found


def _login(properties: Mapping[str, str], line: str) -> dict[str, str]:
    from pipeline_broker.security.jaas import parse_jaas  # noqa: PLC0415 - for those who have such a line

    mechanism = properties.get("sasl.mechanism", "").upper()
    if mechanism not in _MODULES:
        raise ConfigError(f"{_JAAS} needs a sasl.mechanism of {', '.join(_MODULES)}")
    options = parse_jaas(line, _MODULES[mechanism]).options
    names = _TOKEN_OPTIONS if mechanism == _BEARER else _PASSWORD_OPTIONS
    found = {names[option]: value for option, value in options.items() if option in names}
    extensions = [
        f"{option.removeprefix(_EXTENSION)}={value}"
        for option, value in options.items()
        if mechanism == _BEARER and option.startswith(_EXTENSION)
    ]
    return found | ({"sasl.oauthbearer.extensions": ",".join(extensions)} if extensions else {})
