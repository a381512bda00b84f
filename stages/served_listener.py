"""A listener while it is served: its processors, its acceptor, and their ends.

Rules of this room: it owns the processors of one listener, those that are about to end included. What is taken away,
a processor or the listener itself, answers what is in flight, closes its connections, and ends within a bound.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import trio

from stages.acceptor import Acceptor, SocketSource
from stages.connection import Connection
from stages.connection_limits import ConnectionLimits
from stages.connection_quotas import ConnectionQuotas, ConnectionQuotaStatistics
from stages.listener import Listener
from stages.network_counters import NetworkCounters
from stages.processor import Processor, Shared
from stages.timeline import Timeline

__all__ = ["ListenerStatistics", "Numbers", "ServedListener"]


class Numbers(NamedTuple):
    """Where the numbers of a server come from."""

    next_connection: Callable[[], int]
    next_processor: Callable[[], int]


class ListenerStatistics(NamedTuple):
    """One listener as it stands.

    Attributes:
        port: it is bound to; 0 for one in memory.
        processors: how many get new connections.
        connections: open ones, of all its processors.
        counters: the sums of all the processors that it ever had.
        quotas: what the connection quotas know of it; None where none is asked.
    """

    name: str
    port: int
    processors: int
    connections: int
    counters: NetworkCounters
    quotas: ConnectionQuotaStatistics | None


class ServedListener:
    """See the rules of the room.

    Args:
        listener: what is served.
        shared: what its processors share.
        quotas: of the server.
        numbers: of the server.
        running: the nursery of the server; raises when that does not run, or ends.
    """

    def __init__(
        self,
        listener: Listener,
        shared: Shared,
        quotas: ConnectionQuotas,
        numbers: Numbers,
        running: Callable[[], trio.Nursery],
    ) -> None:
        self.listener = listener
        self.processors: list[Processor] = []
        self.own_processors = 1 if listener.is_control_plane else listener.processors
        self.own_limits = listener.limits
        self.acceptor: Acceptor | None = None
        self.is_ending = False
        self._shared = shared
        self._quotas = quotas
        self._numbers = numbers
        self._running = running
        self._retiring: list[Processor] = []
        self._retired = NetworkCounters()
        self._resizing = trio.Lock()
        self._accepting: trio.CancelScope | None = None
        self._accepting_ended = trio.Event()
        self._source = listener.source if listener.sock is None else SocketSource(listener.sock)
        if self._source is not None:
            quotas.add_listener(listener.name)
            self.acceptor = Acceptor(
                listener, self._source, self.processors, quotas, shared.changed, numbers.next_connection
            )

    @property
    def name(self) -> str:
        """The listener's."""
        return self.listener.name

    @property
    def all_processors(self) -> list[Processor]:
        """Those that get new connections, and those that are about to end."""
        return [*self.processors, *self._retiring]

    @property
    def connections(self) -> list[Connection]:
        """The open ones."""
        return [connection for processor in self.all_processors for connection in processor.connections]

    @property
    def has_ended(self) -> bool:
        """Whether nobody begins new connections any more."""
        return all(processor.has_ended for processor in self.processors)

    # While it serves

    async def accept(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Accept until `stop_accepting`; a listener without a socket has nothing to accept."""
        with trio.CancelScope() as self._accepting:
            if self.acceptor is None:
                task_status.started()
            else:
                await self.acceptor.run(task_status=task_status)
        self._accepting_ended.set()

    async def stop_accepting(self) -> None:
        """Close the listening socket and what waits unserved."""
        if self._accepting is not None:
            self._accepting.cancel()
            await self._accepting_ended.wait()

    def close_source(self) -> None:
        """Close the listening socket of a listener that never came to accept."""
        if self._source is not None and self._accepting is None:
            self._source.close()

    async def resize(self, count: int, drain_seconds: float) -> None:
        """Have so many processors, at least one; surplus ones, the last, get no connections any more and drain."""
        async with self._resizing:
            while len(self.processors) < count:
                processor = Processor(self._numbers.next_processor(), self._shared, self.name)
                await self._running().start(processor.run)
                self.processors.append(processor)
            nursery = self._running()
            surplus = self.processors[max(count, 1) :]
            del self.processors[max(count, 1) :]
            for processor in surplus:
                self._retiring.append(processor)
                nursery.start_soon(self._retire, processor, drain_seconds)

    async def _retire(self, processor: Processor, drain_seconds: float) -> None:
        processor.stop_reading()
        with trio.move_on_after(drain_seconds):
            while processor.connections:
                await self._shared.changed.park()
        processor.end()
        await processor.wait_ended()
        self._retiring.remove(processor)
        self._retired.add(processor.counters)

    def set_limits(self, limits: ConnectionLimits) -> None:
        """Change the bounds of its connections, the open ones included."""
        self._shared.limits = limits
        for processor in self.all_processors:
            processor.set_limits(limits)

    def observe(self, timeline: Timeline | None) -> None:
        """Report to this timeline, or to nobody, from now on."""
        self._shared.timeline = timeline
        for processor in self.all_processors:
            processor.observe(timeline)

    # Ending

    def stop_reading(self) -> None:
        """Admit nothing more: every connection answers what is in flight and closes."""
        for processor in self.all_processors:
            processor.stop_reading()

    async def remove(self, drain_seconds: float) -> None:
        """Stop accepting, answer what is in flight within the bound, and let go of everything; once."""
        self.is_ending = True
        await self.stop_accepting()
        self.stop_reading()
        with trio.move_on_after(drain_seconds):
            while any(processor.connections for processor in self.all_processors):
                await self._shared.changed.park()
        for processor in self.all_processors:
            processor.end()
            await processor.wait_ended()
        if self.acceptor is not None:
            self._quotas.remove_listener(self.name)

    def statistics(self) -> ListenerStatistics:
        counters = self._retired.copy()
        for processor in self.all_processors:
            counters.add(processor.counters)
        now = trio.current_time()
        return ListenerStatistics(
            name=self.name,
            port=self.listener.port,
            processors=len(self.processors),
            connections=sum(len(processor.connections) for processor in self.all_processors),
            counters=counters,
            quotas=None if self.acceptor is None else self._quotas.statistics(now, self.name),
        )
