"""What a connection asks of the processor it lives in, and what it shows of itself.

Rules of this room: types only. A connection calls its owner; the owner never reaches into a connection but through its
public methods.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

import attrs

if TYPE_CHECKING:
    from stages.connection import Connection
    from stages.connection_limits import ConnectionLimits
    from stages.network_counters import NetworkCounters
    from stages.partial_frames import PartialFrameBudget
    from stages.request import Parked, Pending, Request, Result, Unfinished
    from stages.request_channel import RequestChannel, RequestQueue
    from stages.response_order import ResponseOrder
    from stages.timeline import Timeline
    from stages.unsent_responses import ResponseBudget

__all__ = ["ConnectionOwner", "ConnectionStatistics"]


@attrs.frozen
class ConnectionStatistics:
    """One connection as it stands; see Connection."""

    id: str
    in_flight: int
    received: int
    released: int
    unsent_bytes: int
    mute_reasons: tuple[str, ...]


class ConnectionOwner(Protocol):
    """What a connection needs from the processor it lives in."""

    channel: RequestChannel
    limits: ConnectionLimits
    counters: NetworkCounters
    response_budget: ResponseBudget
    partial_frames: PartialFrameBudget
    timeline: Timeline | None

    def mark(self, connection: Connection) -> None:
        """Have `connection.flush` called soon."""

    def settle(self, request: Request, result: Pending | Parked | Unfinished) -> None:
        """Carry out a result that does not end its slot yet."""

    def call_back(self, queue: RequestQueue, request: Request, callback: Callable[[], Result]) -> None:
        """Have a callback run by a handler of the queue."""

    def new_response_order(self) -> ResponseOrder[Request]:
        """An empty response order."""

    def throttled(self, connection: Connection, until: float) -> None:
        """Have `connection.muting.end_throttle` called at a time of Trio's clock."""

    def closed(self, connection: Connection) -> None:
        """The connection is closed."""
