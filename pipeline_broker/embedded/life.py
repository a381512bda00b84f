"""One life of an embedded broker on the event loop: from its files to its end.

Rules of this file: everything is the broker's own but what a process has and a thread has not: no signals, no commands
from outside, and in memory no disk space that is prepared ahead. A life ends by `end`, or by an error of the disk.
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

__all__ = ["DEADLINES_MAX", "MEMORY_DIRECTORY", "Life", "Running"]

MEMORY_DIRECTORY = Path("/embedded")
"""Where the files of a broker in memory are, as clients are told; no such directory is made."""
MEMORY_SEGMENT_BYTES = 4 << 20
"""How long a file of the journal gets in memory, where it is no use to have much of it."""
DEADLINES_MAX = 1_000
"""When the clock is advanced, at most this many timers fire one by one; the others fire together."""


@attrs.frozen(kw_only=True)
class Running:
    """What a running broker is made of.

    Attributes:
        server: its socket server.
        dispatcher: what decides requests.
        maintenance: maintains the logs.
        listeners: where it listens.
    """

    broker: Broker
    server: SocketServer
    dispatcher: Dispatcher
    maintenance: LogMaintenance
    listeners: BrokerListeners


class Life:
    """See the rules.

    Args:
        options: how the broker is started.
        files: what it keeps its files in; None for the system's directories.
        store: what it keeps in place of files, but for the name of the store; None for none.
        clock: its wall clock.
        ports: where it listens.
        timeline: told of every request.
        fetch_parked: called when a fetch has begun to wait.
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
        """What it is made of, while it runs."""
        assert self._running is not None, "a life is shown once it has begun"
        return self._running

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Serve until `end`.

        Raises:
            StartError: see `open_broker` and `BrokerListeners`.
            CommitFailedError, MaintenanceFailedError: the disk failed.
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
        """Answer what is in flight, for so long at most, and end; connections are closed."""
        running = self.running
        running.server.limits = attrs.evolve(running.server.limits, drain_seconds=drain_seconds)
        running.server.stop()
        running.broker.end_waiting()
        await self._ended.wait()

    async def settle(self) -> None:
        """Return when everything that was decided by now is durable, and done what depends on that."""
        server = self.running.server
        while not server.committer.is_idle:
            done = trio.Event()
            server.submit(Submission((), on_ended=lambda _submission, _error: done.set()))  # noqa: B023 - waited for here
            await done.wait()

    async def advance(self, seconds: float) -> None:
        """Let the broker's clock go on by so much, and do what is due, timer by timer; see DEADLINES_MAX."""
        clock, broker = self._clock, self.running.broker
        remaining_ms = round(seconds * 1000)
        for _ in range(DEADLINES_MAX):
            deadline_ms = broker.coordinators.next_deadline_ms()
            if deadline_ms is None:
                break
            step_ms = max(0, deadline_ms - clock.now_ms())
            if step_ms > remaining_ms:
                break
            clock.ahead_ms += step_ms
            remaining_ms -= step_ms
            broker.advance(clock.now_ms())
            await self.settle()
        clock.ahead_ms += remaining_ms
        broker.advance(clock.now_ms())
        broker.ports.wake_timer()
        await self.settle()
        await self.running.maintenance.retain()
        await self.running.maintenance.compact()
