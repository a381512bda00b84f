"""Unsent responses: bounds for each connection and for all of them together.

Without these bounds a client that reads nothing would get one response of any size for each request in flight. With
them, memory stays below the common bound and one response.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final, NamedTuple, Protocol

from stages.request import Request

__all__ = ["UNSENT_BYTES_MAX", "BlockedConnection", "ResponseBudget", "UnsentResponseStatistics", "UnsentResponses"]

UNSENT_BYTES_MAX: Final = 256 * 1024 * 1024
"""Default bound of the unsent bytes of all connections."""


class UnsentResponseStatistics(NamedTuple):
    """Statistics of the budget.

    Attributes:
        bytes_held: unsent bytes of all connections.
        bytes_max: the bound.
        closed: connections closed to stay within it.
    """

    bytes_held: int = 0
    bytes_max: int = 0
    closed: int = 0


class BlockedConnection(Protocol):
    def close(self) -> None:
        """Close now, which gives the bytes of the connection back to the budget."""


class ResponseBudget:
    """The bound of the unsent bytes of all connections.

    A connection without unsent bytes may always exceed the bound, so slow readers do not stop the others. `keep_bound`
    then closes the connections whose clients have read nothing for longest.

    Attributes:
        bytes_max: the bound; may be changed at any time.
        bytes_held: unsent bytes of all connections.
    """

    __slots__ = ("_blocked", "_closed", "bytes_held", "bytes_max")

    def __init__(self, bytes_max: int = UNSENT_BYTES_MAX) -> None:
        self.bytes_max = bytes_max
        self.bytes_held = self._closed = 0
        self._blocked: dict[BlockedConnection, None] = {}  # ordered by the time of the last read

    def begin_blocked(self, connection: BlockedConnection) -> None:
        """Record a connection whose client takes no more bytes; call this again after each partial read."""
        self._blocked.pop(connection, None)
        self._blocked[connection] = None

    def end_blocked(self, connection: BlockedConnection) -> None:
        """Forget a connection whose client has read everything, or that is closed."""
        self._blocked.pop(connection, None)

    def keep_bound(self) -> int:
        """Close blocked connections until the bound is kept, and return their number.

        The last one stays, since a single response may exceed the bound.
        """
        before = self._closed
        while self.bytes_held > self.bytes_max and len(self._blocked) > 1:
            connection = next(iter(self._blocked))
            del self._blocked[connection]
            self._closed += 1
            connection.close()
        return self._closed - before

    def statistics(self) -> UnsentResponseStatistics:
        return UnsentResponseStatistics(self.bytes_held, self.bytes_max, self._closed)

    @property
    def room_bytes(self) -> int:
        return max(self.bytes_max - self.bytes_held, 0)


class UnsentResponses:
    """The unsent responses of one connection, and its deferred requests.

    The bytes of a response count from the completion of its request until the transport takes them. They also count
    while the response waits for an earlier one. A parked request counts if the size of its response is known. Small
    responses may be counted once for each flush.

    A connection is full at its own bound, or if it has any unsent bytes while all connections together are at theirs. A
    full connection is not read, and its requests are deferred. The same queue holds requests deferred for an unfinished
    one, so that they start in their order.

    Args:
        budget: bound of all connections.

    Attributes:
        size_bytes: unsent bytes.
        is_full: whether the connection is full; stays True until the deferred requests have started.
        unfinished: the `abandon` callbacks of the connection's unfinished requests.
        must_wait: whether new requests must be deferred: the connection is full, or has an unfinished request.
        is_scheduled: whether a handler is scheduled to start the first deferred request.
    """

    __slots__ = (
        "_budget",
        "_is_abandoned",
        "_waiting",
        "is_full",
        "is_scheduled",
        "must_wait",
        "size_bytes",
        "unfinished",
    )

    def __init__(self, budget: ResponseBudget) -> None:
        self.size_bytes = 0
        self.unfinished: dict[Callable[[], None], None] = {}
        self.is_full = self.must_wait = False
        self.is_scheduled = self._is_abandoned = False
        self._budget = budget
        self._waiting: deque[Request] = deque()

    def update(self, size_bytes: int, bytes_max: int) -> bool:
        """Set the unsent bytes; return True if they grew and reach `bytes_max` or the common bound.

        The connection is then full.
        """
        budget = self._budget
        added = size_bytes - self.size_bytes
        self.size_bytes = size_bytes
        budget.bytes_held += added
        # Only an increase fills a connection: one that shrinks is leaving this state.
        if added <= 0 or (size_bytes < bytes_max and budget.bytes_held < budget.bytes_max):
            return False
        self.is_full = self.must_wait = True
        return True

    def emptied(self) -> None:
        """Record that all deferred requests have started, so the connection is not full."""
        self.is_full = False
        self.must_wait = bool(self.unfinished)

    def begin_work(self, abandon: Callable[[], None]) -> None:
        """Defer all requests until `end_work`, because a request takes several turns."""
        self.must_wait = True
        # After `abandon` no callback would be called any more.
        if not self._is_abandoned:
            self.unfinished[abandon] = None

    def end_work(self, abandon: Callable[[], None]) -> None:
        """Record the end of an unfinished request; deferred requests start before new ones."""
        self.unfinished.pop(abandon, None)
        # Treated as full while requests are deferred, so that they start before new ones.
        self.is_full = self.is_full or bool(self._waiting)
        self.must_wait = self.is_full or bool(self.unfinished)

    def has_room(self, bytes_max: int) -> bool:
        if self.unfinished:
            return False
        if not self.size_bytes:
            return True
        return self.size_bytes < bytes_max and self._budget.bytes_held < self._budget.bytes_max

    def room_bytes(self, bytes_max: int) -> int:
        """Return the maximum size of the next response.

        The common budget bounds it, and `bytes_max` if any bytes are unsent. Without unsent bytes it is at least 1, so
        that slow readers leave some room to other clients; otherwise at least 0.
        """
        if not self.size_bytes:
            return max(self._budget.room_bytes, 1)
        return max(min(bytes_max - self.size_bytes, self._budget.room_bytes), 0)

    # Deferred requests

    @property
    def first_waiting(self) -> Request | None:
        return self._waiting[0] if self._waiting else None

    def defer(self, request: Request) -> None:
        if not self._is_abandoned:
            self._waiting.append(request)

    def take(self) -> Request:
        return self._waiting.popleft()

    def abandon(self) -> None:
        """Drop the deferred requests and abandon the unfinished ones, because the connection is closed.

        Requests still in their queue start, unless an earlier request is dropped here.
        """
        self._is_abandoned = True
        self._budget.bytes_held -= self.size_bytes
        self.size_bytes = 0
        # If an earlier request is dropped, later ones still in their queue must not start without it.
        self.must_wait = bool(self._waiting or self.unfinished)
        self.is_full = False
        self._waiting.clear()
        unfinished, self.unfinished = self.unfinished, {}
        for abandon in unfinished:
            abandon()
