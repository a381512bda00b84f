"""Back to the maximum of connections, from which the protected listener or a lowered limit led away.

Rules of this room: what the protected listener serves is never closed for it; of all others, those that end anyway go
first, then the least recently active, and no more than must be.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable

import trio

from stages.connection import Connection
from stages.connection_quotas import ConnectionQuotas
from stages.mute import MuteReason
from stages.served_listener import ServedListener

__all__ = ["close_excess"]

CLOSED_MAX = 64
"""Connections that are closed before others get their turn."""
AGAIN_SECONDS = 1.0
"""When it looks again where nothing could be closed: some connections are on their way to a processor."""


def _priority(connection: Connection) -> tuple[bool, float]:
    """The lower, the sooner it is closed."""
    return MuteReason.DRAINING not in connection.mute, connection.last_active


async def close_excess(
    quotas: ConnectionQuotas, listeners: Callable[[], Iterable[ServedListener]], exceeded: trio.lowlevel.ParkingLot
) -> None:
    """Watch the quotas until cancelled; `exceeded` is woken when they are."""
    while True:
        excess = min(quotas.excess, CLOSED_MAX)
        victims: list[Connection] = []
        if excess:
            candidates = (
                connection
                for served in listeners()
                if served.acceptor is not None and not quotas.is_protected(served.name)
                for connection in served.connections
            )
            victims = heapq.nsmallest(excess, candidates, key=_priority)
        for connection in victims:
            connection.close()
        if victims:
            await trio.lowlevel.checkpoint()
        else:
            with trio.move_on_after(AGAIN_SECONDS) if excess else trio.CancelScope():
                await exceeded.park()
