"""The listeners of a running broker: bound, described to the server, advertised to clients.

Rules of this room: one owner of what is bound; a listener that stays keeps its socket, whatever address a change gives
it. A session begins here, with all that the connection itself proves. What a listener does not need is not imported.
"""

from __future__ import annotations

import copy
import datetime as dt
import errno
import logging
import socket
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import TYPE_CHECKING, TypeAlias

import attrs

from pipeline_broker.apis.call import Session
from pipeline_broker.broker.ports import wall_clock_ms
from pipeline_broker.config.listeners import (
    ADVERTISED_FOR_WILDCARD,
    WILDCARDS,
    ListenerConfig,
    format_host,
    is_of_listener,
    prefix_of,
)
from pipeline_broker.config.properties import ConfigError, refusal
from pipeline_broker.node.options import StartBlockedError, StartError
from stages.listener import Listener, open_listener
from stages.transport_layer import HandshakeError

if TYPE_CHECKING:
    from pipeline_broker.config.broker_config import BrokerConfig
    from pipeline_broker.security.offer import SaslOffer
    from pipeline_broker.security.refusals import Kind, Refusals
    from pipeline_broker.security.scram_users import ScramUsers
    from pipeline_broker.security.tls import TlsContexts
    from stages.authentication import Authenticator
    from stages.request import ConnectionHandle
    from stages.transport_layer import TransportLayer

__all__ = ["Bind", "BrokerListeners", "bind_listener"]

logger = logging.getLogger(__name__)

TLS = "TLS"
"""Of a failed login: that of a handshake, before any mechanism."""

Users: TypeAlias = "Callable[[], ScramUsers]"
"""The users that have records; asked only for listeners with SASL."""
Bind: TypeAlias = "Callable[[ListenerConfig, BrokerConfig], Listener]"
"""Binds an address, as `bind_listener`."""
LoginFailed: TypeAlias = "Callable[[Kind, tuple[str, ...], str, str], None]"
"""Takes note of a failed login, as `Refusals.add`."""


def _nobody() -> ScramUsers:
    from pipeline_broker.security.scram_users import ScramUsers  # noqa: PLC0415 - for SASL only

    return ScramUsers()


class _Served:
    """One listener; what changes for it counts from the next connection on, or when a client proves itself again.

    Raises:
        StartError: its address cannot be had.
        ConfigError: its keys, certificates, mechanisms or users cannot be used.
    """

    def __init__(
        self, config: ListenerConfig, all_of: BrokerConfig, users: Users, bind: Bind, login_failed: LoginFailed
    ) -> None:
        self.config = config
        self._login_failed = login_failed
        self._users = users
        self._tls = _tls_of(config)
        self._warn_of_certificate()
        self.offer = _offer_of(config, users)
        self.listener = attrs.evolve(
            bind(config, all_of),
            tls=None if self._tls is None else self._tls.context,
            open_session=self._open_session,
            handshake_failed=self._handshake_failed,
            processors=config.limit("num.network.threads"),
            is_control_plane=config.is_control_plane,
            is_privileged=config.is_privileged,
        )

    def _open_session(self, connection: ConnectionHandle, transport: TransportLayer) -> Authenticator | None:
        config = self.config
        connection.session = session = Session(
            host=connection.peer,
            listener=config.name,
            security_protocol=config.security_protocol,
            is_privileged=config.is_privileged,
        )
        if self.offer is not None:
            from pipeline_broker.apis.security.authentication import SaslAuthenticator  # noqa: PLC0415 - for SASL only

            def failed(name: str, mechanism: str, reason: str) -> None:
                self._login_failed((config.name, mechanism), (session.host,), name, reason)

            return SaslAuthenticator(session, self._current_offer, failed=failed)
        if self._tls is not None:
            principal = self._tls.principal(transport.peer_certificate)
            if principal is None:
                raise HandshakeError("no mapping rule applies to the client's certificate")
            session.principal = principal
        return None

    def _handshake_failed(self, peer: str, reason: str) -> None:
        self._login_failed((self.config.name, TLS), (peer,), "", reason)

    def _current_offer(self) -> SaslOffer:
        assert self.offer is not None, "a listener keeps its protocol"
        return self.offer

    def _warn_of_certificate(self) -> None:
        if self._tls is not None:
            warning = self._tls.warning(dt.datetime.now(dt.UTC))
            if warning is not None:
                logger.warning("listener %s: %s", self.config.name, warning)

    def is_bound_as(self, config: ListenerConfig) -> bool:
        """Whether nothing else is asked for that only a listener that is made anew can follow."""
        return _made_of(self.config) == _made_of(config)

    def check(self, config: ListenerConfig, users: Users) -> None:
        """Raise ConfigError where it could not follow."""
        if self._tls is not None:
            copy.copy(self._tls).reload(config.properties)
        _offer_of(config, users)

    def follow(self, config: ListenerConfig, users: Users) -> None:
        """Take over other properties, and files that are others now; what it cannot follow is logged and left."""
        try:
            offer = self.offer
            if (config.properties, users) != (self.config.properties, self._users):  # an offer costs 2 ms a user
                offer = _offer_of(config, users)
            if self._tls is not None:
                self._tls.reload(config.properties)
                self._warn_of_certificate()
        except ConfigError as error:
            logger.error("the listener %s goes on as it was: %s", config.name, error)  # noqa: TRY400 - one line says it
            return
        self.offer, self._users = offer, users
        self.config = attrs.evolve(config, host=self.config.host, port=self.config.port)

    def close(self) -> None:
        """Close the socket; what a server was given is closed already."""
        if self.listener.sock is not None:
            self.listener.sock.close()

    @property
    def address(self) -> tuple[str, int]:
        """Where it is bound to, by the host that was asked for."""
        return self.config.host, self.listener.port


