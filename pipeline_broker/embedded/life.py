"""A single run of an embedded broker, from opening its files to shutdown.

The run has no signal handlers and no admin socket. With files in memory it does not preallocate segments.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import attrs
import trio

from pipeline_broker.faults.files import FaultyFiles
from pipeline_broker.files.file_system import SystemFileSystem
from pipeline_broker.log.journal.journal import SEGMENT_BYTES
from pipeline_broker.node.assembly import AssembledBroker, assemble
from pipeline_broker.node.cluster_role import ClusterRole, joined_metadata, role_of
from pipeline_broker.node.data_directory import maintenance_of, open_broker
from pipeline_broker.node.listeners import BrokerListeners
from pipeline_broker.node.process import with_actual_settings
from pipeline_broker.node.surroundings import BrokerWiring
from stages.committer import Submission

if TYPE_CHECKING:
    from pipeline_broker.apis.dispatch import Dispatcher
    from pipeline_broker.broker.broker import Broker
    from pipeline_broker.embedded.clock import AdvancedClock
    from pipeline_broker.embedded.ports import KeptPorts
    from pipeline_broker.files.memory_files import MemoryFiles
    from pipeline_broker.node.archive_store import ArchiveStore
    from pipeline_broker.node.options import ServeOptions
    from pipeline_broker.node.upkeep import LogMaintenance
    from pipeline_broker.state.leadership.replication import Replication
    from stages.socket_server import SocketServer
    from stages.timeline import Timeline

__all__ = ["MEMORY_DIRECTORY", "BrokerRun", "Running"]

MEMORY_DIRECTORY = Path("/embedded")
"""The log directory that a broker in memory reports to clients. It does not exist on disk."""
# A sealed segment frees memory once it is archived, so small segments keep the journal small.
MEMORY_SEGMENT_BYTES = 4 << 20


@attrs.frozen(kw_only=True)
class Running:
    """The parts of a running broker, which `EmbeddedBroker.on_loop` passes to its function.

    Attributes:
        broker: the state: topics, groups, logs, configuration.
        server: the socket server.
        dispatcher: decides requests.
        maintenance: runs retention and compaction.
        listeners: the bound addresses.
    """

    broker: Broker
    server: SocketServer
    dispatcher: Dispatcher
    maintenance: LogMaintenance
    listeners: BrokerListeners


class BrokerRun:
    """A single run of the broker, which `end` or a disk error ends.

    Args:
        files: the files in memory. None uses the directories of the system.
        store: an object store that keeps the data. None for files.
        clock: the broker's wall clock.
        ports: the listeners, which outlive the run.
        timeline: receives the stamps of every request.
        fetch_parked: called when a fetch starts to wait for records.
        opened: called with broker and server before the first request.
        replication: factors of topics in a cluster.
    """

    def __init__(
        self,
        options: ServeOptions,
        files: MemoryFiles | None,
        store: ArchiveStore | None,
        clock: AdvancedClock,
        ports: KeptPorts,
        timeline: Timeline,
        fetch_parked: Callable[[], None],
        opened: Callable[[Broker, SocketServer], None],
        replication: Replication | None = None,
    ) -> None:
        self._options = options
        self._files = files
        self._store = store
        self._clock = clock
        self._ports = ports
        self._timeline = timeline
        self._fetch_parked = fetch_parked
        self._opened = opened
        self._replication = replication
        self._ended = trio.Event()
        self._running: Running | None = None
        self._role_scope = trio.CancelScope()
        self._role_ended: trio.Event | None = None  # set while the broker is in a cluster

    @property
    def running(self) -> Running:
        assert self._running is not None, "`run` has started"
        return self._running

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Serve until `end`.

        Raises:
            StartError: an address cannot be bound, or the data cannot be opened.
            CommitFailedError, MaintenanceFailedError: the disk or the store failed, or another process took over; in an
                exception group.
        """
        try:
            with contextlib.ExitStack() as stack:
                listeners = BrokerListeners(self._options.config, self._ports.bind)
                stack.callback(listeners.close)
                options = with_actual_settings(self._options, listeners)
                in_memory = self._files is not None
                files = FaultyFiles(SystemFileSystem() if self._files is None else self._files)
                role = role_of(options.cluster, options.config.node_id, self._replication)
                wiring = BrokerWiring(
                    options.mode,
                    listeners,
                    clock_ms=self._clock.now_ms,
                    fetch_parked=self._fetch_parked,
                    fault_files=files,
                    store=self._store,
                    cluster=role,
                )
                journal, broker = open_broker(
                    options.data,
                    options.config,
                    flush=options.flush,
                    files=files,
                    segment_bytes=MEMORY_SEGMENT_BYTES if in_memory else SEGMENT_BYTES,
                    ports=wiring.ports,
                    store=self._store,
                    metadata=await joined_metadata(role, listeners, options.config),
                )
                stack.callback(broker.logs.close)
                assembled = assemble(options, listeners, journal, broker, wiring, self._timeline)
                maintenance = maintenance_of(broker, wiring.segment_sealed)
                self._opened(broker, assembled.server)
                async with trio.open_nursery() as nursery:
                    await assembled.start(nursery, prepares_ahead=not in_memory)
                    if role is not None:
                        await nursery.start(self._run_role, role, assembled)
                    await nursery.start(maintenance.run)
                    self._running = Running(
                        broker=broker,
                        server=assembled.server,
                        dispatcher=assembled.dispatcher,
                        maintenance=maintenance,
                        listeners=listeners,
                    )
                    task_status.started()
        finally:
            self._ended.set()

    async def _run_role(
        self,
        role: ClusterRole,
        assembled: AssembledBroker,
        *,
        task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        ended = self._role_ended = trio.Event()
        try:
            with self._role_scope:
                await role.run(assembled, task_status=task_status)
        finally:
            ended.set()

    async def end(self, drain_seconds: float) -> None:
        """Answer requests in flight for up to `drain_seconds`, close all connections, and wait for the end of `run`."""
        running = self.running
        # First, because the controller commits a record for each member that leaves.
        if self._role_ended is not None:
            self._role_scope.cancel()
            await self._role_ended.wait()
        running.server.set_limits(attrs.evolve(running.server.limits, drain_seconds=drain_seconds))
        running.server.stop()
        running.broker.end_waiting()
        await self._ended.wait()

    async def settle(self) -> None:
        """Return once every decided request is durable and its callbacks have run."""
        server = self.running.server
        # Callbacks of a commit can submit more, so one round is not enough.
        while not server.committer.is_idle:
            done = trio.Event()
            server.submit(Submission((), on_ended=lambda _submission, _error: done.set()))  # noqa: B023 - awaited in this iteration
            await done.wait()
