"""Protocols of a socket server's statistics, so that this package does not import Trio.

The attributes are documented in `stages`, at the classes that have them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Protocol

__all__ = ["Committer", "Counters", "Handlers", "Listener", "ObservedServer", "Processor", "Queue", "ServerStatistics"]


class Counters(Protocol):
    created: int
    closed: int
    expired: int
    authenticated: int
    authentication_failed: int
    reauthenticated: int
    reauthentication_failed: int
    authentication_expired: int
    bytes_in: int
    bytes_out: int
    requests_in: int
    responses_out: int


class Acceptor(Protocol):
    @property
    def listener(self) -> str: ...
    @property
    def accepted(self) -> int: ...
    @property
    def rejected(self) -> int: ...
    @property
    def blocked_seconds(self) -> float: ...
    @property
    def throttled(self) -> int: ...
    @property
    def throttled_total(self) -> int: ...
    @property
    def failed(self) -> int: ...
    @property
    def exhausted(self) -> int: ...
    @property
    def overflows(self) -> int: ...


class Processor(Protocol):
    @property
    def id(self) -> int: ...
    @property
    def listener(self) -> str: ...
    @property
    def connections(self) -> int: ...
    @property
    def blocked(self) -> int: ...
    @property
    def unsent_responses(self) -> int: ...
    @property
    def counters(self) -> Counters: ...


class Queue(Protocol):
    @property
    def index(self) -> int: ...
    @property
    def depth(self) -> int: ...
    @property
    def waiting_for_room(self) -> int: ...


class Handlers(Protocol):
    @property
    def handlers(self) -> int: ...
    @property
    def failed(self) -> int: ...
    @property
    def blocking_works(self) -> int: ...


class Plane(Protocol):
    @property
    def queues(self) -> Sequence[Queue]: ...
    @property
    def handlers(self) -> Handlers: ...


class Committer(Protocol):
    @property
    def commits(self) -> int: ...
    @property
    def entries(self) -> int: ...
    @property
    def size_bytes(self) -> int: ...
    @property
    def duration_ns(self) -> int: ...
    @property
    def waiting(self) -> int: ...
    @property
    def in_flight(self) -> int: ...
    @property
    def entries_max(self) -> int: ...
    @property
    def has_failed(self) -> bool: ...


class Quotas(Protocol):
    @property
    def creation_rate(self) -> float: ...
    @property
    def throttled_seconds(self) -> float: ...
    @property
    def ip_throttled_seconds(self) -> float: ...


class Listener(Protocol):
    @property
    def name(self) -> str: ...
    @property
    def quotas(self) -> Quotas | None: ...


class TurnsOf(Protocol):
    @property
    def name(self) -> int | str: ...
    @property
    def longest_seconds(self) -> float: ...
    @property
    def long_count(self) -> int: ...


class ServerStatistics(Protocol):
    @property
    def acceptors(self) -> Sequence[Acceptor]: ...
    @property
    def processors(self) -> Sequence[Processor]: ...
    @property
    def queues(self) -> Sequence[Queue]: ...
    @property
    def handlers(self) -> Handlers: ...
    @property
    def committer(self) -> Committer: ...
    @property
    def control_plane(self) -> Plane | None: ...
    @property
    def listeners(self) -> Sequence[Listener]: ...
    @property
    def connections_excess(self) -> int: ...
    @property
    def turns(self) -> Sequence[TurnsOf]: ...


class Memory(Protocol):
    """The byte budget of requests (`stages.request_channel`)."""

    bytes_max: int
    bytes_held: int

    @property
    def depleted_ns(self) -> int: ...


class ObservedServer(Protocol):
    @property
    def memory(self) -> Memory: ...

    def statistics(self) -> ServerStatistics: ...

    def connections(self) -> Iterable[tuple[str, int, Any]]:
        """Yield the listener, the number of the processor, and the session or None of each open connection."""

    def accept_rate(self) -> float:
        """Return the number of accepted connections per second, over the windows of the quotas."""

    def loop_idle_ns(self) -> tuple[int, int]:
        """Return the time that the event loop was idle while it was observed, and the time that it was observed."""
