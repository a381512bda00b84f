"""What was answered and has not left yet: bounded for each connection, and for all of them together.

Rules of this room: sans-IO; bytes count from the moment a request is completed, or parked if the size of its response
is known, also while they wait for an earlier response, until the transport takes them; those of small responses may
be told once per flush. A connection is *full* at its own bound, or when it has anything unsent while all together are
at theirs. A full connection is not read, and what it had asked before is not started. A connection with nothing
unsent is never full, so slow readers do not stop the others; what they ask may pass the bound over all. Then the
connection whose client has taken nothing for the longest time is closed, until they are within it again. So memory is
bounded by the bound over all and one response, whatever clients ask and however little they read.

The same list keeps requests that wait for an unfinished one of their connection, so that they start in their order.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final, NamedTuple, Protocol

from stages.request import Request

__all__ = ["UNSENT_BYTES_MAX", "BlockedConnection", "ResponseBudget", "UnsentResponseStatistics", "UnsentResponses"]

UNSENT_BYTES_MAX: Final = 256 * 1024 * 1024
"""Bytes of the unsent responses of all connections."""


class UnsentResponseStatistics(NamedTuple):
    """What clients have not taken.

    Attributes:
        bytes_held: of all connections.
        bytes_max: the bound.
        closed: connections that were closed to keep it.
    """

    bytes_held: int = 0
    bytes_max: int = 0
    closed: int = 0


class BlockedConnection(Protocol):
    """A connection whose transport takes no more bytes now."""

    def close(self) -> None:
        """Close now, which gives back what it holds."""


class ResponseBudget:
    """The bound over all connections.

    Attributes:
        bytes_max: the bound; it may be changed at any time.
        bytes_held: unsent bytes of all connections.
    """

    __slots__ = ("_blocked", "_closed", "bytes_held", "bytes_max")

    def __init__(self, bytes_max: int = UNSENT_BYTES_MAX) -> None:
        self.bytes_max = bytes_max
        self.bytes_held = self._closed = 0
        self._blocked: dict[BlockedConnection, None] = {}  # the one that took nothing for longest first

    def begin_blocked(self, connection: BlockedConnection) -> None:
        """Its client takes no more bytes from now on; call it again when it has taken some and is blocked again."""
        self._blocked.pop(connection, None)
        self._blocked[connection] = None

    def end_blocked(self, connection: BlockedConnection) -> None:
        """Its client has taken everything, or it is closed."""
        self._blocked.pop(connection, None)

    def keep_bound(self) -> int:
        """Close blocked connections until the bound is kept, and return how many were closed.

        The last one stays: a response may be larger than the bound.
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
        """Bytes that are left."""
        return max(self.bytes_max - self.bytes_held, 0)


class UnsentResponses:
    """The unsent responses of one connection, and its requests that are not started yet.

    Args:
        budget: the bound over all connections.

    Attributes:
        size_bytes: what is unsent.
        is_full: see the rules of the room; it stays so until the requests that wait have been started.
        unfinished: what abandons each request of the connection that takes several turns and is at work.
        must_wait: a request is not started now, for one of these two reasons.
        is_called: a handler has been asked to start the first request that waits.
    """

    __slots__ = (
        "_budget",
        "_is_abandoned",
        "_waiting",
        "is_called",
        "is_full",
        "must_wait",
        "size_bytes",
        "unfinished",
    )

    def __init__(self, budget: ResponseBudget) -> None:
        self.size_bytes = 0
        self.unfinished: dict[Callable[[], None], None] = {}
        self.is_full = self.must_wait = False
        self.is_called = self._is_abandoned = False
        self._budget = budget
        self._waiting: deque[Request] = deque()

    def update(self, size_bytes: int, bytes_max: int) -> bool:
        """So much is unsent now; True when more was added than there is room for, where `bytes_max` is the bound."""
        budget = self._budget
        added = size_bytes - self.size_bytes
        self.size_bytes = size_bytes
        budget.bytes_held += added
        if added <= 0 or (size_bytes < bytes_max and budget.bytes_held < budget.bytes_max):
            return False
        self.is_full = self.must_wait = True
        return True

    def emptied(self) -> None:
        """It is full no longer: what waited has been started."""
        self.is_full = False
        self.must_wait = bool(self.unfinished)

    def begin_work(self, abandon: Callable[[], None]) -> None:
        """A request takes several turns: start no other one until `end_work`."""
        self.must_wait = True
        if not self._is_abandoned:
            self.unfinished[abandon] = None

    def end_work(self, abandon: Callable[[], None]) -> None:
        """That request is finished; what came after it is started first, as when it was full."""
        self.unfinished.pop(abandon, None)
        self.is_full = self.is_full or bool(self._waiting)
        self.must_wait = self.is_full or bool(self.unfinished)

    def has_room(self, bytes_max: int) -> bool:
        """Whether another request may be started."""
        if self.unfinished:
            return False
        if not self.size_bytes:
            return True
        return self.size_bytes < bytes_max and self._budget.bytes_held < self._budget.bytes_max

    def room_bytes(self, bytes_max: int) -> int:
        """What a response should take: what all leave, and, if it follows others, what they leave of `bytes_max`.

        It is at least 1 where nothing is unsent, so that slow readers leave others something.
        """
        if not self.size_bytes:
            return max(self._budget.room_bytes, 1)
        return max(min(bytes_max - self.size_bytes, self._budget.room_bytes), 0)

    # Requests that wait

    @property
    def first_waiting(self) -> Request | None:
        """The oldest request that waits."""
        return self._waiting[0] if self._waiting else None

    def defer(self, request: Request) -> None:
        """Keep a request, behind those that wait already."""
        if not self._is_abandoned:
            self._waiting.append(request)

    def take(self) -> Request:
        """Take out the oldest request that waits."""
        return self._waiting.popleft()

    def abandon(self) -> None:
        """Forget everything, because the connection is closed.

        Requests that are still in their queue are started, as long as no earlier one is dropped here.
        """
        self._is_abandoned = True
        self._budget.bytes_held -= self.size_bytes
        self.size_bytes = 0
        self.must_wait = bool(self._waiting or self.unfinished)
        self.is_full = False
        self._waiting.clear()
        unfinished, self.unfinished = self.unfinished, {}
        for abandon in unfinished:
            abandon()
