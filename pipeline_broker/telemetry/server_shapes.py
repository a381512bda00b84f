"""What is read of a socket server: its statistics by their shape, because this room does not know Trio.

Rules of this file: types only; every attribute is explained where it is kept, in stages.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Protocol

__all__ = ["Committer", "Counters", "Handlers", "Listener", "ObservedServer", "Processor", "Queue", "ServerStatistics"]


class Counters(Protocol):
    """See `stages.network_counters`."""

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
    """See `stages.acceptor`."""

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


class Processor(Protocol):
    """See `stages.processor`."""

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
    """See `stages.request_channel`."""

    @property
    def index(self) -> int: ...
    @property
    def depth(self) -> int: ...
    @property
    def waiting_for_room(self) -> int: ...


class Handlers(Protocol):
    """See `stages.request_handler`."""

    @property
    def handlers(self) -> int: ...
    @property
    def failed(self) -> int: ...
    @property
    def blocking_works(self) -> int: ...


class Plane(Protocol):
    """See `stages.request_plane`."""

    @property
    def queues(self) -> Sequence[Queue]: ...
    @property
    def handlers(self) -> Handlers: ...


class Committer(Protocol):
    """See `stages.committer`."""

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
    """See `stages.connection_quotas`."""

    @property
    def creation_rate(self) -> float: ...
    @property
    def throttled_seconds(self) -> float: ...
    @property
    def ip_throttled_seconds(self) -> float: ...


class Listener(Protocol):
    """See `stages.served_listener`."""

    @property
    def name(self) -> str: ...
    @property
    def quotas(self) -> Quotas | None: ...


class TurnsOf(Protocol):
    """See `stages.loop_turns`."""

    @property
    def name(self) -> int | str: ...
    @property
    def longest_seconds(self) -> float: ...
    @property
    def long_count(self) -> int: ...


class ServerStatistics(Protocol):
    """See `stages.socket_server`."""

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
    """The byte budget of requests; see `stages.request_channel`."""

    bytes_max: int
    bytes_held: int

    @property
    def depleted_ns(self) -> int: ...


class ObservedServer(Protocol):
    """A running server."""

    @property
    def memory(self) -> Memory:
        """The byte budget of the data plane."""

    def statistics(self) -> ServerStatistics:
        """Every stage as it stands."""

    def connections(self) -> Iterable[tuple[str, int, Any]]:
        """Of each open connection: its listener, the number of its processor, and its session, if it has one."""

    def accept_rate(self) -> float:
        """Connections per second that were accepted, over the windows of the quotas."""

    def loop_idle_ns(self) -> tuple[int, int]:
        """How long the event loop had nothing to do while it was looked at, and how long that was."""
