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
import random
import signal
import sys
from collections.abc import Callable, Hashable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs
import trio

from pipeline_broker.apis.dispatch import Dispatcher, wall_clock_ms
from pipeline_broker.background import prepare_ahead, run_timer
from pipeline_broker.broker import Broker
from pipeline_broker.log.errors import DirectoryLocked, JournalCorrupt, JournalFailed
from pipeline_broker.log.file_system import FileSystem, SystemFileSystem
from pipeline_broker.log.journal import SEGMENT_BYTES, Flush, Journal
from pipeline_broker.log.log_manager import LogManager
from pipeline_broker.observers import Observers, ObserversUnavailableError, first_cause
from pipeline_broker.state.group_records import CorruptStateRecordError
from pipeline_broker.state.metadata_records import CorruptMetadataRecordError
from stages.committer import Commit, CommitFailedError, CommitStorage, Submission
from stages.connection import ConnectionLimits
from stages.connection_quotas import ConnectionQuotaLimits
from stages.listener import Listener, open_listener
from stages.mode import MODES, SHARED_QUEUE, Batching, Mode
from stages.request_channel import BYTES_MAX
from stages.request_handler import Application
from stages.socket_server import ServerLimits, SocketServer

if TYPE_CHECKING:
    from pipeline_broker.config.settings import BrokerConfig
    from pipeline_broker.log.entry import JournalEntry
    from pipeline_broker.log.journal import Ticket

__all__ = ["ServeOptions", "StartError", "compose", "mode_of", "open_broker", "run", "serve"]

logger = logging.getLogger(__name__)

LISTENER_NAME = "PLAINTEXT"
DEFAULT_DATA = Path("data")
NO_LIMIT_MS = 0
GARBAGE_THRESHOLD = 20_000
"""New objects before the garbage collector looks: requests form no cycles, and some thousands are in flight."""
ADVERTISED_FOR_WILDCARD = "127.0.0.1"


class StartError(Exception):
    """The broker cannot start; the text is one line that says what to do."""


@attrs.frozen(kw_only=True)
class ServeOptions:
    """How a broker is started.

    Attributes:
        mode: the request path, with its axes.
        flush: "always" or "os".
        host, port: where to listen; port 0 takes a free one.
        data: the data directory.
        trace: where trace files are written, if at all.
        commit_delay_seconds: an injected delay per commit.
        commits_in_flight: group commits that run at once.
        metrics_port: port of the Prometheus endpoint, if any.
        config: what the broker acts on.
    """

    mode: Mode
    flush: str
    host: str
    port: int
    data: Path
    config: BrokerConfig
    trace: Path | None = None
    commit_delay_seconds: float = 0.0
    commits_in_flight: int = 1
    metrics_port: int | None = None

    @classmethod
    def from_command_line(cls, config: BrokerConfig, options: Mapping[str, Any]) -> ServeOptions:
        """The options of the command line over those of the configuration."""
        configured_host, configured_port = config.listen_address
        host, port, data = options["host"], options["port"], options["data"]
        if data is None:
            data = DEFAULT_DATA if config.data_directory is None else Path(config.data_directory)
        return cls(
            mode=mode_of(options["mode"], config),
            flush=options["flush"],
            host=configured_host if host is None else host,
            port=configured_port if port is None else port,
            data=data,
            trace=options["trace"],
            commit_delay_seconds=options["commit_delay_seconds"],
            commits_in_flight=options["commits_in_flight"],
            metrics_port=options["metrics"],
            config=config,
        )


def mode_of(name: str, config: BrokerConfig) -> Mode:
    """A preset with the axes that the configuration overrides."""
    preset = MODES[name]
    handlers = config.num_io_threads
    queues = config.pipeline_queues
    if queues is None:
        queues = SHARED_QUEUE if preset.is_shared_queue else handlers
    return attrs.evolve(
        preset,
        queues=queues,
        handlers=handlers,
        in_flight_max=preset.in_flight_max if config.pipeline_in_flight is None else config.pipeline_in_flight,
        batching=preset.batching if config.pipeline_commit is None else Batching(config.pipeline_commit),
    )


def with_actual_settings(options: ServeOptions, port: int) -> ServeOptions:
    """The options with the settings that clients are shown: the command line says where to listen and to keep data."""
    actual = {"listeners": f"PLAINTEXT://{options.host}:{port}", "log.dirs": str(options.data)}
    config = attrs.evolve(options.config, properties={**options.config.properties, **actual})
    return attrs.evolve(options, config=config)


def mode_with(options: ServeOptions, config: BrokerConfig) -> Mode:
    """The mode that was asked for, with what was changed while the broker ran the last time."""
    if config.num_io_threads == options.config.num_io_threads:
        return options.mode
    return mode_of(options.mode.name, config)


def reconfigure(server: SocketServer, config: BrokerConfig) -> None:
    """Let a running server follow a changed configuration; the number of its processors follows at the next start."""
    server.quotas.limits = limits_of(config).quotas
    if server.mode.is_shared_queue:
        server.handlers.resize_handlers(config.num_io_threads)
    elif config.pipeline_queues is None:
        server.handlers.resize_queues(config.num_io_threads)


class JournalStorage:
    """The journal as a committer wants it; see `stages.committer.CommitStorage`."""

    def __init__(self, journal: Journal) -> None:
        self.write: Callable[[Sequence[JournalEntry]], Ticket] = journal.write
        self.sync: Callable[[Ticket], None] = journal.sync

    @staticmethod
    def key_of(entry: JournalEntry) -> Hashable:
        """Commits per request are serial per partition, as in Apache Kafka."""
        return entry.log.entry_key

    @staticmethod
    def size_of(entry: JournalEntry) -> int:
        """Bytes of an entry."""
        return entry.size_bytes


