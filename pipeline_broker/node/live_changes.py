"""What changes while the broker runs: one task follows the configuration, in the order of its changes.

Rules of this room: what can be changed at once is changed before the client is answered; what takes time (processors
and listeners end by draining) is done by the one task, and of changes that come meanwhile only the last counts. What
cannot be done, such as binding a port that is taken, is logged and leaves the broker as it is. Files and keys are
opened in threads.
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
from pipeline_broker.node.options import QUEUES, StartError, limits_of, mode_of
from stages.connection_quotas import UNLIMITED
from stages.mode import Mode
from stages.socket_server import ServerNotRunningError, SocketServer

__all__ = ["LiveChanges", "reconfigure"]

logger = logging.getLogger(__name__)


def reconfigure(server: SocketServer, config: BrokerConfig) -> None:
    """Let a running server follow what can be changed at once."""
    limits, current = limits_of(config), server.quotas.limits
    quotas = attrs.evolve(  # the rates of addresses are no settings: who keeps client quotas sets them
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
    """See the rules of the room.

    Args:
        mode: of the server.
        listeners: of the server; None where it has none that are bound.
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
        """From now on the server follows the configuration of the broker."""
        self._connected = broker, server
        self._wanted = self._applied = broker.config
        server.handlers.resize_blocking_works(broker.config.background_threads)
        self._advertise(broker.config)
        self.follow_ip_rates()

    def advertised(self, listener: str) -> tuple[str, int] | None:
        return self._advertised.get(listener)

    def check(self, config: BrokerConfig, named: Collection[str]) -> Load | None:
        """Refuse what the server cannot become: handlers keep the one queue that they share, or those of their own."""
        queues = config.changed.get(QUEUES)
        if QUEUES in named and queues is not None and (int(queues) == 0) != self._mode.is_shared_queue:
            raise ConfigError(
                f"{QUEUES}: one queue that all handlers share (0) and queues of their own cannot replace each other"
                " while the broker runs"
            )
        return None if self._listeners is None else self._listeners.check(config, named)

    def follow(self, config: BrokerConfig) -> None:
        """The configuration has become another one."""
        assert self._connected is not None, "it changes while the broker serves"
        reconfigure(self._connected[1], config)
        if self._listeners is not None:
            self._listeners.update(config)
        self._advertise(config)
        self._wanted = config
        self._changed.unpark_all()

    def follow_ip_rates(self) -> None:
        """The quotas on new connections of addresses are others; before there is a server `connect` looks at them."""
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
        """Follow until cancelled, or until the server ends."""
        with contextlib.suppress(ServerNotRunningError):
            while True:
                while self._wanted is self._applied:
                    await self._changed.park()
                config = self._wanted
                assert config is not None, "it is connected before it runs"
                await self._apply(config)
                self._applied = config

    async def _apply(self, config: BrokerConfig) -> None:
        assert self._connected is not None, "it is connected before it runs"
        _, server = self._connected
        if self._listeners is None:
            return
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
            if listener.name in failed:
                continue
            try:
                await server.add_listener(self._listeners.bind(listener, config))
            except StartError as error:
                logger.error("the listener %s is not served: %s", listener.name, error)  # noqa: TRY400 - one line says it
        self._advertise(config)