class BrokerListeners:
    """See the rules of the room.

    Args:
        config: what the broker is started with.
        bind: binds their addresses.

    Raises:
        StartError: an address cannot be had, or what is set for a listener cannot be used.
    """

    def __init__(self, config: BrokerConfig, bind: Bind | None = None) -> None:
        self._bind = bind_listener if bind is None else bind
        self._served: dict[str, _Served] = {}
        self._users: Users = _nobody  # until the broker's records are read
        self._failed_logins: Refusals | None = None  # until there is a broker
        try:
            for listener in config.listener_configs:
                self.bind(listener, config)
        except BaseException:
            self.close()
            raise

    def __iter__(self) -> Iterator[Listener]:
        return iter([served.listener for served in self._served.values()])

    def close(self) -> None:
        for served in self._served.values():
            served.close()

    @property
    def addresses(self) -> Mapping[str, tuple[str, int]]:
        """Where each listens; what was port 0 is the port that it got."""
        return {name: served.address for name, served in self._served.items()}

    @property
    def first_address(self) -> str:
        """Where the first listens, as the ready line tells."""
        return _shown(next(iter(self.addresses.values())))

    @property
    def further_lines(self) -> list[str]:
        """A line for each of the others: the ready line has one address, and who asked for port 0 must learn it."""
        return [
            f"also listening on {_shown(served.address)} for {name} ({served.config.security_protocol})"
            for name, served in list(self._served.items())[1:]
        ]

    def advertised(self, config: BrokerConfig) -> dict[str, tuple[str, int] | None]:
        """What the clients of each listener are told; None where it is not advertised."""
        told: dict[str, tuple[str, int] | None] = {}
        for name, (host, port) in self.addresses.items():
            asked = self._served[name].config
            if config.advertised_listeners is None:
                told[name] = ADVERTISED_FOR_WILDCARD if host in WILDCARDS else host, port
            elif asked.advertised_host is None:
                told[name] = None
            else:
                told[name] = asked.advertised_host, asked.advertised_port or port
        return told

    def update(self, config: BrokerConfig) -> None:
        """Take over what has changed for the listeners that stay."""
        for listener in config.listener_configs:
            served = self._served.get(listener.name)
            if served is not None:
                served.follow(listener, self._users)

    def check(self, config: BrokerConfig, named: Collection[str]) -> None:
        """Refuse what a listener could not follow.

        Args:
            config: as it would be.
            named: the properties that a client sets or resets.

        Raises:
            ConfigError: keys, certificates, mechanisms or users cannot be used.
        """
        for listener in config.listener_configs:
            served = self._served.get(listener.name)
            try:
                if served is None:
                    _tls_of(listener)
                    _offer_of(listener, self._users)
                elif any(name.startswith(prefix_of(listener.name)) or is_of_listener(name) for name in named):
                    served.check(listener, self._users)
            except ConfigError as error:
                raise refusal(f"listener {listener.name}: {error}", str(error)) from None

    def surplus(self, config: BrokerConfig) -> list[str]:
        """The names of listeners that the configuration has no longer."""
        names = {listener.name for listener in config.listener_configs}
        return [name for name in self._served if name not in names]

    def missing(self, config: BrokerConfig) -> list[ListenerConfig]:
        """The listeners that the configuration has and nobody bound yet."""
        return [listener for listener in config.listener_configs if listener.name not in self._served]

    def follow_at_start(self, config: BrokerConfig, users: Users, failed_logins: Refusals | None = None) -> None:
        """What was changed while the broker ran the last time counts again, and its users are known.

        Args:
            config: that counts now.
            users: that have records.
            failed_logins: where they are counted, if anywhere.

        Raises:
            StartError: nothing is left to listen on.
        """
        self._users, self._failed_logins = users, failed_logins
        for name in self.surplus(config):
            self.forget(name)
        for listener in config.listener_configs:
            bound = self._served.get(listener.name)
            if bound is not None and not bound.is_bound_as(listener):
                self.forget(listener.name)
        self.update(config)
        for listener in self.missing(config):
            try:
                self.bind(listener, config)
            except StartError as error:  # it was set by a client, who could not take it back from a broker at rest
                logger.error("the listener %s is not served: %s", listener.name, error)  # noqa: TRY400 - one line says it
        if not self._served:
            raise StartError("no listener can be served: all were set by clients, and no address can be had")

    def bind(self, listener: ListenerConfig, config: BrokerConfig) -> Listener:
        """Bind another one.

        Raises:
            StartError: its address cannot be had, or what is set for it cannot be used.
        """
        try:
            served = self._served[listener.name] = _Served(
                listener, config, self._users, self._bind, self._login_failed
            )
        except ConfigError as error:
            raise StartError(f"listener {listener.name}: {error}") from None
        return served.listener

    def _login_failed(self, kind: Kind, source: tuple[str, ...], name: str, reason: str) -> None:
        if self._failed_logins is not None:
            self._failed_logins.add(kind, source, name, reason)

    def forget(self, name: str) -> None:
        """A listener is served no longer; its socket is closed."""
        self._served.pop(name).close()


