"""The parts of a serving broker, put together: dispatcher, fault rules, socket server, listeners, and tasks.

A process, an embedded broker and a simulation share them. Signals, observers and commands belong to `process`.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Hashable, Sequence
from typing import Any

import attrs
import trio

from pipeline_broker.apis.dispatch import Dispatcher
from pipeline_broker.apis.fault_switch import FaultSwitch
from pipeline_broker.broker.broker import Broker
from pipeline_broker.faults.files import FaultyFiles
from pipeline_broker.log.journal.entry import JournalEntry
from pipeline_broker.log.journal.journal_port import JournalPort
from pipeline_broker.node.listeners import BrokerListeners
from pipeline_broker.node.options import ServeOptions, commit_pace_of, limits_of, mode_of
from pipeline_broker.node.surroundings import BrokerWiring
from pipeline_broker.node.thread_wakeup import ThreadWakeup
from stages.commit_storage import CommitStorage
from stages.committer import Commit
from stages.request_handler import Application
from stages.server_limits import ServerLimits
from stages.socket_server import SocketServer
from stages.timeline import Timeline

__all__ = ["AssembledBroker", "JournalStorage", "assemble", "compose", "prepare_ahead", "run_timer", "sync_in_time"]

logger = logging.getLogger(__name__)

# The longest sleep of the timer, so that it notices when the wall clock was set.
TIMER_SECONDS_MAX = 1.0


class JournalStorage:
    """A journal as `stages.commit_storage.CommitStorage`.

    Args:
        journal: recovered journal.
        fault_files: files of the journal to which fault rules apply; None for none.
    """

    def __init__(self, journal: JournalPort, fault_files: FaultyFiles | None = None) -> None:
        self._journal, self._fault_files = journal, fault_files
        # Bound methods, not wrappers: these calls are on the path of every commit.
        self.write: Callable[[Sequence[JournalEntry]], Any] = journal.write
        self.sync: Callable[[Any], None] = journal.sync
        self.fail_waiting_writes = journal.detach_archiver

    @property
    def is_synced(self) -> bool:
        policy = self._journal.flush_policy
        return policy is None or policy.may_sync

    def write_nowait(self, entries: Sequence[JournalEntry]) -> Any | None:
        # A fault rule may delay a write, which must not block the event loop.
        if self._fault_files is not None and self._fault_files.is_active:
            return None
        return self._journal.write_nowait(entries)

    @staticmethod
    def key_of(entry: JournalEntry) -> Hashable:
        """Return the partition: commits per request are serial within a partition, as in Kafka."""
        return entry.log.entry_key

    @staticmethod
    def size_of(entry: JournalEntry) -> int:
        return entry.size_bytes


def compose(
    options: ServeOptions,
    wiring: BrokerWiring,
    broker: Broker,
    application: Application,
    storage: CommitStorage,
    *,
    switch: FaultSwitch | None = None,
    limits: ServerLimits | None = None,
    **arguments: Any,
) -> SocketServer:
    """Make the socket server of a broker, and connect both. It does not run yet.

    Args:
        wiring: ports of the broker.
        broker: recovered broker.
        application: dispatcher of the broker, possibly wrapped.
        storage: journal of the broker.
        switch: applies fault rules in the application; None if they do not apply.
        limits: limits of the server; those of the configuration by default.
        arguments: further arguments of SocketServer.
    """

    def commit_ended(commit: Commit) -> None:
        broker.entries_durable(commit.entries)

    arguments.setdefault("commit_pace", commit_pace_of(options, broker.config))
    server = SocketServer(
        mode_of(options.mode.name, broker.config),
        application,
        storage,
        on_commit=commit_ended,
        limits=limits or limits_of(broker.config),
        commits_in_flight=options.commits_in_flight,
        commit_delay_seconds=options.commit_delay_seconds,
        **arguments,
    )
    wiring.connect(broker, server, switch)
    return server


@attrs.frozen(kw_only=True)
class AssembledBroker:
    """A recovered broker and its journal, with bound listeners and a socket server that `start` runs."""

    broker: Broker
    dispatcher: Dispatcher
    server: SocketServer
    listeners: BrokerListeners
    journal: JournalPort
    wiring: BrokerWiring

    async def start(self, nursery: trio.Nursery, *, prepares_ahead: bool = True) -> None:
        """Serve, and start the tasks that a serving broker needs. The end of the server cancels the nursery.

        Args:
            prepares_ahead: whether to prepare disk space for the journal.
        """
        await nursery.start(run_timer, self.broker, self.wiring.timer)
        await nursery.start(self._run_server, nursery.cancel_scope)
        nursery.start_soon(self.wiring.changes.run)
        nursery.start_soon(self.wiring.own_requests.run, self.server, self.broker)
        if prepares_ahead:
            await nursery.start(prepare_ahead, self.journal, self.wiring.prepare_wanted)
        await nursery.start(sync_in_time, self.journal, self.wiring.sync_wanted)

    async def _run_server(
        self, scope: trio.CancelScope, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> None:
        await self.server.run(list(self.listeners), task_status=task_status)
        # The tasks of the nursery have no end of their own.
        scope.cancel()


def assemble(
    options: ServeOptions,
    listeners: BrokerListeners,
    journal: JournalPort,
    broker: Broker,
    wiring: BrokerWiring,
    timeline: Timeline | None,
) -> AssembledBroker:
    """Put together a recovered broker, its listeners and its server. It does not run yet.

    Raises:
        StartError: no listener can be served with the settings of the recovered broker.
    """
    listeners.follow_at_start(broker.config, lambda: broker.scram_users, broker.failed_logins)
    dispatcher = Dispatcher(broker, loads_in_threads=True)
    switch = FaultSwitch(dispatcher, broker)
    storage = JournalStorage(journal, wiring.ports.fault_files)
    server = compose(options, wiring, broker, switch, storage, switch=switch, timeline=timeline)
    return AssembledBroker(
        broker=broker,
        dispatcher=dispatcher,
        server=server,
        listeners=listeners,
        journal=journal,
        wiring=wiring,
    )


async def run_timer(
    broker: Broker,
    wakeup: trio.lowlevel.ParkingLot,
    *,
    task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Call `Broker.advance` at its deadlines until cancelled.

    Unparking `wakeup` makes this task read the next deadline again.
    """
    task_status.started()
    while True:
        deadline_ms = broker.next_deadline_ms()
        now_ms = broker.ports.clock_ms()
        if deadline_ms > now_ms:
            with trio.move_on_after(min((deadline_ms - now_ms) / 1000, TIMER_SECONDS_MAX)):
                await wakeup.park()
        else:
            broker.advance(now_ms)
            # There may be more to do, such as the next markers. Other tasks run in between.
            await trio.lowlevel.checkpoint()


