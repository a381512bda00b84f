"""The ports of an embedded broker, which stay its own while it begins anew.

Rules of this file: a listener is bound once; who serves it gets a duplicate of the socket, and closes that. Between one
and the next, clients that connect wait in the queue of the system.
"""

from __future__ import annotations

import attrs

from pipeline_broker.config.broker_config import BrokerConfig
from pipeline_broker.config.listeners import ListenerConfig
from pipeline_broker.node.listeners import bind_listener
from stages.listener import Listener

__all__ = ["KeptPorts"]


class KeptPorts:
    """See the rules."""

    def __init__(self) -> None:
        self._listeners: dict[tuple[str, str], Listener] = {}

    def bind(self, listener: ListenerConfig, config: BrokerConfig) -> Listener:
        """The listener on its port; raises StartError where the address cannot be had."""
        place = (listener.name, listener.host)
        kept = self._listeners.get(place)
        if kept is None or listener.port not in (0, kept.port):
            self._close(place)
            kept = self._listeners[place] = bind_listener(listener, config)
        assert kept.sock is not None, "a listener of a configuration has a socket"
        return attrs.evolve(kept, sock=kept.sock.dup())

    def close(self) -> None:
        """Give all of them up."""
        for place in tuple(self._listeners):
            self._close(place)

    def _close(self, place: tuple[str, str]) -> None:
        kept = self._listeners.pop(place, None)
        if kept is not None and kept.sock is not None:
            kept.sock.close()