def _made_of(config: ListenerConfig) -> tuple[object, ...]:
    return (
        config.security_protocol,
        config.is_control_plane,
        config.is_privileged,
        config.limit("num.network.threads"),
    )


def _shown(address: tuple[str, int]) -> str:
    host, port = address
    return f"{format_host(host or '0.0.0.0')}:{port}"  # noqa: S104 - what an empty host means


def _tls_of(listener: ListenerConfig) -> TlsContexts | None:
    if not listener.is_tls:
        return None
    from pipeline_broker.security.tls import TlsContexts  # noqa: PLC0415 - for TLS only

    return TlsContexts(listener.properties)


def _offer_of(listener: ListenerConfig, users: Users) -> SaslOffer | None:
    if not listener.is_sasl:
        return None
    from pipeline_broker.security.offer import read_offer  # noqa: PLC0415 - for SASL only

    return read_offer(listener.properties, users(), wall_clock_ms, prefix_of(listener.name))


def bind_listener(listener: ListenerConfig, config: BrokerConfig) -> Listener:
    """Bind the address of a listener, which is not served yet.

    Raises:
        StartError: the address cannot be had.
    """
    try:
        return open_listener(
            listener.name,
            listener.host,
            listener.port,
            backlog=config.socket_listen_backlog_size,
            send_buffer_bytes=config.socket_send_buffer_bytes,
            receive_buffer_bytes=config.socket_receive_buffer_bytes,
        )
    except OSError as error:
        address = f"{format_host(listener.host)}:{listener.port}"
        if listener.name == config.listener_of_options or "listeners" not in config.texts:
            is_of_host = isinstance(error, socket.gaierror) or error.errno == errno.EADDRNOTAVAIL
            remedy = "--host" if is_of_host else "--port"
        else:
            remedy = f"address for {listener.name} in listeners"
        refused = StartBlockedError if error.errno == errno.EADDRINUSE else StartError
        raise refused(f"cannot listen on {address}: {error.strerror or error}; choose another {remedy}") from None
