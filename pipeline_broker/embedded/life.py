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
from pipeline_broker.node.assembly import assemble
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
    from stages.socket_server import SocketServer
    from stages.timeline import Timeline

__all__ = ["DEADLINES_MAX", "MEMORY_DIRECTORY", "BrokerRun", "Running"]

MEMORY_DIRECTORY = Path("/embedded")
"""The log directory that a broker in memory reports to clients. It does not exist on disk."""
# A sealed segment frees memory once it is archived, so small segments keep the journal small.
MEMORY_SEGMENT_BYTES = 4 << 20
DEADLINES_MAX = 1_000
"""`advance` runs up to this many timers one by one, and all further ones together."""


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
    ) -> None:
        self._options = options
        self._files = files
        self._store = store
        self._clock = clock
        self._ports = ports
        self._timeline = timeline
        self._fetch_parked = fetch_parked
        self._ended = trio.Event()
        self._running: Running | None = None

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
                segment_bytes = MEMORY_SEGMENT_BYTES if in_memory else SEGMENT_BYTES
                files = FaultyFiles(SystemFileSystem() if self._files is None else self._files)
                wiring = BrokerWiring(
                    options.mode,
                    listeners,
                    clock_ms=self._clock.now_ms,
                    fetch_parked=self._fetch_parked,
                    fault_files=files,
                    store=self._store,
                )
                journal, broker = open_broker(
                    options.data,
                    options.config,
                    flush=options.flush,
                    files=files,
                    segment_bytes=segment_bytes,
                    ports=wiring.ports,
                    store=self._store,
                )
                stack.callback(broker.logs.close)
                assembled = assemble(options, listeners, journal, broker, wiring, self._timeline)
                maintenance = maintenance_of(broker, wiring.segment_sealed)
                async with trio.open_nursery() as nursery:
                    await assembled.start(nursery, prepares_ahead=not in_memory)
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

    async def end(self, drain_seconds: float) -> None:
        """Answer requests in flight for up to `drain_seconds`, close all connections, and wait for the end of `run`."""
        running = self.running
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

    async def advance(self, seconds: float) -> None:
        """Move the clock forward and run expired timers, then run retention and compaction.

        Up to DEADLINES_MAX timers run one by one, each at its time.
        """
        clock, broker = self._clock, self.running.broker
        remaining_ms = round(seconds * 1000)
        for _ in range(DEADLINES_MAX):
            deadline_ms = broker.coordinators.next_deadline_ms()
            # Run timers in their order: one that fires can set others, such as a rebalance after an expired session.
            if deadline_ms is None:
                break
            step_ms = max(0, deadline_ms - clock.now_ms())
            if step_ms > remaining_ms:
                break
            clock.advance(step_ms)
            remaining_ms -= step_ms
            broker.advance(clock.now_ms())
            await self.settle()
        clock.advance(remaining_ms)
        broker.advance(clock.now_ms())
        broker.ports.wake_timer()
        await self.settle()
        await self.running.maintenance.retain()
        await self.running.maintenance.compact()
