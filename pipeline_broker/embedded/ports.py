"""The listening sockets of an embedded broker, which outlive its runs."""

from __future__ import annotations

import contextlib

import attrs

from pipeline_broker.config.broker_config import BrokerConfig
from pipeline_broker.config.listeners import ListenerConfig
from pipeline_broker.node.errors import StartError
from pipeline_broker.node.listeners import bind_listener
from stages.listener import Listener

__all__ = ["KeptPorts"]


class KeptPorts:
    """Listening sockets that stay bound between runs of a broker.

    Each run receives a duplicate of the socket and closes it. Between two runs, connecting clients wait in the backlog
    of the system. A listener that is bound again after `close` gets the same port, unless another process took it.
    """

    def __init__(self) -> None:
        self._listeners: dict[tuple[str, str], Listener] = {}
        self._closed: dict[tuple[str, str], int] = {}

    def bind(self, listener: ListenerConfig, config: BrokerConfig) -> Listener:
        """Return a listener with a duplicate of its socket.

        Raises:
            StartError: the address cannot be bound.
        """
        place = (listener.name, listener.host)
        kept = self._listeners.get(place)
        if kept is None or listener.port not in (0, kept.port):
            self._close(place)
            kept = self._listeners[place] = self._bound(listener, config, self._closed.pop(place, 0))
        assert kept.sock is not None, "a listener of a configuration has a socket"
        return attrs.evolve(kept, sock=kept.sock.dup())

    @staticmethod
    def _bound(listener: ListenerConfig, config: BrokerConfig, port: int) -> Listener:
        if listener.port == 0 and port != 0:
            with contextlib.suppress(StartError):
                return bind_listener(attrs.evolve(listener, port=port), config)
        return bind_listener(listener, config)

    def close(self) -> None:
        for place in tuple(self._listeners):
            self._closed[place] = self._listeners[place].port
            self._close(place)

    def _close(self, place: tuple[str, str]) -> None:
        kept = self._listeners.pop(place, None)
        if kept is not None and kept.sock is not None:
            kept.sock.close()
