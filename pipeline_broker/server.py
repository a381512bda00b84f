"""A broker as a process: data directory, socket server, timers, signals.

Rules of this room: it holds the nurseries and does the I/O that the synchronous rooms ask for; it decides nothing about
Kafka. What makes a start fail is one StartError with one line. A failed commit ends the process with a code that is not
zero, with nothing acknowledged after it.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import logging
import os
import random
import signal
import sys
from collections.abc import Callable, Hashable, Sequence
from typing import TYPE_CHECKING, Any

import attrs
import trio

from pipeline_broker.admin import serve_admin
from pipeline_broker.apis.dispatch import Dispatcher, wall_clock_ms
from pipeline_broker.apis.fault_switch import FaultSwitch
from pipeline_broker.background import prepare_ahead, run_timer
from pipeline_broker.broker import Broker
from pipeline_broker.fault_commands import fault_commands
from pipeline_broker.faults.files import FaultyFiles
from pipeline_broker.listeners import BrokerListeners
from pipeline_broker.live_changes import LiveChanges, follow_ip_rates, reconfigure
from pipeline_broker.log.archive.archive import Archive
from pipeline_broker.log.errors import DamagedSegment, DirectoryLocked, JournalCorrupt, JournalFailed, ManifestDamaged
from pipeline_broker.log.file_system import FileSystem, SystemFileSystem
from pipeline_broker.log.journal import SEGMENT_BYTES, Flush, Journal
from pipeline_broker.log.log_manager import LogManager
from pipeline_broker.observers import Observers, ObserversUnavailableError, first_cause
from pipeline_broker.serve_options import ServeOptions, StartError, limits_of, mode_of
from pipeline_broker.state.errors import CorruptStateRecordError
from pipeline_broker.state.metadata_records import CorruptMetadataRecordError
from pipeline_broker.timelines import Timelines
from stages.commit_storage import CommitStorage
from stages.committer import Commit, CommitFailedError, Submission
from stages.request_handler import Application
from stages.server_limits import ServerLimits
from stages.socket_server import SocketServer

if TYPE_CHECKING:
    from pipeline_broker.faults.rule_text import RuleParts
    from pipeline_broker.log.entry import JournalEntry
    from pipeline_broker.log.ticket import Ticket
    from pipeline_broker.upkeep import Upkeep

__all__ = ["ServeOptions", "StartError", "compose", "open_broker", "run", "serve"]

logger = logging.getLogger(__name__)

REQUEST_LOG_NAME = "kafka-request.log"
"""In the data directory: where requests are logged when a client asks for it and the start named no file."""
DAMAGES = (
    JournalCorrupt,
    JournalFailed,
    ManifestDamaged,
    DamagedSegment,
    CorruptMetadataRecordError,
    CorruptStateRecordError,
)
"""Of a data directory: why a start is refused."""
GARBAGE_THRESHOLD = 20_000
"""New objects before the garbage collector looks: requests form no cycles, and some thousands are in flight; neither
do the objects that a start makes."""


def with_actual_settings(options: ServeOptions, listeners: BrokerListeners) -> ServeOptions:
    """The options with the settings that clients are shown: where the broker really listens and keeps its data."""
    config = options.config.with_addresses(listeners.addresses)
    config = attrs.evolve(config, properties={**config.properties, "log.dirs": str(options.data)})
    return attrs.evolve(options, config=config)


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


def open_broker(
    options: ServeOptions,
    *,
    files: FileSystem | None = None,
    segment_bytes: int = SEGMENT_BYTES,
    clock_ms: Callable[[], int] = wall_clock_ms,
    randomness: random.Random | None = None,
) -> tuple[Journal, Broker]:
    """Take the data directory and bring its state back.

    Args:
        options: where it is, and what the broker acts on.
        files: another file system than the system's, for simulations, as the arguments below.
        segment_bytes: how long a file of the journal gets.
        clock_ms: wall clock.
        randomness: where ids come from.

    Raises:
        StartError: it is in use, damaged, or not usable.
    """
    files = SystemFileSystem() if files is None else files
    try:
        files.make_directory(options.data)
        flush: Flush = "always" if options.flush == "always" else "os"
        journal = Journal.open(options.data, flush=flush, segment_bytes=segment_bytes, files=files)
    except DirectoryLocked as error:
        raise StartError(str(error)) from None
    except OSError as error:
        reason = "not a directory" if isinstance(error, FileExistsError) else error.strerror or error
        raise StartError(f"cannot use the data directory {options.data}: {reason}") from None
    try:
        clean = journal.clean_shutdown
        archive = Archive.open(options.data, files, None if clean is None else clean.manifest)
        journal.manifest_end = lambda: archive.manifest_end
        broker = Broker(options.config, LogManager(journal, archive=archive, randomness=randomness), randomness)
        now_ms = clock_ms()
        broker.recover(now_ms)
        entries = broker.first_entries(now_ms)
        if entries:
            journal.sync(journal.write(entries))
            broker.entries_durable(entries)
    except DAMAGES as error:
        journal.close()
        raise StartError(f"{options.data}: {error}") from None
    except OSError as error:
        journal.close()
        raise StartError(f"cannot read the data directory {options.data}: {error.strerror or error}") from None
    return journal, broker


def upkeep_of(broker: Broker, clock_ms: Callable[[], int] = wall_clock_ms) -> Upkeep:
    """Who looks after the logs of a broker that has an archive."""
    from pipeline_broker.upkeep import Upkeep  # noqa: PLC0415 - see `_start_upkeep`

    assert broker.logs.archive is not None, "open_broker gives it one"
    return Upkeep(broker.logs, broker.logs.archive, lambda: broker.config, clock_ms, broker.fetches.wake)


def open_observers(options: ServeOptions) -> Observers:
    """The observers that were asked for.

    Raises:
        StartError: one of them cannot begin.
    """
    address = None if options.metrics_port is None else (options.host, options.metrics_port)
    try:
        return Observers(
            options.mode,
            options.trace,
            address,
            options.data / REQUEST_LOG_NAME if options.request_log is None else options.request_log,
            logs_requests=options.request_log is not None,
            dashboard=options.dashboard,
        )
    except ObserversUnavailableError as error:
        raise StartError(str(error)) from None


def fault_rules(options: ServeOptions) -> list[RuleParts]:
    """The fault rules that a broker is to begin with.

    Raises:
        StartError: their file is wrong.
    """
    if options.faults is None:
        return []
    from pipeline_broker.faults.names import FaultError  # noqa: PLC0415 - for those who asked
    from pipeline_broker.faults.rule_file import read_rules  # noqa: PLC0415 - see above

    try:
        return read_rules(options.faults)
    except FaultError as error:
        raise StartError(str(error)) from None


def ready_line(options: ServeOptions, listeners: BrokerListeners) -> str:
    """What is printed when the broker serves."""
    return f"listening on {listeners.first_address} mode={options.mode.name} data={options.data}"


async def serve(
    options: ServeOptions,
    *,
    on_ready: Callable[[str], None] = lambda line: print(line, flush=True),  # noqa: T201 - the ready line is the interface
    task_status: trio.TaskStatus[SocketServer] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Run a broker until SIGTERM or SIGINT, or until a commit fails.

    Raises:
        StartError: see `open_broker` and `BrokerListeners`.
        CommitFailedError: a commit failed.
    """
    with contextlib.ExitStack() as stack:
        listeners = BrokerListeners(options.config)
        stack.callback(listeners.close)
        options = with_actual_settings(options, listeners)
        rules = fault_rules(options)
        observers = open_observers(options)
        stack.callback(observers.close)
        files = FaultyFiles(SystemFileSystem())
        files.crash = functools.partial(os.kill, os.getpid(), signal.SIGKILL)
        journal, broker = open_broker(options, files=files)
        broker.fault_files = files
        stack.callback(journal.close)
        for rule in rules:
            broker.faults.add(*rule, "file")
        await _serve(options, listeners, journal, broker, observers, on_ready, task_status)


