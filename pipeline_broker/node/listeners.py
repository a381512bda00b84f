"""The listeners of a broker: sockets, TLS and SASL settings, advertised addresses, and their dynamic changes.

Counterpart in Kafka: `SocketServer`.
"""

from __future__ import annotations

import errno
import functools
import logging
import socket
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, TypeAlias

import attrs

from pipeline_broker.apis.call import Session
from pipeline_broker.config.listeners import (
    ADVERTISED_FOR_WILDCARD,
    WILDCARDS,
    ListenerConfig,
    format_host,
    is_of_listener,
    prefix_of,
)
from pipeline_broker.config.properties import ConfigError, refusal
from pipeline_broker.node.errors import StartBlockedError, StartError
from pipeline_broker.node.file_renewal import log_warning
from pipeline_broker.node.loaded_listener import Loaded, is_secured, load
from stages.listener import Listener, open_listener
from stages.transport_layer import HandshakeError

if TYPE_CHECKING:
    import ssl

    from pipeline_broker.broker.ports import Load
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

# The mechanism of a login that failed in the TLS handshake.
TLS = "TLS"

# Returns the SCRAM users of the broker's records. Called only for listeners with SASL, since it imports SCRAM.
Users: TypeAlias = "Callable[[], ScramUsers]"
Bind: TypeAlias = "Callable[[ListenerConfig, BrokerConfig], Listener]"
"""Binds the address of a listener, like `bind_listener`."""
# Records a failed login, like `Refusals.add`.
LoginFailed: TypeAlias = "Callable[[Kind, tuple[str, ...], str, str], None]"


@functools.cache
def _no_users() -> ScramUsers:
    from pipeline_broker.security.scram_users import ScramUsers  # noqa: PLC0415 - for SASL only

    return ScramUsers()


