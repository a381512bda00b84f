"""Nurseries, start order, drain, deadline, cancel.

Rules of this room: it owns the lifetimes and nothing else. Start: committer, handlers, processors, acceptors: nothing
is accepted that nobody could serve. End: stop accepting, stop reading, drain until a deadline, commit what was
submitted, cancel; the deadline bounds the whole, because a client that never reads must not keep a server alive.

    acceptors -> processors -> request channel -> handlers -> committer -> (callback) -> processors
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

import attrs
import trio

from stages.acceptor import Acceptor, AcceptorStatistics, Listener
from stages.commit_threads import CommitThreads
from stages.committer import (
    Commit,
    CommitExecutor,
    CommitFailedError,
    CommitStorage,
    Committer,
    CommitterStatistics,
    Submission,
)
from stages.connection import OpenSession
from stages.connection_limits import ConnectionLimits
from stages.connection_quotas import ConnectionQuotaLimits, ConnectionQuotas
from stages.mode import Mode
from stages.processor import NewConnection, Processor, ProcessorStatistics, Shared
from stages.request import Request
from stages.request_channel import BYTES_MAX, REQUESTS_MAX, RequestChannel, RequestQueueStatistics
from stages.request_handler import Application, RequestHandlerPool, RequestHandlerStatistics
from stages.response_order import ResponseOrder
from stages.timeline import Timeline
from stages.transport_layer import TransportLayer
from stages.unsent_responses import UNSENT_BYTES_MAX, ResponseBudget

__all__ = ["ServerLimits", "SocketServer", "SocketServerStatistics"]

DRAIN_SECONDS = 10.0
"""How long requests in flight may take to be answered when the server ends."""


@attrs.frozen
class ServerLimits:
    """Bounds of a server.

    Attributes:
        connection: bounds of each connection; its `in_flight_max` is the mode's.
        requests_max: capacity of the request queues together.
        bytes_max: bytes of all unanswered requests.
        total_unsent_bytes_max: bytes of all responses that clients have not taken.
        processors: processors per listener (`num.network.threads`).
        drain_seconds: see DRAIN_SECONDS.
        quotas: connection counts and rates.
    """

    connection: ConnectionLimits = attrs.field(factory=ConnectionLimits)
    requests_max: int = REQUESTS_MAX
    bytes_max: int = BYTES_MAX
    total_unsent_bytes_max: int = UNSENT_BYTES_MAX
    processors: int = 3
    drain_seconds: float = DRAIN_SECONDS
    quotas: ConnectionQuotaLimits = attrs.field(factory=ConnectionQuotaLimits)


@attrs.frozen
class SocketServerStatistics:
    """Every stage as it stands, in the order in which a request passes them."""

    acceptors: tuple[AcceptorStatistics, ...]
    processors: tuple[ProcessorStatistics, ...]
    queues: tuple[RequestQueueStatistics, ...]
    handlers: RequestHandlerStatistics
    committer: CommitterStatistics


class SocketServer:
    """A pipelined request/response server.

    Args:
        mode: one point on the three axes.
        application: decides requests.
        storage: makes entries durable.
        on_commit: called on the event loop with each durable commit, before its slots complete.
        limits: bounds.
        commits_in_flight: commits that run at once in group commit; commits per request run `mode.handlers` at once.
        commit_delay_seconds: an injected delay per commit, for experiments.
        timeline: observes, if anybody does.
        executor: runs commits; threads of its own unless a test scripts them.
        response_order: makes the response order of a connection; anything but the default is for tests.
    """

    def __init__(
        self,
        mode: Mode,
        application: Application,
        storage: CommitStorage,
        *,
        on_commit: Callable[[Commit], None] = lambda commit: None,  # noqa: ARG005 - the caller passes it by position
        limits: ServerLimits | None = None,
        commits_in_flight: int = 1,
        commit_delay_seconds: float = 0.0,
        timeline: Timeline | None = None,
        executor: CommitExecutor | None = None,
        response_order: Callable[[], ResponseOrder[Request]] = ResponseOrder,
    ) -> None:
        self.mode = mode
        self.limits = limits or ServerLimits()
        self._on_commit = on_commit
        self._executor = executor or CommitThreads()
        self.committer = Committer(
            storage,
            batching=mode.batching,
            commits_in_flight=commits_in_flight if mode.is_group_commit else mode.handlers,
            delay_seconds=commit_delay_seconds,
            on_commit=self._commit_ended,
            on_failure=self._commit_failed,
            on_completed=timeline.commit_ended if timeline is not None else None,
        )
        self.channel = RequestChannel(mode, requests_max=self.limits.requests_max, bytes_max=self.limits.bytes_max)
        self.handlers = RequestHandlerPool(self.channel, application, self.committer, timeline)
        self._shared = Shared(
            channel=self.channel,
            handlers=self.handlers,
            application=application,
            limits=attrs.evolve(self.limits.connection, in_flight_max=mode.in_flight_max),
            timeline=timeline,
            response_order=response_order,
            response_budget=ResponseBudget(self.limits.total_unsent_bytes_max),
        )
        self.quotas = ConnectionQuotas(self.limits.quotas)
        self._changed = trio.lowlevel.ParkingLot()  # a connection was closed, or a commit ended
        self._connection_index = itertools.count()
        self._processor_index = itertools.count()
        self.acceptors: list[Acceptor] = []
        self.processors: list[Processor] = []
        self._stopping = trio.Event()
        self._failure: BaseException | None = None
        self._nursery: trio.Nursery | None = None
        self._dealt_to: list[list[Processor]] = []  # the processors of each listener, as its acceptor deals to them

    @property
    def _is_drained(self) -> bool:
        return self.committer.is_idle and not any(processor.connections for processor in self.processors)

    def _commit_ended(self, commit: Commit) -> None:
        self._changed.unpark_all()
        self._on_commit(commit)

    def _commit_failed(self, error: BaseException) -> None:
        """Serve no further write: the server ends and `run` raises."""
        self._failure = error
        self._stopping.set()
        self._changed.unpark_all()

    def submit(self, submission: Submission) -> None:
        """Commit entries that belong to no request."""
        self.committer.submit(submission)
        self.committer.start_commit()

    def stop(self) -> None:
        """Begin to end; `run` returns when all is drained."""
        self._stopping.set()

    async def run(
        self, listeners: Sequence[Listener], *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> None:
        """Serve until `stop`, or until a commit fails; without listeners, what `connect` brings.

        Raises:
            CommitFailedError: a commit failed; nothing was acknowledged after it.
        """
        self.committer.start(self._executor)
        try:
            async with trio.open_nursery() as nursery:
                self._nursery = nursery
                await nursery.start(self.handlers.run, self.mode.handlers if self.mode.is_shared_queue else 1)
                for listener in listeners:
                    processors = await self._start_processors(nursery)
                    self.acceptors.append(
                        Acceptor(listener, processors, self.quotas, self._changed, lambda: next(self._connection_index))
                    )
                if not listeners:
                    await self._start_processors(nursery)
                async with trio.open_nursery() as accepting:
                    for acceptor in self.acceptors:
                        await accepting.start(acceptor.run)
                    task_status.started()
                    await self._stopping.wait()
                    accepting.cancel_scope.cancel()
                await self._drain()
                nursery.cancel_scope.cancel()
        finally:
            with trio.CancelScope(shield=True):  # bounded by what was submitted: the threads commit that and end
                await trio.to_thread.run_sync(self._executor.stop)
        if self._failure is not None:
            raise CommitFailedError(f"a commit failed: {self._failure}") from self._failure

    async def _start_processors(self, nursery: trio.Nursery) -> list[Processor]:
        processors = [await self._start_processor(nursery) for _ in range(self.limits.processors)]
        self._dealt_to.append(processors)
        return processors

    async def _start_processor(self, nursery: trio.Nursery) -> Processor:
        processor = Processor(next(self._processor_index), self._shared)
        await nursery.start(processor.run)
        self.processors.append(processor)
        return processor

    async def resize_processors(self, count: int) -> None:
        """Change the number of processors of each listener, at least 1, while the server runs.

        New ones get new connections from now on. Surplus ones, the last, get none any more: they answer what is in
        flight, close their connections and end, within the bound of a drain.
        """
        assert self._nursery is not None, "the server runs"
        for processors in self._dealt_to:
            while len(processors) < count:
                processors.append(await self._start_processor(self._nursery))
            surplus = processors[max(count, 1) :]
            del processors[max(count, 1) :]
            for processor in surplus:
                self._nursery.start_soon(self._retire, processor)

    async def _retire(self, processor: Processor) -> None:
        processor.stop_reading()
        with trio.move_on_after(self.limits.drain_seconds):
            while processor.connections:
                await self._changed.park()
        processor.end()
        self.processors.remove(processor)

    def _connection_closed(self) -> None:
        self._changed.unpark_all()

    async def connect(
        self, transport: TransportLayer, *, peer: str, listener: str, open_session: OpenSession | None = None
    ) -> None:
        """Serve a connection that no acceptor accepted, such as one in memory; no quota counts it.

        Args:
            transport: carries the bytes; owned by the server from here on.
            peer: the client's address.
            listener: what it counts as having come by.
            open_session: see OpenSession.
        """
        index = next(self._connection_index)
        new = NewConnection(
            transport=transport,
            address=f"{listener}-{peer}",
            peer=peer,
            listener=listener,
            index=index,
            on_closed=self._connection_closed,
            open_session=open_session,
        )
        processors = self._dealt_to[0]
        await processors[index % len(processors)].put(new)

    async def _drain(self) -> None:
        with trio.move_on_after(self.limits.drain_seconds):
            for processor in self.processors:
                processor.stop_reading()
            while self._failure is None and not self._is_drained:
                await self._changed.park()

    def statistics(self) -> SocketServerStatistics:
        """See SocketServerStatistics."""
        return SocketServerStatistics(
            acceptors=tuple(acceptor.statistics() for acceptor in self.acceptors),
            processors=tuple(processor.statistics() for processor in self.processors),
            queues=tuple(self.channel.statistics()),
            handlers=self.handlers.statistics(),
            committer=self.committer.statistics(),
        )
