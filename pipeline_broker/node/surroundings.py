"""The ports of a broker, connected to its server."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import trio

from pipeline_broker.broker.ports import ClusterPort, Ports, wall_clock_ms
from pipeline_broker.node.live_changes import LiveChanges
from pipeline_broker.node.own_requests import OwnRequests
from pipeline_broker.node.thread_wakeup import ThreadWakeup
from stages.committer import Submission

if TYPE_CHECKING:
    from pipeline_broker.apis.fault_switch import FaultSwitch
    from pipeline_broker.broker.broker import Broker
    from pipeline_broker.faults.faults import Faults
    from pipeline_broker.faults.files import FaultyFiles
    from pipeline_broker.log.journal.entry import JournalEntry
    from pipeline_broker.node.archive_store import ArchiveStore
    from pipeline_broker.node.listeners import BrokerListeners
    from stages.mode import Mode
    from stages.socket_server import SocketServer

__all__ = ["BrokerWiring"]


class BrokerWiring:
    """Ports that lead to a server made later.

    A broker is recovered before its server exists, because a failed startup must not serve. So the broker gets its
    ports first, and `connect` sets the server once.

    Args:
        listeners: listeners of the server; None if a test connects its clients itself.
        clock_ms, fetch_parked, fault_files: see `Ports`.
        store: object store of the archive; None without one.
        cluster: the way to the controller; None without a cluster.

    Attributes:
        timer: wakes the broker's timer.
        changes: applies changes of the configuration.
        own_requests: handles requests of the broker to itself.
        segment_sealed: wakes the task that archives.
        prepare_wanted: wakes the task that prepares the next segment of the journal.
        sync_wanted: wakes the task that syncs the journal.
    """

    def __init__(
        self,
        mode: Mode,
        listeners: BrokerListeners | None = None,
        *,
        clock_ms: Callable[[], int] = wall_clock_ms,
        fetch_parked: Callable[[], None] = lambda: None,
        fault_files: FaultyFiles | None = None,
        store: ArchiveStore | None = None,
        cluster: ClusterPort | None = None,
    ) -> None:
        self.timer = trio.lowlevel.ParkingLot()
        self.changes = LiveChanges(mode, listeners)
        self.own_requests = OwnRequests()
        self.segment_sealed = ThreadWakeup()
        self.prepare_wanted = ThreadWakeup()
        self.sync_wanted = ThreadWakeup()
        self._server: SocketServer | None = None
        self._switch: FaultSwitch | None = None
        self.ports = Ports(
            clock_ms=clock_ms,
            wake_timer=self._wake_timer,
            submit=self._submit,
            advertised=self.changes.advertised,
            check_config=self.changes.check,
            config_changed=self.changes.follow,
            ip_rates_changed=self.changes.follow_ip_rates,
            fetch_parked=fetch_parked,
            segment_sealed=self.segment_sealed,
            prepare_wanted=self.prepare_wanted,
            sync_wanted=self.sync_wanted,
            faults_changed=self._faults_changed,
            fault_files=fault_files,
            fault_store=None if store is None else store.faults,
            store_figures=None if store is None else store.figures,
            # A queue shared by all handlers is 0 in the mode.
            request_queues=max(1, mode.queues),
            ask_self=self.own_requests.ask,
            cluster=cluster,
        )

    def connect(self, broker: Broker, server: SocketServer, switch: FaultSwitch | None = None) -> None:
        """Connect the ports of the recovered broker to the server.

        Args:
            broker: broker with these ports.
            server: server that will run.
            switch: applies the fault rules to requests; None if they do not apply.
        """
        self._server, self._switch = server, switch
        self.changes.connect(broker, server)

    def _wake_timer(self) -> None:
        self.timer.unpark_all()

    def _submit(self, entries: Sequence[JournalEntry], on_durable: Callable[[], None]) -> None:
        assert self._server is not None, "entries are submitted only after `connect`"
        self._server.submit(Submission(entries, on_durable=on_durable))

    def _faults_changed(self, faults: Faults) -> None:
        # Rules from a file are added before the server exists; `connect` passes a switch that has read them.
        if self._switch is not None:
            self._switch.follow(faults)
