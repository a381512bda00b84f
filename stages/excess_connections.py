"""A task that closes connections above the server's maximum.

Only a protected listener or a lowered limit can bring the server above its maximum.
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
"""Connections closed in one turn of the event loop."""
RETRY_SECONDS = 1.0
"""Time until the next check if nothing could be closed, since some connections are on their way to a processor."""


def _priority(connection: Connection) -> tuple[bool, float]:
    """Return a sort key that is lowest for closing connections, then for the least recently active ones."""
    return MuteReason.DRAINING not in connection.mute, connection.last_active


async def close_excess(
    quotas: ConnectionQuotas, listeners: Callable[[], Iterable[ServedListener]], exceeded: trio.lowlevel.ParkingLot
) -> None:
    """Close excess connections until cancelled, but never those of the protected listener.

    Args:
        exceeded: woken when the maximum is exceeded.
    """
    while True:
        excess = min(quotas.excess, CLOSED_MAX)
        victims: list[Connection] = []
        if excess:
            candidates = (
                connection
                for served in listeners()
                # The quotas count accepted connections only, so closing others would not help.
                if served.acceptor is not None and not quotas.is_protected(served.name)
                for connection in served.connections
            )
            victims = heapq.nsmallest(excess, candidates, key=_priority)
        for connection in victims:
            connection.close()
        if victims:
            await trio.lowlevel.checkpoint()
        else:
            with trio.move_on_after(RETRY_SECONDS) if excess else trio.CancelScope():
                await exceeded.park()