class _Served:
    """One bound listener. Changes apply to new connections, and to clients that authenticate again.

    Raises:
        StartError: the address is not available.
    """

    def __init__(
        self, config: ListenerConfig, all_of: BrokerConfig, loaded: Loaded, bind: Bind, login_failed: LoginFailed
    ) -> None:
        self.config = config
        self._login_failed = login_failed
        self.loaded = loaded
        self._warn_of_certificate()
        self.listener = attrs.evolve(
            bind(config, all_of),
            tls=None if loaded.tls is None else self._context,
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
        if self.loaded.offer is not None:
            from pipeline_broker.apis.security.authentication import SaslAuthenticator  # noqa: PLC0415 - for SASL only

            def failed(name: str, mechanism: str, reason: str) -> None:
                self._login_failed((config.name, mechanism), (session.host,), name, reason)

            # The offer is read for each login, so that a change applies to clients that authenticate again.
            return SaslAuthenticator(session, self._current_offer, failed=failed)
        if self.loaded.tls is not None:
            principal = self.loaded.tls.principal(transport.peer_certificate)
            if principal is None:
                raise HandshakeError("no mapping rule applies to the client's certificate")
            session.principal = principal
        return None

    def _handshake_failed(self, peer: str, reason: str) -> None:
        self._login_failed((self.config.name, TLS), (peer,), "", reason)

    def _current_offer(self) -> SaslOffer:
        assert self.loaded.offer is not None, "the security protocol of a listener never changes"
        return self.loaded.offer

    def _context(self) -> ssl.SSLContext:
        assert self.loaded.tls is not None, "the security protocol of a listener never changes"
        return self.loaded.tls.context()

    def _warn_of_certificate(self) -> None:
        if self.loaded.tls is not None:
            log_warning(self.endpoint, self.loaded.tls)

    @property
    def endpoint(self) -> str:
        return f"listener {self.config.name}"

    def is_bound_as(self, config: ListenerConfig) -> bool:
        """Return whether `adopt` suffices for a configuration. Some properties need a new listener."""
        return _fixed_properties(self.config) == _fixed_properties(config)

    def adopt(self, config: ListenerConfig, loaded: Loaded) -> None:
        is_renewed = loaded.tls is not self.loaded.tls
        self.loaded = loaded
        # The listener keeps its socket. A changed address applies after the next startup.
        self.config = attrs.evolve(config, host=self.config.host, port=self.config.port)
        if is_renewed:
            self._warn_of_certificate()

    def close(self) -> None:
        if self.listener.sock is not None:  # harmless for a listener that a server has closed
            self.listener.sock.close()

    @property
    def address(self) -> tuple[str, int]:
        return self.config.host, self.listener.port


class BrokerListeners:
    """All listeners of a broker.

    Args:
        config: configuration at startup.
        bind: binds an address; `bind_listener` by default.

    Raises:
        StartError: an address is not available, or the settings of a listener cannot be used.
    """

    def __init__(self, config: BrokerConfig, bind: Bind | None = None) -> None:
        self._bind = bind_listener if bind is None else bind
        self._served: dict[str, _Served] = {}
        self._loaded: dict[str, Loaded] = {}  # by listener, until it is adopted
        self._users: Users = _no_users  # until the broker's records are read
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
        return {name: served.address for name, served in self._served.items()}

    @property
    def tls_contexts(self) -> dict[str, TlsContexts]:
        return {each.endpoint: each.loaded.tls for each in self._served.values() if each.loaded.tls is not None}

    @property
    def first_address(self) -> str:
        return _address_text(next(iter(self.addresses.values())))

    @property
    def further_lines(self) -> list[str]:
        """One line for each listener after the first, so that users learn the port that replaced port 0."""
        return [
            f"also listening on {_address_text(served.address)} for {name} ({served.config.security_protocol})"
            for name, served in list(self._served.items())[1:]
        ]

    def advertised(self, config: BrokerConfig) -> dict[str, tuple[str, int] | None]:
        """Return the host and port that clients of each listener connect to; None for one that is not advertised."""
        found: dict[str, tuple[str, int] | None] = {}
        for name, (host, port) in self.addresses.items():
            listener = self._served[name].config
            if config.advertised_listeners is None:
                found[name] = ADVERTISED_FOR_WILDCARD if host in WILDCARDS else host, port
            elif listener.advertised_host is None:
                found[name] = None
            else:
                found[name] = listener.advertised_host, listener.advertised_port or port
        return found

    def update(self, config: BrokerConfig) -> None:
        """Apply a configuration to existing listeners.

        A listener keeps its settings until `load` has loaded the keys and users for the new ones.
        """
        for listener in config.listener_configs:
            served, loaded = self._served.get(listener.name), self._loaded.get(listener.name)
            if served is None:
                continue
            users = self._users_of(listener)
            if not is_secured(listener):
                served.adopt(listener, Loaded(listener.properties, None, None, None))
            elif loaded is not None and loaded.is_for(listener, users):
                served.adopt(listener, self._loaded.pop(listener.name))
            elif served.loaded.is_for(listener, users):
                served.adopt(listener, served.loaded)

    def check(self, config: BrokerConfig, named: Collection[str]) -> Load | None:
        """Return a function that loads the keys and users for a configuration; None if nothing must be loaded.

        Args:
            config: configuration after the change.
            named: properties that the client sets or resets. Files that they name are read again.

        Returns:
            a `Load` of `broker.ports`, which raises ConfigError if the keys or users cannot be used.
        """
        concerned = [
            listener
            for listener in config.listener_configs
            if is_secured(listener)
            and (
                listener.name not in self._served
                or any(name.startswith(prefix_of(listener.name)) or is_of_listener(name) for name in named)
            )
        ]
        if not concerned:
            return None
        # On the event loop, since the first access makes the users, and `load` runs in a thread.
        users = {listener.name: self._users_of(listener) for listener in concerned}

        def load() -> Callable[[], None]:
            loaded: dict[str, Loaded] = {}
            for listener in concerned:
                try:
                    loaded[listener.name] = self._load(listener, users[listener.name])
                except ConfigError as error:
                    raise refusal(f"listener {listener.name}: {error}", str(error)) from None
            return functools.partial(self._loaded.update, loaded)

        return load

    def unloaded(self, config: BrokerConfig) -> list[ListenerConfig]:
        """Return the listeners for which `load` must run before `update` can apply a configuration."""
        wanted = []
        for listener in filter(is_secured, config.listener_configs):
            served, users = self._served.get(listener.name), self._users_of(listener)
            known = [self._loaded.get(listener.name), None if served is None else served.loaded]
            if not any(each is not None and each.is_for(listener, users) for each in known):
                wanted.append(listener)
        return wanted

    def load(self, listeners: Iterable[ListenerConfig]) -> set[str]:
        """Load the keys and users of listeners, for the next `update` or `bind`. Log errors.

        Returns:
            the names of the listeners that failed.
        """
        failed = set()
        for listener in listeners:
            try:
                self._loaded[listener.name] = self._load(listener, self._users_of(listener))
            except ConfigError as error:
                failed.add(listener.name)
                state = "continues with its previous settings" if listener.name in self._served else "is not served"
                logger.error("the listener %s %s: %s", listener.name, state, error)  # noqa: TRY400 - one line says it
        return failed

    def _load(self, listener: ListenerConfig, users: ScramUsers | None) -> Loaded:
        served = self._served.get(listener.name)
        return load(listener, users, None if served is None else served.loaded)

    def _users_of(self, listener: ListenerConfig) -> ScramUsers | None:
        return self._users() if listener.is_sasl else None

    def surplus(self, config: BrokerConfig) -> list[str]:
        names = {listener.name for listener in config.listener_configs}
        return [name for name in self._served if name not in names]

    def missing(self, config: BrokerConfig) -> list[ListenerConfig]:
        return [listener for listener in config.listener_configs if listener.name not in self._served]

    def follow_at_start(self, config: BrokerConfig, users: Users, failed_logins: Refusals | None = None) -> None:
        """Apply the dynamic settings of earlier runs, and connect the listeners to the state of the recovered broker.

        Args:
            config: effective configuration.
            users: returns the users with SCRAM credentials.
            failed_logins: counts failed logins.

        Raises:
            StartError: no listener can be served.
        """
        self._users, self._failed_logins = users, failed_logins
        if failed_logins is not None:
            for each in filter(lambda listener: listener.is_sasl, config.listener_configs):
                failed_logins.expect((each.name, mechanism) for mechanism in each.mechanisms)
        for name in self.surplus(config):
            self.forget(name)
        for listener in config.listener_configs:
            bound = self._served.get(listener.name)
            # It was bound with the settings of the startup, and stored ones need another listener on the same address.
            if bound is not None and not bound.is_bound_as(listener):
                self.forget(listener.name)
        self.load([listener for listener in self.unloaded(config) if listener.name in self._served])
        self.update(config)
        for listener in self.missing(config):
            self.bind_or_log(listener, config)
        if not self._served:
            raise StartError(
                "no listener can be served: clients changed all of them at run time, and each failed for a reason in"
                " the log. Free its port or correct its settings, and start again"
            )

    def bind_or_log(self, listener: ListenerConfig, config: BrokerConfig) -> Listener | None:
        try:
            return self.bind(listener, config)
        except StartError as error:  # not fatal: a client set it, and only a running broker lets it reset it
            logger.error("the listener %s is not served: %s", listener.name, error)  # noqa: TRY400 - one line says it
            return None

    def bind(self, listener: ListenerConfig, config: BrokerConfig) -> Listener:
        """Bind a further listener.

        Raises:
            StartError: the address is not available, or the settings cannot be used.
        """
        users, loaded = self._users_of(listener), self._loaded.pop(listener.name, None)
        try:
            if loaded is None or not loaded.is_for(listener, users):
                loaded = self._load(listener, users)
        except ConfigError as error:
            raise StartError(f"listener {listener.name}: {error}") from None
        served = self._served[listener.name] = _Served(listener, config, loaded, self._bind, self._login_failed)
        return served.listener

    def _login_failed(self, kind: Kind, source: tuple[str, ...], name: str, reason: str) -> None:
        if self._failed_logins is not None:
            self._failed_logins.add(kind, source, name, reason)

    def forget(self, name: str) -> None:
        self._served.pop(name).close()


def _fixed_properties(config: ListenerConfig) -> tuple[object, ...]:
    # A change of these needs a new listener; see `_Served.is_bound_as`.
    return (
        config.security_protocol,
        config.is_control_plane,
        config.is_privileged,
        config.limit("num.network.threads"),
    )


def _address_text(address: tuple[str, int]) -> str:
    host, port = address
    return f"{format_host(host or '0.0.0.0')}:{port}"  # noqa: S104 - an empty host means all addresses


def bind_listener(listener: ListenerConfig, config: BrokerConfig) -> Listener:
    """Bind the address of a listener. It is not served yet.

    Raises:
        StartBlockedError: the address is in use.
        StartError: the address cannot be bound for another reason.
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
        # The error names the option or property that the address comes from.
        address = f"{format_host(listener.host)}:{listener.port}"
        if listener.name == config.listener_of_options or "listeners" not in config.texts:
            is_of_host = isinstance(error, socket.gaierror) or error.errno == errno.EADDRNOTAVAIL
            remedy = "--host" if is_of_host else "--port"
        else:
            remedy = f"address for {listener.name} in listeners"
        # The owner of the journal may still use the port: a standby tries again.
        refused = StartBlockedError if error.errno == errno.EADDRINUSE else StartError
        raise refused(f"cannot listen on {address}: {error.strerror or error}; choose another {remedy}") from None
