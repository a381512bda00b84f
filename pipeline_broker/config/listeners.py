"""The listeners of a broker: names, addresses, protocols, and what is set for one of them only.

Rules of this file: a listener's name counts in upper case and its prefix `listener.name.<name>.` in lower case, as in
Kafka; what is set with the prefix goes over the same property without it. A listener that belongs to the controller is
not served: there is no quorum to talk to. Everything is made once from the settings, so that what does not go together
fails at the start or refuses the change.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import attrs

from pipeline_broker.config.properties import ConfigError, refusal

if TYPE_CHECKING:
    from pipeline_broker.config.settings import BrokerConfig

__all__ = [
    "LISTENER_PROPERTIES",
    "Endpoint",
    "ListenerConfig",
    "advertised_listeners",
    "is_of_listener",
    "listener_configs",
    "prefix_of",
    "read_endpoints",
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
            raise _refusal(
                name,
                items,
                f"{item!r} is not of the form NAME://host:port",
                f"Unable to parse {item} to a broker endpoint",
            )
        endpoints.append(Endpoint(match[1].upper(), match[2] or match[3] or "", int(match[4])))
    names = [endpoint.name for endpoint in endpoints]
    if len(set(names)) < len(names):
        twice = next(each for each in names if names.count(each) > 1)
        raise _refusal(
            name,
            items,
            f"{twice} stands there twice",
            f"Each listener must have a different name, {name}: [{', '.join(items)}]",
        )
    return endpoints


def _check_ports(endpoints: Sequence[Endpoint], items: Sequence[str]) -> None:
    """Two listeners share a port only where one has an IPv4 address and the other an IPv6 address, as in Kafka."""
    by_port: dict[int, list[str]] = {}
    for endpoint in endpoints:
        if endpoint.port:
            by_port.setdefault(endpoint.port, []).append(endpoint.host)
    for port, hosts in by_port.items():
        if len(hosts) > 1 and sorted(map(_ip_version, hosts)) != [4, 6]:
            raise _refusal(
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


def _refusal(name: str, items: Sequence[str], reason: str, client_reason: str) -> ConfigError:
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


def advertised_listeners(config: BrokerConfig) -> dict[str, tuple[str, int]]:
    """The addresses that clients are told, by listener; those of the listeners themselves where nothing is set.

    Raises:
        ConfigError: one cannot be connected to, or is of no listener.
    """
    listeners = read_endpoints("listeners", config.listeners)
    if config.advertised_listeners is None:
        return {
            each.name: (ADVERTISED_FOR_WILDCARD if each.host in WILDCARDS else each.host, each.port)
            for each in listeners
        }
    advertised = read_endpoints("advertised.listeners", config.advertised_listeners)
    for endpoint in advertised:
        if endpoint.host in WILDCARDS:
            raise ConfigError(
                f"advertised.listeners: {str(endpoint)!r} is not allowed: a host that clients can connect to is"
                " expected",
                "requirement failed: advertised.listeners cannot use the nonroutable meta-address 0.0.0.0. Use a"
                " routable IP address.",
            )
    names = [endpoint.name for endpoint in listeners]
    if strangers := [endpoint.name for endpoint in advertised if endpoint.name not in names]:
        raise ConfigError(
            f"advertised.listeners: {strangers[0]} is not among listeners ({', '.join(names)})",
            "requirement failed: advertised.listeners listener names must be equal to or a subset of the ones defined"
            f" in listeners. Found {','.join(endpoint.name for endpoint in advertised)}. The valid options based on"
            f" the current configuration are {','.join(names)}",
        )
    return {endpoint.name: (endpoint.host, endpoint.port) for endpoint in advertised}


def listener_configs(config: BrokerConfig) -> tuple[ListenerConfig, ...]:
    """The listeners that are served, in the order in which they are set.

    Raises:
        ConfigError: what is set does not go together.
    """
    endpoints = read_endpoints("listeners", config.listeners)
    _check_ports(endpoints, config.listeners)
    controllers = {name.upper() for name in config.controller_listener_names}
    served = [endpoint for endpoint in endpoints if endpoint.name not in controllers]
    if not served:
        raise ConfigError("listeners: a listener that is not the controller's is expected")
    protocols = security_protocols(config.listener_security_protocol_map)
    if unknown := [endpoint.name for endpoint in served if endpoint.name not in protocols]:
        raise _refusal(
            "listeners",
            config.listeners,
            f"listener.security.protocol.map has no security protocol for {unknown[0]}",
            f"No security protocol defined for listener {unknown[0]}",
        )
    privileged = _privileged(config, served, protocols)
    control_plane = _control_plane(config, served, privileged)
    advertised = advertised_listeners(config)
    listeners = []
    for endpoint in served:
        host, port = advertised.get(endpoint.name, (None, 0))
        listener = ListenerConfig(
            name=endpoint.name,
            host=endpoint.host,
            port=endpoint.port,
            security_protocol=protocols[endpoint.name],
            advertised_host=host,
            advertised_port=port,
            properties=_properties(config.texts, endpoint.name, protocols[endpoint.name]),
            is_privileged=endpoint.name == privileged,
            is_control_plane=endpoint.name == control_plane,
        )
        _check_limits(listener)
        listeners.append(listener)
    return tuple(listeners)


def _privileged(config: BrokerConfig, served: Iterable[Endpoint], protocols: Mapping[str, str]) -> str | None:
    """The listener of the brokers themselves; unlike Kafka a lone broker does without."""
    names = [endpoint.name for endpoint in served]
    if config.inter_broker_listener_name is None:
        of_protocol = [name for name in names if protocols[name] == config.security_inter_broker_protocol]
        return next((name for name in of_protocol if name == config.security_inter_broker_protocol), None)
    if "security.inter.broker.protocol" in config.properties:
        text = "Only one of inter.broker.listener.name and security.inter.broker.protocol should be set."
        raise ConfigError(text, text)
    return _listed("inter.broker.listener.name", config.inter_broker_listener_name, names)


def _control_plane(config: BrokerConfig, served: Sequence[Endpoint], privileged: str | None) -> str | None:
    name = config.control_plane_listener_name
    if name is None:
        return None
    name = _listed("control.plane.listener.name", name, [endpoint.name for endpoint in served])
    if name == privileged or len(served) == 1:
        raise ConfigError(f"control.plane.listener.name: {name} is not allowed: another listener must serve the data")
    return name


def _listed(name: str, listener: str, names: Sequence[str]) -> str:
    if listener.upper() not in names:
        raise ConfigError(
            f"{name}: {listener!r} is not among listeners ({', '.join(names)})",
            f"requirement failed: {name} must be a listener name defined in advertised.listeners. The valid options"
            f" based on currently configured listeners are {','.join(names)}",
        )
    return listener.upper()


def _properties(texts: Mapping[str, str], name: str, protocol: str) -> dict[str, str]:
    prefix = prefix_of(name)
    of_all = {each: text for each, text in texts.items() if is_of_listener(each)}
    if protocol == "SASL_SSL":
        of_all.pop("ssl.client.auth", None)  # as in Kafka: who proves himself by SASL needs no certificate too
    own = {each.removeprefix(prefix): text for each, text in texts.items() if each.startswith(prefix)}
    return {**of_all, **own}


def zero_refusal(shown: str, name: str) -> ConfigError:
    """The refusal of a limit that would let nobody in, so that nobody could take it back."""
    return refusal(f"{shown}: 0 is not allowed: nobody could connect any more", f"Invalid {name} 0")


def _check_limits(listener: ListenerConfig) -> None:
    for name in ("max.connections", "max.connection.creation.rate"):
        if listener.limit(name) == 0:
            raise zero_refusal(prefix_of(listener.name) + name, name)
