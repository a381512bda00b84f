"""A listener that is being served, with its acceptor and processors."""

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
    """Counters of a server, which number its connections and processors."""

    next_connection: Callable[[], int]
    next_processor: Callable[[], int]


class ListenerStatistics(NamedTuple):
    """Statistics of one listener.

    Attributes:
        port: bound port; 0 for a listener in memory.
        processors: processors that get new connections.
        connections: open connections of all its processors.
        counters: sums of all its processors so far.
        quotas: statistics of its connection quotas; None without an acceptor.
    """

    name: str
    port: int
    processors: int
    connections: int
    counters: NetworkCounters
    quotas: ConnectionQuotaStatistics | None


class ServedListener:
    """The acceptor and the processors of one listener, including retiring processors.

    A retiring processor, or a listener being removed, answers its requests in flight and closes its connections within
    a bound.

    Args:
        shared: objects that its processors share.
        numbers: counters of the server.
        running: returns the nursery of the server; raises ServerNotRunningError if the server does not run or is
            ending.
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
        return self.listener.name

    @property
    def all_processors(self) -> list[Processor]:
        return [*self.processors, *self._retiring]

    @property
    def connections(self) -> list[Connection]:
        return [connection for processor in self.all_processors for connection in processor.connections]

    @property
    def has_ended(self) -> bool:
        """True once all active processors have ended, so that no new connection can be served."""
        return all(processor.has_ended for processor in self.processors)

    # Serving

    async def accept(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Accept connections until `stop_accepting`; a listener without a socket returns at once."""
        with trio.CancelScope() as self._accepting:
            if self.acceptor is None:
                task_status.started()
            else:
                await self.acceptor.run(task_status=task_status)
        self._accepting_ended.set()

    async def stop_accepting(self) -> None:
        """Close the listening socket and the connections in its backlog."""
        if self._accepting is not None:
            self._accepting.cancel()
            await self._accepting_ended.wait()

    def close_source(self) -> None:
        if self._source is not None and self._accepting is None:
            self._source.close()

    async def resize(self, count: int, drain_seconds: float) -> None:
        """Change the number of processors, to at least one.

        Surplus processors get no new connections, drain for `drain_seconds` at most, and end.

        Raises:
            ServerNotRunningError: if the server does not run or is ending.
        """
        # Starting a processor waits, so two resizes could otherwise interleave.
        async with self._resizing:
            while len(self.processors) < count:
                processor = Processor(self._numbers.next_processor(), self._shared, self.name)
                await self._running().start(processor.run)
                self.processors.append(processor)
            nursery = self._running()
            surplus = self.processors[max(count, 1) :]
            # In place, because the acceptor shares this list.
            del self.processors[max(count, 1) :]
            for processor in surplus:
                self._retiring.append(processor)
                nursery.start_soon(self._retire, processor, drain_seconds)

    async def _retire(self, processor: Processor, drain_seconds: float) -> None:
        processor.stop_reading()
        with trio.move_on_after(drain_seconds):
            # `changed` is woken for every closed connection of the listener, so the condition is checked again.
            while processor.connections:
                await self._shared.changed.park()
        processor.end()
        await processor.wait_ended()
        self._retiring.remove(processor)
        self._retired.add(processor.counters)

    def set_limits(self, limits: ConnectionLimits) -> None:
        self._shared.limits = limits
        for processor in self.all_processors:
            processor.set_limits(limits)

    def observe(self, timeline: Timeline | None) -> None:
        self._shared.timeline = timeline
        for processor in self.all_processors:
            processor.observe(timeline)

    # Ending

    def stop_reading(self) -> None:
        for processor in self.all_processors:
            processor.stop_reading()

    async def remove(self, drain_seconds: float) -> None:
        """Stop accepting, drain for `drain_seconds` at most, and end all processors; call this once."""
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
