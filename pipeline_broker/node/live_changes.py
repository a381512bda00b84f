"""Dynamic configuration changes of a running server: limits, handlers, processors and listeners.

Counterpart in Kafka: `DynamicBrokerConfig`.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Collection, Mapping

import attrs
import trio

from pipeline_broker.broker.broker import Broker
from pipeline_broker.broker.ports import Load
from pipeline_broker.config.broker_config import BrokerConfig
from pipeline_broker.config.properties import ConfigError
from pipeline_broker.node.listeners import BrokerListeners
from pipeline_broker.node.options import QUEUES, limits_of, mode_of
from stages.connection_quotas import UNLIMITED
from stages.mode import Mode
from stages.socket_server import ServerNotRunningError, SocketServer

__all__ = ["LiveChanges", "reconfigure"]

logger = logging.getLogger(__name__)


def reconfigure(server: SocketServer, config: BrokerConfig) -> None:
    """Apply the part of a configuration that takes effect at once: limits and numbers of handlers."""
    limits, current = limits_of(config), server.quotas.limits
    # Connection rates per address are client quotas, not settings; `follow_ip_rates` sets them.
    quotas = attrs.evolve(
        limits.quotas,
        creation_rate_max_per_ip=current.creation_rate_max_per_ip,
        creation_rate_max_by_ip=current.creation_rate_max_by_ip,
    )
    server.set_limits(attrs.evolve(limits, quotas=quotas))
    server.handlers.resize_blocking_works(config.background_threads)
    server.resize_handlers(
        config.num_io_threads if server.mode.is_shared_queue else mode_of(server.mode.name, config).queues
    )


class LiveChanges:
    """The application of configuration changes to a running server.

    `follow` applies most settings at once, before the client gets its answer. One task, `run`, applies slow changes:
    processors and listeners drain before they end. Of several changes in the meantime it applies the latest. A change
    that is not possible, such as binding a port in use, is logged and leaves the server as it is.

    Args:
        listeners: listeners of the server; None if none are bound.
    """

    def __init__(self, mode: Mode, listeners: BrokerListeners | None) -> None:
        self._mode = mode
        self._listeners = listeners
        self._advertised: Mapping[str, tuple[str, int] | None] = {}
        self._connected: tuple[Broker, SocketServer] | None = None
        self._wanted: BrokerConfig | None = None
        self._applied: BrokerConfig | None = None
        self._changed = trio.lowlevel.ParkingLot()

    def connect(self, broker: Broker, server: SocketServer) -> None:
        self._connected = broker, server
        self._wanted = self._applied = broker.config
        server.handlers.resize_blocking_works(broker.config.background_threads)
        self._advertise(broker.config)
        self.follow_ip_rates()

    def advertised(self, listener: str) -> tuple[str, int] | None:
        return self._advertised.get(listener)

    def check(self, config: BrokerConfig, named: Collection[str]) -> Load | None:
        """Check that the server can apply a configuration; see `Ports.check_config`.

        Raises:
            ConfigError: handlers cannot change between one shared queue and queues of their own.

        Returns:
            a function that loads keys and users for the configuration; None if nothing must be loaded.
        """
        queues = config.changed.get(QUEUES)
        if QUEUES in named and queues is not None and (int(queues) == 0) != self._mode.is_shared_queue:
            raise ConfigError(
                f"{QUEUES}: a running broker cannot change between one shared queue (0) and one queue per handler."
                " Restart it with the new value"
            )
        return None if self._listeners is None else self._listeners.check(config, named)

    def follow(self, config: BrokerConfig) -> None:
        """Apply a changed configuration: most settings now, processors and listeners by `run`."""
        assert self._connected is not None, "settings change only after `connect`"
        reconfigure(self._connected[1], config)
        if self._listeners is not None:
            self._listeners.update(config)
        self._advertise(config)
        self._wanted = config
        self._changed.unpark_all()

    def follow_ip_rates(self) -> None:
        """Apply changed connection rates of addresses; `connect` applies those set before."""
        if self._connected is None:
            return
        broker, server = self._connected
        server.quotas.limits = attrs.evolve(
            server.quotas.limits,
            creation_rate_max_per_ip=UNLIMITED
            if broker.quotas.ip_rate_default is None
            else broker.quotas.ip_rate_default,
            creation_rate_max_by_ip=broker.quotas.ip_rates,
        )

    def _advertise(self, config: BrokerConfig) -> None:
        if self._listeners is not None:
            self._advertised = self._listeners.advertised(config)

    async def run(self) -> None:
        """Apply changes of processors and listeners, which take several turns, until cancelled or the server ends."""
        with contextlib.suppress(ServerNotRunningError):
            while True:
                while self._wanted is self._applied:
                    await self._changed.park()
                config = self._wanted
                assert config is not None, "`connect` comes before `run`"
                await self._apply(config)
                # Not `self._wanted`: it may have changed while this one was applied.
                self._applied = config

    async def _apply(self, config: BrokerConfig) -> None:
        assert self._connected is not None, "`connect` comes before `run`"
        _, server = self._connected
        if self._listeners is None:
            return
        # Removed listeners first: a new one may use their ports.
        for name in self._listeners.surplus(config):
            await server.remove_listener(name)
            self._listeners.forget(name)
        failed: set[str] = set()
        if unloaded := self._listeners.unloaded(config):
            failed = await trio.to_thread.run_sync(self._listeners.load, unloaded)
            self._listeners.update(config)
        await server.resize_processors(config.num_network_threads)
        for listener in config.listener_configs:
            if listener.name in self._listeners.addresses and not listener.is_control_plane:
                count = listener.limit("num.network.threads") or config.num_network_threads
                await server.resize_processors(count, listener.name)
        for listener in self._listeners.missing(config):
            # A new listener without its keys must not be served; `load` has logged the error.
            if listener.name in failed:
                continue
            bound = self._listeners.bind_or_log(listener, config)
            if bound is not None:
                await server.add_listener(bound)
        self._advertise(config)
