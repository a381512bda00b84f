"""Nurseries, start order, drain, deadline, cancel.

Rules of this room: it owns the lifetimes and nothing else. Start: committer, handlers, processors, acceptors: nothing
is accepted that nobody could serve. End: stop accepting, stop reading, drain until a deadline, commit what was
submitted, cancel; the deadline bounds the whole, because a client that never reads must not keep a server alive.

    acceptors -> processors -> request channel -> handlers -> committer -> (callback) -> processors

Listeners come and go while it runs. Those of the control plane have a request channel and a handler of their own; the
committer is one for all.

Longer than most files: parts change while it runs, and their owner changes them.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence

import attrs
import trio

from stages.acceptor import Acceptor
from stages.commit_pace import COMMITS_IN_FLIGHT_MAX, CommitPace
from stages.commit_storage import CommitStorage
from stages.commit_threads import CommitThreads
from stages.committer import Commit, CommitExecutor, CommitFailedError, Committer, Submission
from stages.connection_limits import ConnectionLimits
from stages.connection_quotas import ConnectionQuotas
from stages.excess_connections import close_excess
from stages.listener import Listener, OpenSession
from stages.loop_turns import LoopTurns
from stages.mode import Mode
from stages.partial_frames import PartialFrameBudget
from stages.processor import NewConnection, Processor, Shared
from stages.request import Request
from stages.request_handler import Application
from stages.request_plane import RequestPlane, control_plane, data_plane
from stages.response_order import ResponseOrder
from stages.response_sender import ResponseSender
from stages.served_listener import Numbers, ServedListener
from stages.server_limits import ServerLimits
from stages.server_statistics import SocketServerStatistics
from stages.slow_frames import close_slow_frames
from stages.timeline import Timeline
from stages.transport_layer import TransportLayer
from stages.unsent_responses import ResponseBudget

__all__ = ["ListenerNameError", "ServerLimits", "ServerNotRunningError", "SocketServer", "SocketServerStatistics"]

SPARE_COMMITS = 1
"""Commits per request that may run beside those of all data handlers: the control plane's."""


def _waiting_handlers(mode: Mode) -> int:
    """How many handlers of the data plane may wait for a commit of their own."""
    return mode.handlers if mode.is_shared_queue else mode.queues


IN_MEMORY = "MEMORY"
"""The listener of a server that is given none."""


class ServerNotRunningError(RuntimeError):
    """It has not begun yet, or it ends."""


class ListenerNameError(ValueError):
    """There is no listener of this name, or there is one already."""


