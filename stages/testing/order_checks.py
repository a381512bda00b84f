"""Checks of order, and the observers that feed them.

Rules of this room: a check raises OrderViolationError that names the first place where the order is broken; an observer
stands around what it observes and changes nothing.
"""

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any

from stages.request import Request, Result
from stages.request_handler import Application
from stages.response_order import ResponseOrder
from stages.testing.schedules import Schedule

__all__ = [
    "OrderViolationError",
    "WatchedApplication",
    "WatchedResponseOrder",
    "check_key_order",
    "check_response_order",
    "watched_response_order",
]


class OrderViolationError(AssertionError):
    """Something happened in another order than it must."""


def check_response_order(expected: Sequence[bytes], received: Sequence[bytes], *, is_whole: bool = True) -> None:
    """Check that one connection received exactly the expected responses, in order.

    Args:
        expected: the responses in the order of their requests.
        received: what the client received.
        is_whole: False where the connection may have ended early, so that a prefix is enough.

    Raises:
        OrderViolationError: another response, one too many, or (whole) one too few.
    """
    for place, (wanted, got) in enumerate(zip(expected, received, strict=False)):
        if wanted != got:
            raise OrderViolationError(f"response {place} should be {wanted!r} and is {got!r}")
    if len(received) > len(expected):
        raise OrderViolationError(f"{len(received)} responses to {len(expected)} requests")
    if is_whole and len(received) < len(expected):
        raise OrderViolationError(f"response {len(received)} never came; it should be {expected[len(received)]!r}")


def check_key_order(items: Iterable[Any], key_of: Callable[[Any], Hashable], sequence_of: Callable[[Any], int]) -> None:
    """Check that among the items of each key the sequence numbers grow: per-key log order, or start order.

    Raises:
        OrderViolationError: an item came behind a later one of its key, or twice.
    """
    last: dict[Hashable, int] = {}
    for place, item in enumerate(items):
        key, sequence = key_of(item), sequence_of(item)
        if sequence <= last.get(key, -1):
            raise OrderViolationError(f"item {place} of key {key!r} has sequence {sequence} after {last[key]}")
        last[key] = sequence


class WatchedApplication:
    """An application, observed: which request started when, and which sessions were told that they are over.

    Args:
        application: the one that decides.
        schedule: takes note of every start, if given.

    Attributes:
        starts: sequence numbers of the requests, by connection index, in the order in which they started.
        closed_sessions: in the order in which their connections closed.
    """

    def __init__(self, application: Application, schedule: Schedule | None = None) -> None:
        self.application = application
        self.starts: defaultdict[int, list[int]] = defaultdict(list)
        self.closed_sessions: list[object] = []
        self._schedule = schedule

    def handle(self, request: Request) -> Result:
        connection = request.connection.index
        self.starts[connection].append(request.sequence)
        if self._schedule is not None:
            self._schedule.note("start", connection, request.sequence)
        return self.application.handle(request)

    def failed(self, request: Request, error: Exception) -> Result:
        return self.application.failed(request, error)

    def connection_closed(self, session: object) -> None:
        self.closed_sessions.append(session)
        self.application.connection_closed(session)

    def check_start_order(self) -> None:
        """Check that every connection's requests started in the order in which they arrived, each once.

        Raises:
            OrderViolationError: they did not.
        """
        for connection, sequences in self.starts.items():
            if sequences != list(range(len(sequences))):
                raise OrderViolationError(f"connection {connection} started its requests in the order {sequences}")


class WatchedResponseOrder(ResponseOrder[Request]):
    """A response order whose completions and releases are noted.

    Args:
        schedule: takes the notes.
    """

    __slots__ = ("_schedule",)

    def __init__(self, schedule: Schedule) -> None:
        super().__init__()
        self._schedule = schedule

    def complete(self, slot: Request, result: object) -> list[Request]:
        self._schedule.note("complete", slot.connection.index, slot.sequence)
        released = super().complete(slot, result)
        for request in released:
            self._schedule.note("release", request.connection.index, request.sequence)
        return released


def watched_response_order(schedule: Schedule) -> Callable[[], ResponseOrder[Request]]:
    """What makes watched response orders; for SocketServer's `response_order`."""
    return lambda: WatchedResponseOrder(schedule)
