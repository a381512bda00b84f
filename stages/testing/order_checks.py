"""Checks of order, and the wrappers that record events for them.

A check raises OrderViolationError for the first violation. A wrapper records calls and changes nothing.
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
    pass


def check_response_order(expected: Sequence[bytes], received: Sequence[bytes], *, is_whole: bool = True) -> None:
    """Check that one connection received exactly the expected responses, in order.

    Args:
        expected: responses in the order of their requests.
        received: responses that the client received.
        is_whole: False if the connection may have ended early, so that a prefix is enough.

    Raises:
        OrderViolationError: if a response differs, or there are too many or (if `is_whole`) too few.
    """
    for place, (wanted, got) in enumerate(zip(expected, received, strict=False)):
        if wanted != got:
            raise OrderViolationError(f"response {place} should be {wanted!r} and is {got!r}")
    if len(received) > len(expected):
        raise OrderViolationError(f"{len(received)} responses to {len(expected)} requests")
    if is_whole and len(received) < len(expected):
        raise OrderViolationError(f"response {len(received)} is missing; it should be {expected[len(received)]!r}")


def check_key_order(items: Iterable[Any], key_of: Callable[[Any], Hashable], sequence_of: Callable[[Any], int]) -> None:
    """Check that the sequence numbers of each key increase: its order in the log, or its order of starts.

    Raises:
        OrderViolationError: if an item follows a later one of its key, or occurs twice.
    """
    last: dict[Hashable, int] = {}
    for place, item in enumerate(items):
        key, sequence = key_of(item), sequence_of(item)
        if sequence <= last.get(key, -1):
            raise OrderViolationError(f"item {place} of key {key!r} has sequence {sequence} after {last[key]}")
        last[key] = sequence


class WatchedApplication:
    """An application wrapper that records starts of requests and closed sessions.

    Args:
        application: decides the requests.
        schedule: records every started request.

    Attributes:
        starts: sequence numbers of started requests, in order, by connection index.
        closed_sessions: sessions in the order in which their connections closed.
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
        """Check that the requests of every connection started in the order in which they arrived, each once.

        Raises:
            OrderViolationError: if they did not.
        """
        for connection, sequences in self.starts.items():
            if sequences != list(range(len(sequences))):
                raise OrderViolationError(f"connection {connection} started its requests in the order {sequences}")


class WatchedResponseOrder(ResponseOrder[Request]):
    """A response order that records completions and releases.

    Args:
        schedule: receives the records.
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
    return lambda: WatchedResponseOrder(schedule)
