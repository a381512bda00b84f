"""The listeners of a running broker: bound, described to the server, advertised to clients.

Rules of this room: one owner of what is bound; a listener that stays keeps its socket, whatever address a change gives
it. A session begins here, with all that the connection itself proves. What a listener does not need is not imported.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import attrs

from pipeline_broker.config.listeners import ADVERTISED_FOR_WILDCARD, WILDCARDS, ListenerConfig, format_host
from pipeline_broker.serve_options import StartError
from stages.listener import Listener, open_listener

if TYPE_CHECKING:
    from pipeline_broker.config.settings import BrokerConfig

__all__ = ["BrokerListeners"]

logger = logging.getLogger(__name__)


class _Served:
    """One listener; `config` is replaced when its properties change, and counts from the next connection on."""

    def __init__(self, config: ListenerConfig, all_of: BrokerConfig) -> None:
        self.config = config
        self.listener = _bind(config, all_of)

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

    Raises:
        StartError: an address cannot be had.
    """

    def __init__(self, config: BrokerConfig) -> None:
        self._served: dict[str, _Served] = {}
        try:
            for listener in config.listener_configs:
                self._served[listener.name] = _Served(listener, config)
        except BaseException:
            self.close()
            raise

    def __iter__(self) -> Iterator[Listener]:
        return iter([served.listener for served in self._served.values()])

    def close(self) -> None:
        """Close all of them."""
        for served in self._served.values():
            served.close()

    @property
    def addresses(self) -> Mapping[str, tuple[str, int]]:
        """Where each listens; what was port 0 is the port that it got."""
        return {name: served.address for name, served in self._served.items()}

    @property
    def first_address(self) -> str:
        """Where the first listens, as the ready line tells."""
        host, port = next(iter(self.addresses.values()))
        return f"{format_host(host or '0.0.0.0')}:{port}"  # noqa: S104 - what an empty host means

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
                served.config = attrs.evolve(listener, host=served.config.host, port=served.config.port)

    def surplus(self, config: BrokerConfig) -> list[str]:
        """The names of listeners that the configuration has no longer."""
        names = {listener.name for listener in config.listener_configs}
        return [name for name in self._served if name not in names]

    def missing(self, config: BrokerConfig) -> list[ListenerConfig]:
        """The listeners that the configuration has and nobody bound yet."""
        return [listener for listener in config.listener_configs if listener.name not in self._served]

    def follow_at_start(self, config: BrokerConfig) -> None:
        """What was changed while the broker ran the last time counts again.

        Raises:
            StartError: nothing is left to listen on.
        """
        for name in self.surplus(config):
            self.forget(name)
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
            StartError: its address cannot be had.
        """
        served = self._served[listener.name] = _Served(listener, config)
        return served.listener

    def forget(self, name: str) -> None:
        """A listener is served no longer; its socket is closed."""
        self._served.pop(name).close()


def _bind(listener: ListenerConfig, config: BrokerConfig) -> Listener:
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
        raise StartError(f"cannot listen on {address}: {error.strerror or error}; choose another --port") from None
