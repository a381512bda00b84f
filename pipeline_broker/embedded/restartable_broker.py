"""A broker over its successive runs."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs
import trio

from pipeline_broker.apis.request_names import names_of
from pipeline_broker.base.first_cause import first_cause
from pipeline_broker.embedded.errors import EmbeddedBrokerError
from pipeline_broker.embedded.life import BrokerRun, Running
from pipeline_broker.embedded.ports import KeptPorts
from pipeline_broker.log.errors import JournalFailed
from pipeline_broker.node.errors import MaintenanceFailedError
from pipeline_broker.telemetry.recent_requests import RecentRequests, RequestNames
from stages.committer import CommitFailedError

if TYPE_CHECKING:
    from pipeline_broker.broker.broker import Broker
    from pipeline_broker.embedded.clock import AdvancedClock
    from pipeline_broker.files.memory_files import MemoryFiles
    from pipeline_broker.node.archive_store import ArchiveStore
    from pipeline_broker.node.options import ServeOptions
    from pipeline_broker.state.leadership.replication import Replication
    from stages.socket_server import SocketServer

__all__ = ["RestartableBroker"]

logger = logging.getLogger(__name__)


class RestartableBroker:
    """A broker with the parts that outlive its runs: files, listening sockets and the latest requests.

    Args:
        options: options of every run.
        requests_max: the number of requests to remember.
        files: the files in memory. None for the directories of the system.
        store: an object store that keeps the data. None for files.
        clock: the broker's wall clock.
        changed: called after a change that a wait may be about.
        replication: factors of topics in a cluster.

    Attributes:
        addresses: the host and port that clients of each listener connect to, by listener name; empty before the start.
        requests: the last requests of clients.
        opened: called with broker and server of each run before its first request.
        is_stopped: True if the broker does not serve while the others of its cluster do.
    """

    def __init__(
        self,
        options: ServeOptions,
        requests_max: int,
        files: MemoryFiles | None,
        store: ArchiveStore | None,
        clock: AdvancedClock,
        changed: Callable[[], None],
        replication: Replication | None = None,
    ) -> None:
        self.node_id = options.config.node_id
        self.files = files
        self.requests = RecentRequests(requests_max, changed, self._names_of)
        self.opened: Callable[[Broker, SocketServer], None] = lambda _broker, _server: None
        self.is_stopped = False
        self.addresses: Mapping[str, tuple[str, int]] = {}
        self._options = options
        self._store = store
        self._clock = clock
        self._changed = changed
        self._replication = replication
        self._ports = KeptPorts()
        self._current_run: BrokerRun | None = None

    def _names_of(self, request: Any) -> Callable[[], RequestNames]:
        return names_of(self.current_run.running.broker, request)

    @property
    def current_run(self) -> BrokerRun:
        assert self._current_run is not None, "called after the start"
        return self._current_run

    @property
    def running(self) -> Running:
        if self.is_stopped:
            raise EmbeddedBrokerError(f"broker {self.node_id} is stopped; start it first")
        return self.current_run.running

    async def start(self, nursery: trio.Nursery, peers: Path | None) -> None:
        options = attrs.evolve(self._options, cluster=peers)
        run = BrokerRun(
            options,
            self.files,
            self._store,
            self._clock,
            self._ports,
            self.requests,
            self._changed,
            self.opened,
            self._replication,
        )
        await nursery.start(run.run if peers is None else functools.partial(self._run, run))
        self._current_run, self.is_stopped = run, False
        advertised = run.running.listeners.advertised(run.running.broker.config)
        self.addresses = {name: advertised.get(name) or it for name, it in run.running.listeners.addresses.items()}
        self._changed()

    async def _run(self, run: BrokerRun, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        # Without a cluster, such a failure ends the embedded broker.
        try:
            await run.run(task_status=task_status)
        except* (CommitFailedError, JournalFailed, MaintenanceFailedError) as errors:
            if run is not self._current_run:
                raise
            logger.warning("broker %d failed: %s", self.node_id, first_cause(errors))
            self.note_stopped()

    async def end(self, drain_seconds: float) -> None:
        if not self.is_stopped:
            await self.current_run.end(drain_seconds)

    def disconnect(self) -> None:
        """Close the connections of all clients without an answer, and accept no new ones."""
        self.close_ports()
        for processor in self.running.server.processors:
            for connection in tuple(processor.connections):
                connection.close()

    def note_stopped(self) -> None:
        self.is_stopped = True
        self.close_ports()
        self._changed()

    def close_ports(self) -> None:
        self._ports.close()
