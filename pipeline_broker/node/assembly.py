"""A recovered broker and what it serves with: dispatcher, fault rules, socket server, listeners, tasks beside them.

Rules of this room: what every broker that serves has, as a process, embedded or in a simulation; what only a process
has (signals, observers, commands) is elsewhere. It ties together, and decides nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import TYPE_CHECKING, Any

import attrs
import trio

from pipeline_broker.apis.dispatch import Dispatcher
from pipeline_broker.apis.fault_switch import FaultSwitch
from pipeline_broker.node.background import prepare_ahead, run_timer
from pipeline_broker.node.options import ServeOptions, limits_of, mode_of
from stages.committer import Commit
from stages.socket_server import SocketServer

if TYPE_CHECKING:
    from pipeline_broker.broker.broker import Broker
    from pipeline_broker.log.entry import JournalEntry
    from pipeline_broker.log.journal.journal import Journal
    from pipeline_broker.log.journal.ticket import Ticket
    from pipeline_broker.node.listeners import BrokerListeners
    from pipeline_broker.node.surroundings import Surroundings
    from stages.commit_storage import CommitStorage
    from stages.request_handler import Application
    from stages.server_limits import ServerLimits
    from stages.timeline import Timeline

__all__ = ["AssembledBroker", "JournalStorage", "assemble", "compose"]


class JournalStorage:
    """The journal as a committer wants it; see `stages.commit_storage.CommitStorage`."""

    def __init__(self, journal: Journal) -> None:
        self.write: Callable[[Sequence[JournalEntry]], Ticket] = journal.write
        self.sync: Callable[[Ticket], None] = journal.sync
        self.stop_waiting = journal.wait_for_nobody

    @staticmethod
    def key_of(entry: JournalEntry) -> Hashable:
        """Commits per request are serial per partition, as in Apache Kafka."""
        return entry.log.entry_key

    @staticmethod
    def size_of(entry: JournalEntry) -> int:
        """Bytes of an entry."""
        return entry.size_bytes


def compose(
    options: ServeOptions,
    surroundings: Surroundings,
    broker: Broker,
    application: Application,
    storage: CommitStorage,
    *,
    switch: FaultSwitch | None = None,
    limits: ServerLimits | None = None,
    **arguments: Any,
) -> SocketServer:
    """The socket server of a broker, tied to it; it does not run yet.

    Args:
        options: how the broker is started.
        surroundings: of the broker.
        broker: recovered.
        application: a Dispatcher of the broker, or what stands around one.
        storage: the broker's journal.
        switch: where fault rules act in the application; None where they do not.
        limits: bounds other than those of the configuration.
        arguments: further ones of SocketServer, such as who observes it.
    """

    def commit_ended(commit: Commit) -> None:
        broker.entries_durable(commit.entries)

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
    surroundings.connect(broker, server, switch)
    return server


@attrs.frozen(kw_only=True)
class AssembledBroker:
    """What a broker serves with, tied together.

    Attributes:
        broker: owns all state.
        dispatcher: decides requests.
        server: its socket server.
        listeners: where it listens.
        journal: what it commits to.
        surroundings: of the broker.
    """

    broker: Broker
    dispatcher: Dispatcher
    server: SocketServer
    listeners: BrokerListeners
    journal: Journal
    surroundings: Surroundings

    async def start(self, nursery: trio.Nursery, *, prepares_ahead: bool = True) -> None:
        """Serve, and do what a broker does meanwhile; the nursery is cancelled when the server has ended.

        Args:
            nursery: where all of it runs.
            prepares_ahead: whether disk space is prepared for the journal.
        """
        await nursery.start(run_timer, self.broker, self.surroundings.timer)
        await nursery.start(self._run_server, nursery.cancel_scope)
        nursery.start_soon(self.surroundings.changes.run)
        if prepares_ahead:
            await nursery.start(prepare_ahead, self.journal)

    async def _run_server(
        self, scope: trio.CancelScope, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> None:
        await self.server.run(list(self.listeners), task_status=task_status)
        scope.cancel()


def assemble(
    options: ServeOptions,
    listeners: BrokerListeners,
    journal: Journal,
    broker: Broker,
    surroundings: Surroundings,
    timeline: Timeline | None,
) -> AssembledBroker:
    """A recovered broker on its listeners, with the place where fault rules come in; it does not run yet."""
    listeners.follow_at_start(broker.config, lambda: broker.scram_users)
    dispatcher = Dispatcher(broker)
    switch = FaultSwitch(dispatcher, broker)
    storage = JournalStorage(journal)
    server = compose(options, surroundings, broker, switch, storage, switch=switch, timeline=timeline)
    return AssembledBroker(
        broker=broker,
        dispatcher=dispatcher,
        server=server,
        listeners=listeners,
        journal=journal,
        surroundings=surroundings,
    )
