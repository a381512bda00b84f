"""The server: owns the lifetimes of all stages, and starts, resizes, drains and stops them.

    acceptors -> processors -> request channel -> handlers -> committer -> (callback) -> processors

Longer than most files: its parts change at run time, and their owner changes them.

Counterpart in Kafka: `SocketServer`; `stages` knows nothing about Kafka; it only assumes a length before each frame.
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
"""Commits per request beside those of the data plane's handlers: one for the control plane."""


def _waiting_handlers(mode: Mode) -> int:
    return mode.handlers if mode.is_shared_queue else mode.queues


IN_MEMORY = "MEMORY"
"""Name of the listener of a server that runs without listeners."""


class ServerNotRunningError(RuntimeError):
    """The server has not started yet, or is ending."""


class ListenerNameError(ValueError):
    """The name of a listener is unknown or in use, or the listener cannot be changed in this way."""


class SocketServer:
    """A pipelined request/response server.

    Listeners may be added and removed while it runs. Those of the control plane have a request channel and a handler of
    their own; all share the committer.

    Args:
        mode: the request path.
        application: decides requests.
        storage: makes entries durable.
        on_commit: called on the event loop with each durable commit, before its slots complete.
        commits_in_flight: maximum of concurrent group commits; a commit per request may run for every waiting handler.
        commit_pace: decides when a commit starts beside others; learned from commit times by default.
        commit_delay_seconds: injected delay per commit, for experiments.
        timeline: observer of the server, if any.
        executor: runs commits; threads by default.
        response_order: creates the response order of a connection; for tests.
    """

    def __init__(
        self,
        mode: Mode,
        application: Application,
        storage: CommitStorage,
        *,
        on_commit: Callable[[Commit], None] = lambda _: None,
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
        self._changed = trio.lowlevel.ParkingLot()  # woken by a closed connection, a new limit or the last commit
        self._exceeded = trio.lowlevel.ParkingLot()
        self._contended = trio.lowlevel.ParkingLot()  # woken when a large frame waits for memory
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
        return [served.acceptor for served in self._listeners.values() if served.acceptor is not None]

    @property
    def processors(self) -> list[Processor]:
        """The processors of all listeners, including retiring ones."""
        return [processor for served in self._listeners.values() for processor in served.all_processors]

    @property
    def is_stopping(self) -> bool:
        """True once `stop` was called or a commit failed."""
        return self._stopping.is_set()

    @property
    def _is_drained(self) -> bool:
        return self.committer.is_idle and not any(processor.connections for processor in self.processors)

    def _quotas_changed(self) -> None:
        self._changed.unpark_all()
        if self.quotas.excess:
            self._exceeded.unpark_all()

    def _committer_idle(self) -> None:
        if self._stopping.is_set():  # only `_drain` waits for this, and it happens thousands of times per second
            self._changed.unpark_all()

    def _commit_failed(self, error: BaseException) -> None:
        """End the server: after a failed commit nothing may be written, and `run` raises."""
        self._failure = error
        self._stopping.set()

    def observe(self, timeline: Timeline | None) -> None:
        """Report to `timeline` from now on, or to no observer.

        Requests in flight are reported if they are already timed.
        """
        self._timeline = timeline
        # None rather than a no-op, so that commits without an observer cost nothing.
        self.committer.on_completed = None if timeline is None else timeline.commit_ended
        for part in (self._data_plane, self._control_plane, *self._listeners.values()):
            if part is not None:
                part.observe(timeline)

    def submit(self, submission: Submission) -> None:
        self.committer.submit(submission)
        self.committer.start_commit()

    def stop(self) -> None:
        """Start to end the server; `run` returns once everything is drained, or `drain_seconds` have passed."""
        self._stopping.set()

    async def run(
        self, listeners: Sequence[Listener], *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> None:
        """Serve until `stop` is called or a commit fails. Without listeners, serve connections of `connect` only.

        Raises:
            CommitFailedError: if a commit failed; no later request was acknowledged.
        """
        self.committer.start(self._executor)
        try:
            async with trio.open_nursery() as nursery:
                self._nursery = nursery
                # Started from the end of the request path to its beginning, so that every accepted request can be
                # served.
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
                # Bounded, because a client that never reads must not keep the server alive.
                await self._drain()
                self.committer.delay_ns = 0  # commit the remaining submissions without injected delays
                nursery.cancel_scope.cancel()
        finally:
            self._nursery = None
            for served in self._listeners.values():
                served.close_source()
            # A write that waits for space would keep its thread, and `stop` below waits for the threads.
            self.committer.storage.fail_waiting_writes()
            with trio.CancelScope(shield=True):  # ends: the threads commit only the remaining submissions
                await trio.to_thread.run_sync(self._executor.stop)
        if self._failure is not None:
            raise CommitFailedError(f"a commit failed: {self._failure}") from self._failure

    # Listeners

    async def _serve(self, listener: Listener) -> ServedListener:
        """Start the processors of a listener without accepting connections."""
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
            raise ServerNotRunningError("the server is not running: it has not started, or it is ending")
        return self._nursery

    def _served(self, name: str) -> ServedListener:
        try:
            return self._listeners[name]
        except KeyError:
            raise ListenerNameError(f"unknown listener {name}: use one of {', '.join(self._listeners)}") from None

    def _connection_limits(self, own: ConnectionLimits | None) -> ConnectionLimits:
        return attrs.evolve(own or self.limits.connection, in_flight_max=self.mode.in_flight_max)

    async def add_listener(self, listener: Listener) -> None:
        """Serve another listener; the server owns its socket from now on.

        Raises:
            ListenerNameError: if the name is in use, perhaps by a draining listener; the caller keeps the socket.
            ServerNotRunningError: if the server has not started or is ending; the caller keeps the socket.
        """
        if listener.name in self._listeners:
            raise ListenerNameError(f"listener {listener.name} already exists: choose another name or remove it first")
        served = await self._serve(listener)
        await self._running().start(served.accept)

    async def remove_listener(self, name: str) -> None:
        """Stop accepting on a listener, drain it for `drain_seconds` at most, and close its connections.

        Raises:
            ListenerNameError: if the name is unknown, or the listener is already being removed.
        """
        served = self._served(name)
        if served.is_ending:
            raise ListenerNameError(f"listener {name} is already being removed")
        await served.remove(self.limits.drain_seconds)
        del self._listeners[name]

    async def resize_processors(self, count: int, listener: str | None = None) -> None:
        """Change the number of processors while the server runs.

        New connections use the new processors from now on. Surplus processors, the last ones, get no more connections:
        they answer their requests in flight, close their connections and end within `drain_seconds`.

        Args:
            count: at least 1.
            listener: the listener that gets a number of its own; None for all listeners without one.

        Raises:
            ListenerNameError: if the listener is unknown, or belongs to the control plane, which has one processor.
            ServerNotRunningError: if the server has not started or is ending; some listeners may have been resized.
        """
        if listener is None:
            self.limits = attrs.evolve(self.limits, processors=count)
            concerned = [served for served in self._listeners.values() if served.own_processors is None]
        else:
            concerned = [self._served(listener)]
            if concerned[0].listener.is_control_plane:
                raise ListenerNameError(f"cannot resize {listener}: a listener of the control plane has one processor")
            concerned[0].own_processors = count
        for served in concerned:
            await served.resize(count, self.limits.drain_seconds)

    def resize_handlers(self, count: int) -> None:
        """Change the number of handlers of the data plane; with separate queues, the number of queues.

        If handlers wait for their own commits, as many commits as handlers may run at once. Fewer handlers do not lower
        that number.
        """
        if self.mode.is_shared_queue:
            self.handlers.resize_handlers(count)
        elif count != len(self.channel.queues):
            self.handlers.resize_queues(count)
        if not self.mode.is_group_commit:
            # Not lowered: handlers that end may still wait for their commits.
            self.committer.commits_in_flight = max(self.committer.commits_in_flight, count + SPARE_COMMITS)

    def set_limits(self, limits: ServerLimits, by_listener: Mapping[str, ConnectionLimits] | None = None) -> None:
        """Change the bounds of connections (including open ones), bytes and quotas while the server runs.

        The capacity of queues changes with their next resize. The number of processors stays; see `resize_processors`.

        Args:
            by_listener: bounds of listeners that get bounds of their own; other listeners use the server's. None leaves
                the listeners' own bounds as they are.
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

        The transport is closed if the listener has ended, or the server has no listener.

        Args:
            transport: carries the bytes; owned by the server from now on.
            peer: address of the client.
            listener: name of its listener; if unknown, the first listener serves it.
            open_session: replaces the listener's.
        """
        served = self._listeners.get(listener) or next(iter(self._listeners.values()), None)
        new = NewConnection(
            transport=transport,
            address=f"{listener}-{peer}",
            peer=peer,
            listener=listener,
            index=self._numbers.next_connection(),
            is_counted=False,
            open_session=open_session,
        )
        while served is not None and not served.has_ended:
            if await served.processors[new.index % len(served.processors)].put(new):
                return  # otherwise that processor was removed while this waited
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
