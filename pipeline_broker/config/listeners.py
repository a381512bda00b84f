"""How listeners are written in settings: names, addresses, protocols, and which properties one may have of its own.

Rules of this file: a listener's name counts in upper case and its prefix `listener.name.<name>.` in lower case, as in
Kafka; what is set with the prefix goes over the same property without it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import attrs

from pipeline_broker.config.properties import ConfigError, refusal

__all__ = [
    "ADVERTISED_FOR_WILDCARD",
    "LISTENER_PROPERTIES",
    "WILDCARDS",
    "Endpoint",
    "ListenerConfig",
    "check_ports",
    "is_of_listener",
    "prefix_of",
    "read_endpoints",
    "refusal_of_listeners",
    "security_protocols",
    "zero_refusal",
]

ENDPOINT = re.compile(r"([A-Za-z0-9_-]+)://(?:\[([0-9A-Fa-f:.%]+)\]|([^:\[\]/]*)):([0-9]{1,5})")
PORT_MAX = 65535
WILDCARDS = frozenset({"", "0.0.0.0", "::"})  # noqa: S104 - compared with, not bound to
ADVERTISED_FOR_WILDCARD = "127.0.0.1"
PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
PREFIX = "listener.name."

LISTENER_PROPERTIES = frozenset(
    {
        "connections.max.reauth.ms",
        "sasl.enabled.mechanisms",
        "sasl.jaas.config",
        "sasl.oauthbearer.clock.skew.seconds",
        "sasl.oauthbearer.expected.audience",
        "sasl.oauthbearer.expected.issuer",
        "sasl.oauthbearer.jwks.endpoint.url",
        "sasl.oauthbearer.scope.claim.name",
        "sasl.oauthbearer.sub.claim.name",
        "sasl.server.callback.handler.class",
        "sasl.server.max.receive.size",
        "ssl.allow.dn.changes",
        "ssl.allow.san.changes",
        "ssl.cipher.suites",
        "ssl.client.auth",
        "ssl.enabled.protocols",
        "ssl.key.password",
        "ssl.keystore.certificate.chain",
        "ssl.keystore.key",
        "ssl.keystore.location",
        "ssl.keystore.password",
        "ssl.keystore.type",
        "ssl.principal.mapping.rules",
        "ssl.protocol",
        "ssl.truststore.certificates",
        "ssl.truststore.location",
        "ssl.truststore.password",
        "ssl.truststore.type",
    }
)
"""What listeners act on, set for all of them or, with its prefix, for one."""
OF_ONE_LISTENER = frozenset({"max.connection.creation.rate", "max.connections", "num.network.threads"})
"""Acted on with a prefix too, where it does not stand in for what is set without it: it is a limit of its own."""


@attrs.frozen
class Endpoint:
    """One item of `listeners` or of `advertised.listeners`; the host of an address in brackets has none."""

    name: str
    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.name}://{format_host(self.host)}:{self.port}"


@attrs.frozen(kw_only=True)
class ListenerConfig:
    """One listener that is served.

    Attributes:
        name: in upper case.
        host: where to listen; empty for every address.
        port: where to listen; 0 takes a free one.
        security_protocol: PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL.
        advertised_host: what clients that come by it are told; None where it is in no advertised listener.
        advertised_port: the same; 0 is the port that it gets.
        properties: what counts for it, by Kafka's names without the prefix, in Kafka's texts; that of one SASL
            mechanism begins with its name, as "plain.sasl.jaas.config".
        is_privileged: whether it is the listener of the brokers themselves.
        is_control_plane: whether its requests have a plane of their own.
    """

    name: str
    host: str
    port: int
    security_protocol: str
    advertised_host: str | None
    advertised_port: int
    properties: Mapping[str, str] = attrs.field(factory=dict)
    is_privileged: bool = False
    is_control_plane: bool = False

    @property
    def is_tls(self) -> bool:
        """Whether its connections are encrypted."""
        return self.security_protocol.endswith("SSL")

    @property
    def is_sasl(self) -> bool:
        """Whether clients must authenticate."""
        return self.security_protocol.startswith("SASL")

    @property
    def mechanisms(self) -> tuple[str, ...]:
        """The SASL mechanisms that it offers."""
        return tuple(filter(None, self.properties.get("sasl.enabled.mechanisms", "").split(",")))

    def limit(self, name: str) -> int | None:
        """A limit of this listener alone, None where it has none."""
        text = self.properties.get(name)
        return None if text is None else int(text)


def format_host(host: str) -> str:
    """A host as it stands before a colon and a port."""
    return f"[{host}]" if ":" in host else host


def prefix_of(name: str) -> str:
    """What the properties of one listener begin with."""
    return f"{PREFIX}{name.lower()}."


def is_of_listener(name: str) -> bool:
    """Whether a property, without its prefix, is one that a listener may have of its own."""
    return name.startswith(("ssl.", "sasl.")) or name in LISTENER_PROPERTIES | {"principal.builder.class"}


def read_endpoints(name: str, items: Sequence[str]) -> list[Endpoint]:
    """The items of a property that lists listeners; each name once.

    Raises:
        ConfigError: one is malformed, or a name stands twice.
    """
    endpoints = []
    for item in items:
        match = ENDPOINT.fullmatch(item)
        if not match or int(match[4]) > PORT_MAX:
            raise refusal_of_listeners(
                name,
                items,
                f"{item!r} is not of the form NAME://host:port",
                f"Unable to parse {item} to a broker endpoint",
            )
        endpoints.append(Endpoint(match[1].upper(), match[2] or match[3] or "", int(match[4])))
    names = [endpoint.name for endpoint in endpoints]
    if len(set(names)) < len(names):
        twice = next(each for each in names if names.count(each) > 1)
        raise refusal_of_listeners(
            name,
            items,
            f"{twice} stands there twice",
            f"Each listener must have a different name, {name}: [{', '.join(items)}]",
        )
    return endpoints


def check_ports(endpoints: Sequence[Endpoint], items: Sequence[str]) -> None:
    """Two listeners share a port only where one has an IPv4 address and the other an IPv6 address, as in Kafka."""
    by_port: dict[int, list[str]] = {}
    for endpoint in endpoints:
        if endpoint.port:
            by_port.setdefault(endpoint.port, []).append(endpoint.host)
    for port, hosts in by_port.items():
        if len(hosts) > 1 and sorted(map(_ip_version, hosts)) != [4, 6]:
            raise refusal_of_listeners(
                "listeners",
                items,
                f"port {port} is given to more than one listener",
                "If you have two listeners on the same port then one needs to be IPv4 and the other IPv6, listeners:"
                f" [{', '.join(items)}], port: {port}",
            )


def _ip_version(host: str) -> int:
    import ipaddress  # noqa: PLC0415 - for ports that are given twice

    try:
        return ipaddress.ip_address(host).version
    except ValueError:
        return 0


def refusal_of_listeners(name: str, items: Sequence[str], reason: str, client_reason: str) -> ConfigError:
    """The refusal of a property that lists listeners, in this broker's words and in those that clients get."""
    return ConfigError(
        f"{name}: {','.join(items)!r} is not allowed: {reason}",
        f"Error creating broker listeners from '[{', '.join(items)}]': {client_reason}",
    )


def security_protocols(text: str) -> dict[str, str]:
    """The protocol of each listener by its name, from `listener.security.protocol.map`.

    Raises:
        ConfigError: it cannot be read, or names a protocol that does not exist.
    """
    protocols: dict[str, str] = {}
    for item in filter(None, map(str.strip, text.split(","))):
        name, separator, protocol = (part.strip() for part in item.partition(":"))
        if not separator or not name:
            raise ConfigError(f"listener.security.protocol.map: {item!r} is not of the form NAME:PROTOCOL")
        if protocol.upper() not in PROTOCOLS:
            raise ConfigError(
                f"listener.security.protocol.map: {protocol!r} is not one of {', '.join(PROTOCOLS)}",
                f"Invalid security protocol `{protocol}` defined in listener.security.protocol.map",
            )
        protocols[name.upper()] = protocol.upper()
    return protocols


def zero_refusal(shown: str, name: str) -> ConfigError:
    """The refusal of a limit that would let nobody in, so that nobody could take it back."""
    return refusal(f"{shown}: 0 is not allowed: nobody could connect any more", f"Invalid {name} 0")
