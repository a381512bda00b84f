"""Listeners in settings: names, addresses, security protocols, and properties of one listener.

As in Kafka, the name of a listener is in upper case, and in lower case within its prefix `listener.name.<name>.`.
"""

from __future__ import annotations

import ipaddress
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
# Clients cannot connect to a wildcard address, so a listener on all addresses advertises this one by default.
ADVERTISED_FOR_WILDCARD = "127.0.0.1"
PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
PREFIX = "listener.name."

LISTENER_PROPERTIES = frozenset(
    {
        "connections.max.reauth.ms",
        "sasl.enabled.mechanisms",
        "sasl.jaas.config",
        "sasl.oauthbearer.allow.unverified.audience",
        "sasl.oauthbearer.allow.unverified.issuer",
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
"""Properties of listeners; with a listener's prefix they override the value for all listeners."""
PER_LISTENER_LIMITS = frozenset({"max.connection.creation.rate", "max.connections", "num.network.threads"})
"""Properties that with a listener's prefix are separate limits, in addition to the broker's."""


@attrs.frozen
class Endpoint:
    """One item of `listeners` or `advertised.listeners`; `host` has no brackets."""

    name: str
    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.name}://{format_host(self.host)}:{self.port}"


@attrs.frozen(kw_only=True)
class ListenerConfig:
    """The configuration of one listener that the broker serves.

    Attributes:
        name: in upper case.
        host: the address to bind; empty for all addresses.
        port: the port to bind; 0 for a free one.
        security_protocol: PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL.
        advertised_host: the host that clients of this listener receive; None if `advertised.listeners` omits the
            listener.
        advertised_port: the port that clients receive; 0 for the port that was bound.
        properties: Kafka's texts by name without the listener's prefix. The name of a property of one SASL mechanism
            begins with that mechanism: "plain.sasl.jaas.config".
        is_privileged: whether this is the inter-broker listener.
        is_control_plane: whether requests have a queue and a handler of their own.
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
        return self.security_protocol.endswith("SSL")

    @property
    def is_sasl(self) -> bool:
        return self.security_protocol.startswith("SASL")

    @property
    def mechanisms(self) -> tuple[str, ...]:
        return tuple(filter(None, self.properties.get("sasl.enabled.mechanisms", "").split(",")))

    def limit(self, name: str) -> int | None:
        text = self.properties.get(name)
        return None if text is None else int(text)


def format_host(host: str) -> str:
    """Return a host for use before a colon and a port: IPv6 addresses in brackets."""
    return f"[{host}]" if ":" in host else host


def prefix_of(name: str) -> str:
    return f"{PREFIX}{name.lower()}."


def is_of_listener(name: str) -> bool:
    """Return whether a property, given without a prefix, can be set for one listener."""
    return name.startswith(("ssl.", "sasl.")) or name in LISTENER_PROPERTIES | {"principal.builder.class"}


def read_endpoints(name: str, items: Sequence[str]) -> list[Endpoint]:
    """Parse a list of listeners.

    Args:
        name: the property, for error messages.
        items: texts of the form NAME://host:port.

    Raises:
        ConfigError: an item is malformed, or two items have one name.
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
            f"{twice} is the name of two listeners. Rename one of them",
            f"Each listener must have a different name, {name}: [{', '.join(items)}]",
        )
    return endpoints


def check_ports(endpoints: Sequence[Endpoint], items: Sequence[str]) -> None:
    """Refuse listeners with the same port, unless one has an IPv4 and the other an IPv6 address, as in Kafka."""
    by_port: dict[int, list[str]] = {}
    for endpoint in endpoints:
        # Port 0 means a free port, a different one for each listener.
        if endpoint.port:
            by_port.setdefault(endpoint.port, []).append(endpoint.host)
    for port, hosts in by_port.items():
        if len(hosts) > 1 and sorted(map(_ip_version, hosts)) != [4, 6]:
            raise refusal_of_listeners(
                "listeners",
                items,
                f"more than one listener has port {port}. Choose another port for one of them",
                "If you have two listeners on the same port then one needs to be IPv4 and the other IPv6, listeners:"
                f" [{', '.join(items)}], port: {port}",
            )


def _ip_version(host: str) -> int:
    try:
        return ipaddress.ip_address(host).version
    except ValueError:
        # A host name may resolve to addresses of both versions, so it never shares a port.
        return 0


def refusal_of_listeners(name: str, items: Sequence[str], reason: str, client_reason: str) -> ConfigError:
    """Return the error for a property that lists listeners, with Kafka's wording for clients."""
    return ConfigError(
        f"{name}: {','.join(items)!r} is not allowed: {reason}",
        f"Error creating broker listeners from '[{', '.join(items)}]': {client_reason}",
    )


def security_protocols(text: str) -> dict[str, str]:
    """Parse `listener.security.protocol.map`: security protocols by listener, both in upper case.

    Raises:
        ConfigError: the text is malformed or names an unknown protocol.
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
    """Return the error for a limit of 0.

    No client could connect any more, not even to raise the limit again.

    Args:
        shown: the name in the message for the operator, with a listener's prefix if any.
        name: the name in Kafka's message.
    """
    return refusal(f"{shown}: 0 is not allowed: no client could connect any more", f"Invalid {name} 0")