class SocketServer:
    """A pipelined request/response server.

    Args:
        mode: one point on the three axes.
        storage: makes entries durable.
        on_commit: called on the event loop with each durable commit, before its slots complete.
        limits: bounds.
        commits_in_flight: group commits that run at once, at most; of commits per request as many as handlers wait.
        commit_pace: when a commit begins beside others; learned from their times unless a test says otherwise.
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
        commits_in_flight: int = COMMITS_IN_FLIGHT_MAX,
        commit_pace: CommitPace | None = None,
        commit_delay_seconds: float = 0.0,
        timeline: Timeline | None = None,
        executor: CommitExecutor | None = None,
        response_order: Callable[[], ResponseOrder[Request]] = ResponseOrder,
    ) -> None:
        self.mode = mode
        self.limits = limits or ServerLimits()
        self.turns = LoopTurns()
        self._response_budget = ResponseBudget(self.limits.total_unsent_bytes_max)
        self._sender = ResponseSender(self._response_budget)
        self._executor = executor or CommitThreads(self.turns)
        self.committer = Committer(
            storage,
            batching=mode.batching,
            commit_on=mode.commit_on,
            sender=self._sender,
            commits_in_flight=commits_in_flight if mode.is_group_commit else _waiting_handlers(mode) + SPARE_COMMITS,
            pace=commit_pace,
            delay_seconds=commit_delay_seconds,
            on_commit=on_commit,
            on_failure=self._commit_failed,
            on_idle=self._committer_idle,
        )
        self._application = application
        self._response_order = response_order
        self._data_plane = data_plane(mode, application, self.committer, self._sender, self.turns, self.limits)
        self.channel = self._data_plane.channel
        self.handlers = self._data_plane.handlers
        self._control_plane: RequestPlane | None = None
        self._changed = trio.lowlevel.ParkingLot()  # a connection was closed, a limit changed, or the last commit ended
        self._exceeded = trio.lowlevel.ParkingLot()
        self._contended = trio.lowlevel.ParkingLot()  # a large frame waits for room
        self._partial_frames = PartialFrameBudget(self.limits.partial_bytes_max, self._contended.unpark_all)
        self.quotas = ConnectionQuotas(self.limits.quotas, self._quotas_changed)
        self._numbers = Numbers(itertools.count().__next__, itertools.count().__next__)
        self._listeners: dict[str, ServedListener] = {}
        self._stopping = trio.Event()
        self._failure: BaseException | None = None
        self._nursery: trio.Nursery | None = None
        self.observe(timeline)

    @property
    def acceptors(self) -> list[Acceptor]:
        """One for each listener that has a socket."""
        return [served.acceptor for served in self._listeners.values() if served.acceptor is not None]

    @property
    def processors(self) -> list[Processor]:
        """Those of all listeners, those that are about to end included."""
        return [processor for served in self._listeners.values() for processor in served.all_processors]

    @property
    def is_stopping(self) -> bool:
        """It was told to end, or must; its listeners may be closed by now."""
        return self._stopping.is_set()

    @property
    def _is_drained(self) -> bool:
        return self.committer.is_idle and not any(processor.connections for processor in self.processors)

    def _quotas_changed(self) -> None:
        self._changed.unpark_all()
        if self.quotas.excess:
            self._exceeded.unpark_all()

    def _committer_idle(self) -> None:
        if self._stopping.is_set():  # nobody else waits for it, and it is thousands of times in a second
            self._changed.unpark_all()

    def _commit_failed(self, error: BaseException) -> None:
        """Serve no further write: the server ends and `run` raises."""
        self._failure = error
        self._stopping.set()

    def observe(self, timeline: Timeline | None) -> None:
        """Report to this timeline, or to nobody, from now on; of requests on their way those that are timed already."""
        self._timeline = timeline
        self.committer.on_completed = None if timeline is None else timeline.commit_ended
        for part in (self._data_plane, self._control_plane, *self._listeners.values()):
            if part is not None:
                part.observe(timeline)

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
                nursery.start_soon(self._sender.run)
                await nursery.start(self._data_plane.run)
                nursery.start_soon(close_slow_frames, self._partial_frames, self._contended)
                nursery.start_soon(close_excess, self.quotas, self._listeners.values, self._exceeded)
                for listener in listeners or (Listener(IN_MEMORY),):
                    await self._serve(listener)
                for served in tuple(self._listeners.values()):
                    await nursery.start(served.accept)
                task_status.started()
                await self._stopping.wait()
                self._nursery = None
                for served in tuple(self._listeners.values()):
                    await served.stop_accepting()
                await self._drain()
                self.committer.delay_ns = 0  # what is left is committed without injected delays
                nursery.cancel_scope.cancel()
        finally:
            self._nursery = None
            for served in self._listeners.values():
                served.close_source()
            self.committer.storage.stop_waiting()
            with trio.CancelScope(shield=True):  # bounded by what was submitted: the threads commit that and end
                await trio.to_thread.run_sync(self._executor.stop)
        if self._failure is not None:
            raise CommitFailedError(f"a commit failed: {self._failure}") from self._failure

    # Listeners

    async def _serve(self, listener: Listener) -> ServedListener:
        """Have processors for it; nothing is accepted yet."""
        nursery = self._running()
        plane = self._data_plane
        if listener.is_control_plane:
            if self._control_plane is None:
                self._control_plane = control_plane(
                    self.mode, self._application, self.committer, self._sender, self.turns, self.limits, self._timeline
                )
                await nursery.start(self._control_plane.run)
            plane = self._control_plane
        shared = Shared(
            channel=plane.channel,
            handlers=plane.handlers,
            application=self._application,
            limits=self._connection_limits(listener.limits),
            release=self.quotas.release,
            changed=self._changed,
            timeline=self._timeline,
            response_order=self._response_order,
            open_session=listener.open_session,
            handshake_failed=listener.handshake_failed,
            sender=self._sender,
            response_budget=self._response_budget,
            partial_frames=self._partial_frames,
        )
        served = ServedListener(listener, shared, self.quotas, self._numbers, self._running)
        self._listeners[listener.name] = served
        await served.resize(served.own_processors or self.limits.processors, self.limits.drain_seconds)
        return served

    def _running(self) -> trio.Nursery:
        if self._nursery is None:
            raise ServerNotRunningError("the server does not run")
        return self._nursery

    def _served(self, name: str) -> ServedListener:
        try:
            return self._listeners[name]
        except KeyError:
            raise ListenerNameError(f"there is no listener {name}") from None

    def _connection_limits(self, own: ConnectionLimits | None) -> ConnectionLimits:
        return attrs.evolve(own or self.limits.connection, in_flight_max=self.mode.in_flight_max)

    async def add_listener(self, listener: Listener) -> None:
        """Serve another listener; its socket is the server's from here on.

        Raises:
            ListenerNameError: there is one of this name, perhaps still draining; the socket is the caller's.
            ServerNotRunningError: it has not begun, or begins to end meanwhile; the socket is the caller's.
        """
        if listener.name in self._listeners:
            raise ListenerNameError(f"there is a listener {listener.name} already")
        served = await self._serve(listener)
        await self._running().start(served.accept)

    async def remove_listener(self, name: str) -> None:
        """Accept no more by a listener, answer what is in flight, close its connections; bounded by `drain_seconds`.

        Raises:
            ListenerNameError: there is none of this name, or it is being removed.
        """
        served = self._served(name)
        if served.is_ending:
            raise ListenerNameError(f"the listener {name} is being removed")
        await served.remove(self.limits.drain_seconds)
        del self._listeners[name]

    async def resize_processors(self, count: int, listener: str | None = None) -> None:
        """Change the number of processors, at least 1, while the server runs.

        New ones get new connections from now on. Surplus ones, the last, get none any more: they answer what is in
        flight, close their connections and end, within the bound of a drain.

        Args:
            listener: which listener gets a number of its own; None for all that have none.

        Raises:
            ListenerNameError: there is no such listener, or it is of the control plane, which has one processor.
            ServerNotRunningError: it has not begun, or begins to end meanwhile; some may have their number then.
        """
        if listener is None:
            self.limits = attrs.evolve(self.limits, processors=count)
            concerned = [served for served in self._listeners.values() if served.own_processors is None]
        else:
            concerned = [self._served(listener)]
            if concerned[0].listener.is_control_plane:
                raise ListenerNameError(f"{listener} is of the control plane and has one processor")
            concerned[0].own_processors = count
        for served in concerned:
            await served.resize(count, self.limits.drain_seconds)

    def resize_handlers(self, count: int) -> None:
        """Change the number of handlers of the data plane, each with a queue of its own where the mode says so.

        Where a handler waits for its commit, so many may commit at once; fewer handlers leave that number as it is.
        """
        if self.mode.is_shared_queue:
            self.handlers.resize_handlers(count)
        elif count != len(self.channel.queues):
            self.handlers.resize_queues(count)
        if not self.mode.is_group_commit:
            self.committer.commits_in_flight = max(self.committer.commits_in_flight, count + SPARE_COMMITS)

    def set_limits(self, limits: ServerLimits, by_listener: Mapping[str, ConnectionLimits] | None = None) -> None:
        """Change the bounds while the server runs: of connections, the open ones included, of bytes, and the quotas.

        The capacity of queues follows at the next resize of the queues; for the number of processors see
        `resize_processors`.

        Args:
            by_listener: who has bounds of its own from now on, others follow the server's; None: each keeps its own.
        """
        self.limits = attrs.evolve(limits, processors=self.limits.processors)
        for served in self._listeners.values():
            if by_listener is not None:
                served.own_limits = by_listener.get(served.name)
            served.set_limits(self._connection_limits(served.own_limits))
        self.channel.requests_max = limits.requests_max
        for plane in (self._data_plane, self._control_plane):
            if plane is not None:
                plane.channel.set_bytes_max(limits.bytes_max)
        self._response_budget.bytes_max = limits.total_unsent_bytes_max
        self._partial_frames.set_bytes_max(limits.partial_bytes_max)
        self.quotas.limits = limits.quotas

    # Connections

    async def connect(
        self, transport: TransportLayer, *, peer: str, listener: str, open_session: OpenSession | None = None
    ) -> None:
        """Serve a connection that no acceptor accepted, such as one in memory; no quota counts it.

        Args:
            transport: carries the bytes; owned by the server from here on.
            peer: the client's address.
            listener: what it counts as having come by; where there is none of this name, the first one serves it.
            open_session: in place of the listener's.
        """
        served = self._listeners.get(listener) or next(iter(self._listeners.values()))
        new = NewConnection(
            transport=transport,
            address=f"{listener}-{peer}",
            peer=peer,
            listener=listener,
            index=self._numbers.next_connection(),
            is_counted=False,
            open_session=open_session,
        )
        while not served.has_ended:
            if await served.processors[new.index % len(served.processors)].put(new):
                return  # otherwise that processor was taken away meanwhile
        transport.close()

    async def _drain(self) -> None:
        with trio.move_on_after(self.limits.drain_seconds):
            for served in self._listeners.values():
                served.stop_reading()
            while self._failure is None and not self._is_drained:
                await self._changed.park()

    def statistics(self) -> SocketServerStatistics:
        return SocketServerStatistics(
            acceptors=tuple(acceptor.statistics() for acceptor in self.acceptors),
            processors=tuple(processor.statistics() for processor in self.processors),
            queues=tuple(self.channel.statistics()),
            handlers=self.handlers.statistics(),
            committer=self.committer.statistics(),
            control_plane=None if self._control_plane is None else self._control_plane.statistics(),
            listeners=tuple(served.statistics() for served in self._listeners.values()),
            connections_excess=self.quotas.excess,
            partial_frames=self._partial_frames.statistics(),
            unsent_responses=self._response_budget.statistics(),
            turns=self.turns.statistics(),
        )