async def prepare_ahead(
    journal: JournalPort, wanted: ThreadWakeup, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
) -> None:
    """Write zeros to the next journal segment whenever the journal requests it, until cancelled."""
    wanted.begin()
    task_status.started()
    while True:
        try:
            await trio.to_thread.run_sync(journal.prepare_ahead, abandon_on_cancel=True)
        # For example a full disk. The journal then continues without a prepared segment, which is slower.
        except OSError as error:
            logger.warning("cannot prepare the next journal segment: %s", error)
        await wanted.wait()


async def sync_in_time(
    journal: JournalPort, wanted: ThreadWakeup, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
) -> None:
    """Sync records that were acknowledged before their sync, at the deadline of the flush policy, until cancelled.

    Returns at once if the journal has no flush policy.

    Raises:
        JournalFailed: a sync failed.
    """
    wanted.begin()
    task_status.started()
    policy = journal.flush_policy
    while policy is not None:
        await wanted.wait()
        deadline = math.inf
        written = trio.current_time()  # no record that waits for a new limit is older
        while policy.sync_within_ms is not None:
            # A later write may have a shorter limit, but never postpones the sync of an earlier one.
            deadline = min(deadline, written + policy.sync_within_ms / 1000)
            with trio.move_on_at(deadline) as scope:
                await wanted.wait()
            written = trio.current_time()
            if scope.cancelled_caught:
                # Records that are written while this sync runs wait for the next one, from now on.
                await trio.to_thread.run_sync(journal.sync_written)
                deadline = math.inf