def limits_of(config: BrokerConfig) -> ServerLimits:
    """The bounds of the socket server that the configuration asks for."""
    idle_ms = config.connections_max_idle_ms
    return ServerLimits(
        connection=ConnectionLimits(
            frame_bytes_max=config.socket_request_max_bytes,
            idle_seconds_max=float("inf") if idle_ms < NO_LIMIT_MS else idle_ms / 1000,
        ),
        requests_max=config.queued_max_requests,
        bytes_max=config.queued_max_request_bytes if config.queued_max_request_bytes > 0 else BYTES_MAX,
        processors=config.num_network_threads,
        quotas=ConnectionQuotaLimits(
            connections_max=config.max_connections,
            connections_max_per_ip=config.max_connections_per_ip,
            connections_max_by_ip=config.connection_limit_overrides(),
            creation_rate_max=config.max_connection_creation_rate,
        ),
    )


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
        broker = Broker(options.config, LogManager(journal), randomness)
        now_ms = clock_ms()
        broker.recover(now_ms)
        entries = broker.first_entries(now_ms)
        if entries:
            journal.sync(journal.write(entries))
            broker.entries_durable(entries)
    except (JournalCorrupt, JournalFailed, CorruptMetadataRecordError, CorruptStateRecordError) as error:
        journal.close()
        raise StartError(f"{options.data}: {error}") from None
    except OSError as error:
        journal.close()
        raise StartError(f"cannot read the data directory {options.data}: {error.strerror or error}") from None
    return journal, broker


def bind(options: ServeOptions) -> Listener:
    """Bind the listener.

    Raises:
        StartError: the address cannot be had.
    """
    try:
        return open_listener(
            LISTENER_NAME,
            options.host,
            options.port,
            backlog=options.config.socket_listen_backlog_size,
            send_buffer_bytes=options.config.socket_send_buffer_bytes,
            receive_buffer_bytes=options.config.socket_receive_buffer_bytes,
        )
    except OSError as error:
        raise StartError(
            f"cannot listen on {options.host}:{options.port}: {error.strerror or error}; choose another --port"
        ) from None


def open_observers(options: ServeOptions) -> Observers:
    """The observers that were asked for.

    Raises:
        StartError: one of them cannot begin.
    """
    address = None if options.metrics_port is None else (options.host, options.metrics_port)
    try:
        return Observers(options.mode, options.trace, address)
    except ObserversUnavailableError as error:
        raise StartError(str(error)) from None


def ready_line(options: ServeOptions, port: int) -> str:
    """What is printed when the broker serves."""
    return f"listening on {options.host}:{port} mode={options.mode.name} data={options.data}"


async def serve(
    options: ServeOptions,
    *,
    on_ready: Callable[[str], None] = lambda line: print(line, flush=True),  # noqa: T201 - the ready line is the interface
    task_status: trio.TaskStatus[SocketServer] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Run a broker until SIGTERM or SIGINT, or until a commit fails.

    Raises:
        StartError: see `open_broker` and `bind`.
        CommitFailedError: a commit failed.
    """
    with contextlib.ExitStack() as stack:
        listener = bind(options)
        assert listener.sock is not None
        stack.callback(listener.sock.close)
        options = with_actual_settings(options, listener.port)
        observers = open_observers(options)
        stack.callback(observers.close)
        journal, broker = open_broker(options)
        stack.callback(journal.close)
        await _serve(options, listener, journal, broker, observers, on_ready, task_status)


def compose(
    options: ServeOptions, broker: Broker, application: Application, storage: CommitStorage, **arguments: Any
) -> SocketServer:
    """The socket server of a broker, tied to it; it does not run yet.

    Args:
        options: how the broker is started.
        broker: recovered.
        application: a Dispatcher of the broker, or what stands around one.
        storage: the broker's journal.
        arguments: further ones of SocketServer, such as who observes it.
    """

    def commit_ended(commit: Commit) -> None:
        broker.entries_durable(commit.entries)

    server = SocketServer(
        mode_with(options, broker.config),
        application,
        storage,
        on_commit=commit_ended,
        limits=limits_of(broker.config),
        commits_in_flight=options.commits_in_flight,
        commit_delay_seconds=options.commit_delay_seconds,
        **arguments,
    )
    broker.groups.submit = lambda entries, on_durable: server.submit(Submission(entries, on_durable=on_durable))
    broker.config_changed = functools.partial(reconfigure, server)
    return server


async def _serve(
    options: ServeOptions,
    listener: Listener,
    journal: Journal,
    broker: Broker,
    observers: Observers,
    on_ready: Callable[[str], None],
    task_status: trio.TaskStatus[SocketServer],
) -> None:
    server = compose(options, broker, Dispatcher(broker), JournalStorage(journal), timeline=observers.timeline)
    advertised = options.config.advertised_address
    host = options.host if options.host not in {"", "0.0.0.0", "::"} else ADVERTISED_FOR_WILDCARD  # noqa: S104 - compared
    broker.advertised_host, broker.advertised_port = advertised or (host, listener.port)
    with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
        async with observers.observing(server), trio.open_nursery() as nursery:
            nursery.start_soon(_stop_on_signal, signals, server, broker)
            await nursery.start(run_timer, broker, wall_clock_ms)
            nursery.start_soon(_run_server, server, listener, nursery.cancel_scope)
            await nursery.start(prepare_ahead, journal)
            on_ready(ready_line(options, listener.port))
            task_status.started(server)


async def _run_server(server: SocketServer, listener: Listener, scope: trio.CancelScope) -> None:
    await server.run([listener])
    scope.cancel()


async def _stop_on_signal(signals: Any, server: SocketServer, broker: Broker) -> None:
    async for _ in signals:
        server.stop()
        broker.fetches.end()


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
        raise