def compose(
    options: ServeOptions,
    broker: Broker,
    application: Application,
    storage: CommitStorage,
    *,
    limits: ServerLimits | None = None,
    **arguments: Any,
) -> SocketServer:
    """The socket server of a broker, tied to it; it does not run yet.

    Args:
        options: how the broker is started.
        broker: recovered.
        application: a Dispatcher of the broker, or what stands around one.
        storage: the broker's journal.
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
    for coordinator in broker.coordinators:
        coordinator.submit = lambda entries, on_durable: server.submit(Submission(entries, on_durable=on_durable))
    broker.config_changed = functools.partial(reconfigure, server)
    follow_ip_rates(server, broker.quotas)
    return server


async def _serve(
    options: ServeOptions,
    listeners: BrokerListeners,
    journal: Journal,
    broker: Broker,
    observers: Observers,
    on_ready: Callable[[str], None],
    task_status: trio.TaskStatus[SocketServer],
) -> None:
    listeners.follow_at_start(broker.config, lambda: broker.scram_users)
    application = FaultSwitch(Dispatcher(broker), broker)
    server = compose(options, broker, application, JournalStorage(journal), timeline=observers.timeline)
    changes = LiveChanges(server, listeners, broker)
    timelines = Timelines(broker, server, functools.partial(observers.publish, server), wall_clock_ms)
    with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
        async with observers.observing(server, broker), trio.open_nursery() as nursery:
            nursery.start_soon(_stop_on_signal, signals, server, broker, timelines)
            await nursery.start(run_timer, broker, wall_clock_ms)
            await nursery.start(timelines.run)
            if broker.config.pipeline_timelines:
                timelines.switch_on()
            nursery.start_soon(_run_server, server, listeners, nursery.cancel_scope)
            nursery.start_soon(changes.run)
            await nursery.start(prepare_ahead, journal)
            await _start_upkeep(nursery, options, broker, timelines)
            if server.is_stopping:
                return
            for line in listeners.further_lines:
                print(line, file=sys.stderr, flush=True)  # noqa: T201 - stdout has the ready line alone
            on_ready(ready_line(options, listeners))
            task_status.started(server)


async def _start_upkeep(nursery: trio.Nursery, options: ServeOptions, broker: Broker, timelines: Timelines) -> None:
    """Look after the logs, and do as the commands of an operator say.

    The rooms behind that are a tenth of what a start imports. A thread does it, so that clients are answered meanwhile.
    """
    upkeep = await trio.to_thread.run_sync(upkeep_of, broker)
    await nursery.start(upkeep.run)
    commands = upkeep.commands() | fault_commands(broker) | timelines.commands()
    await nursery.start(serve_admin, options.data, commands)


async def _run_server(server: SocketServer, listeners: BrokerListeners, scope: trio.CancelScope) -> None:
    await server.run(list(listeners))
    scope.cancel()


async def _stop_on_signal(signals: Any, server: SocketServer, broker: Broker, timelines: Timelines) -> None:
    async for _ in signals:
        await timelines.end()
        server.stop()
        broker.end_waiting()


def run(options: ServeOptions, on_ready: Callable[[str], None]) -> None:
    """Run a broker in this process; returns after a clean end.

    Raises:
        StartError: it cannot start.
        SystemExit: a commit failed.
    """

    def ready(line: str) -> None:
        on_ready(line)
        gc.freeze()

    gc.set_threshold(GARBAGE_THRESHOLD)
    try:
        trio.run(functools.partial(serve, options, on_ready=ready))
    except StartError:
        raise
    except BaseExceptionGroup as errors:
        cause = first_cause(errors)
        if isinstance(cause, ObserversUnavailableError | StartError):
            raise StartError(str(cause)) from None
        if isinstance(cause, CommitFailedError):
            logger.critical("%s; nothing after it was acknowledged", cause)
            sys.exit(1)
        from pipeline_broker.upkeep import UpkeepFailedError  # noqa: PLC0415 - see `_start_upkeep`

        if isinstance(cause, UpkeepFailedError):
            logger.critical("%s", cause)
            sys.exit(1)
        raise
