"""The `serve` process: startup, the nurseries of all tasks, signals, and exit codes.

A failed commit ends the process with a non-zero exit code. Nothing is acknowledged after it.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING, Any, NoReturn

import attrs
import trio

from pipeline_broker.base.first_cause import first_cause
from pipeline_broker.base.owner_only import is_open_to_others
from pipeline_broker.base.unavailable import UnavailableError
from pipeline_broker.broker.ports import wall_clock_ms
from pipeline_broker.broker.topic_policies import flush_rules_of
from pipeline_broker.faults.files import FaultyFiles
from pipeline_broker.files.errors import FencedError
from pipeline_broker.files.file_system import SystemFileSystem
from pipeline_broker.log.archive.local.archive_place import ArchivePlace
from pipeline_broker.log.errors import JournalFailed
from pipeline_broker.node.admin_socket import serve_admin
from pipeline_broker.node.assembly import assemble
from pipeline_broker.node.cluster_directory import leave_cluster
from pipeline_broker.node.cluster_role import CONTROLLER_ID, ClusterRole, joined_metadata, role_of
from pipeline_broker.node.data_directory import maintenance_of, open_broker
from pipeline_broker.node.errors import MaintenanceFailedError, StartError, TakenOverError
from pipeline_broker.node.file_renewal import FileRenewal, renew_on_hangup
from pipeline_broker.node.freed_memory import return_regularly
from pipeline_broker.node.garbage import shorten_collections
from pipeline_broker.node.heartbeat import beat
from pipeline_broker.node.http_files import open_http_security
from pipeline_broker.node.listeners import BrokerListeners
from pipeline_broker.node.observers import Observers
from pipeline_broker.node.operator_commands import Command, fault_commands
from pipeline_broker.node.options import ServeOptions
from pipeline_broker.node.service_manager import notify
from pipeline_broker.node.surroundings import BrokerWiring
from pipeline_broker.node.timelines import Timelines
from pipeline_broker.security.http_security import NO_SECURITY, HttpSecurity
from pipeline_broker.telemetry.log_lines import announcement
from stages.committer import CommitFailedError
from stages.socket_server import SocketServer

if TYPE_CHECKING:
    from pipeline_broker.broker.broker import Broker
    from pipeline_broker.faults.rule_text import RuleParts
    from pipeline_broker.files.file_system import FileSystem
    from pipeline_broker.log.journal.journal_port import JournalPort
    from pipeline_broker.node.archive_store import ArchiveStore
    from pipeline_broker.node.control_commands import ControlCommands
    from pipeline_broker.node.schema_registry import SchemaRegistry
    from pipeline_broker.node.thread_wakeup import ThreadWakeup

__all__ = ["ServeOptions", "StartError", "run", "serve"]

logger = logging.getLogger(__name__)

EXIT_TAKEN_OVER = 3
FATAL = (MaintenanceFailedError,)
"""Errors of operator commands that end the broker."""
STANDING_BY_LINE = "standing by"
# The request log in the data directory, for clients that enable it on a broker without `--request-log`.
REQUEST_LOG_NAME = "kafka-request.log"


def with_actual_settings(options: ServeOptions, listeners: BrokerListeners) -> ServeOptions:
    # Clients see the actual addresses and data directory.
    config = options.config.with_addresses(listeners.addresses)
    config = attrs.evolve(config, properties={**config.properties, "log.dirs": str(options.data)})
    return attrs.evolve(options, config=config)


def open_observers(options: ServeOptions, security: HttpSecurity = NO_SECURITY) -> Observers:
    """Open the configured observers. Raises UnavailableError if one cannot start."""
    address = None if options.metrics_port is None else (options.host, options.metrics_port)
    return Observers(
        options.mode,
        options.trace,
        address,
        options.data / REQUEST_LOG_NAME if options.request_log is None else options.request_log,
        logs_requests=options.request_log is not None,
        dashboard=options.dashboard,
        metrics_names=options.metrics_names,
        announce=functools.partial(_announce, options),
        security=security,
    )


def fault_rules(options: ServeOptions) -> list[RuleParts]:
    if options.faults is None:
        return []
    from pipeline_broker.faults.rule_file import read_rules  # noqa: PLC0415 - only if configured

    return read_rules(options.faults)


def archive_store(options: ServeOptions, files: FileSystem) -> ArchiveStore | None:
    """Open and check the object store; return None without `--store`.

    Raises:
        StartError: the store cannot be used.
    """
    if options.store is None:
        return None
    from pipeline_broker.node.archive_store import ArchiveStore  # noqa: PLC0415 - only if configured

    place = ArchivePlace(options.store, options.config.node_id, options.wal)
    return ArchiveStore.find(place, files, options.store_delay_seconds)


def ready_line(options: ServeOptions, listeners: BrokerListeners) -> str:
    return f"listening on {listeners.first_address} mode={options.mode.name} data={options.data}"


def _announce(options: ServeOptions, line: str) -> None:
    sys.stderr.write(f"{announcement(line, options.log_format)}\n")  # stdout has the ready line alone


def print_line(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


async def serve(
    options: ServeOptions,
    *,
    on_ready: Callable[[str], None] = print_line,
    on_standing_by: Callable[[str], None] = print_line,
    task_status: trio.TaskStatus[SocketServer] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Run a broker until SIGTERM or SIGINT, or until a commit fails.

    Args:
        on_ready: called with the ready line.
        on_standing_by: called with a line when a standby starts to wait.
        task_status: started with the server.

    Raises:
        UnavailableError: see `open_broker`, `BrokerListeners` and `Observers`.
        CommitFailedError: a commit failed, in an exception group.
        JournalFailed: a sync of acknowledged records failed, in an exception group.
        MaintenanceFailedError: the log cannot be archived, or another process has it, in an exception group.
    """
    # The supervisor of a cluster reads the same files, and logs their errors.
    security = open_http_security(options.http_certificate, options.http_users, is_logged=options.cluster is None)
    files = FaultyFiles(SystemFileSystem(), functools.partial(os.kill, os.getpid(), signal.SIGKILL))
    store = archive_store(options, files)
    if not options.standby:
        await _start(options, security, files, store, on_ready, task_status)
        return
    assert store is not None, "options with a standby have a store"
    from pipeline_broker.node.standby import stand_by  # noqa: PLC0415 - only if configured
    from pipeline_broker.node.standby_endpoint import serving_standby  # noqa: PLC0415 - only if configured

    on_standing_by(STANDING_BY_LINE)
    notify("READY=1", f"STATUS={STANDING_BY_LINE}")
    start = functools.partial(_start, options, security, files, on_ready=on_ready, task_status=task_status)
    serving = functools.partial(serving_standby, options, functools.partial(_announce, options), security)
    await stand_by(options.config, store, start, serving)


async def _start(
    options: ServeOptions,
    security: HttpSecurity,
    files: FaultyFiles,
    store: ArchiveStore | None,
    on_ready: Callable[[str], None],
    task_status: trio.TaskStatus[SocketServer],
) -> None:
    with contextlib.ExitStack() as stack:
        # Ports and options are checked first, before the data directory is locked and the journal replayed, which may
        # take long.
        listeners = BrokerListeners(options.config)
        stack.callback(listeners.close)
        options = with_actual_settings(options, listeners)
        rules = fault_rules(options)
        observers = open_observers(options, security)
        stack.callback(observers.close)
        if store is not None and observers.store_request_ended is not None:
            store = store.observed(observers.store_request_ended)
        if options.cluster is None:
            leave_cluster(options.data)
        cluster = role_of(options.cluster, options.config.node_id)
        wiring = BrokerWiring(options.mode, listeners, fault_files=files, store=store, cluster=cluster)
        metadata = await joined_metadata(cluster, listeners, options.config)
        journal, broker = open_broker(
            options.data,
            options.config,
            flush=options.flush,
            files=files,
            ports=wiring.ports,
            store=store,
            metadata=metadata,
        )
        if cluster is None or options.config.node_id == CONTROLLER_ID:
            _warn_of_durability(options, broker)
        data = options.data
        if is_open_to_others(data):
            import shlex  # noqa: PLC0415 - for this line only

            logger.warning(
                "other users may read %s. Run chmod -R go-rwx %s to revoke their access", data, shlex.quote(str(data))
            )
        stack.callback(broker.logs.close)
        for rule in rules:
            broker.faults.add(*rule, "file")
        await _serve(options, security, listeners, journal, broker, wiring, observers, cluster, on_ready, task_status)


def _warn_of_durability(options: ServeOptions, broker: Broker) -> None:
    rules = flush_rules_of({}, broker.settings)
    if options.flush == "always" and rules.messages > 1:
        logger.warning("log.flush.interval.messages: %s", rules)
    if broker.logs.topics_synced_later:
        logger.warning(
            "topics have weaker settings than --flush %s: %s", options.flush, broker.logs.topics_synced_later
        )


async def _serve(
    options: ServeOptions,
    security: HttpSecurity,
    listeners: BrokerListeners,
    journal: JournalPort,
    broker: Broker,
    wiring: BrokerWiring,
    observers: Observers,
    cluster: ClusterRole | None,
    on_ready: Callable[[str], None],
    task_status: trio.TaskStatus[SocketServer],
) -> None:
    assembled = assemble(options, listeners, journal, broker, wiring, observers.timeline)
    server = assembled.server
    timelines = Timelines(broker, server, functools.partial(observers.publish, server), wall_clock_ms)
    with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
        async with (
            _serving_schema_registry(options, security, server, broker) as registry,
            observers.observing(server, broker, registry),
            trio.open_nursery() as nursery,
        ):
            nursery.start_soon(_stop_on_signal, signals, server, broker, timelines)
            await nursery.start(timelines.run)
            if broker.config.pipeline_timelines:
                timelines.switch_on()
            control = _control_commands(options, server, broker, observers)
            # Both observe before the server accepts a connection, so that no request is missing.
            await assembled.start(nursery)
            if cluster is not None:
                await nursery.start(cluster.run, assembled)
                nursery.start_soon(_end_with_supervisor)
                nursery.start_soon(beat)
            nursery.start_soon(return_regularly, broker.edges)
            renewal = FileRenewal(
                lambda: {**listeners.tls_contexts, **security.files},
                logged_elsewhere=() if cluster is None else security.files,
            )
            nursery.start_soon(renewal.run)
            await nursery.start(renew_on_hangup, renewal)
            await _start_maintenance(nursery, options, broker, wiring.segment_sealed, timelines, control)
            # A signal arrived during the startup.
            if server.is_stopping:
                return
            for line in listeners.further_lines:
                _announce(options, line)
            line = ready_line(options, listeners)
            on_ready(line)
            notify("READY=1", f"STATUS={line}")
            task_status.started(server)


@contextlib.asynccontextmanager
async def _serving_schema_registry(
    options: ServeOptions, security: HttpSecurity, server: SocketServer, broker: Broker
) -> AsyncIterator[SchemaRegistry | None]:
    if options.schema_registry is None:
        yield None
        return
    from pipeline_broker.node.schema_registry import serving_of_broker  # noqa: PLC0415 - only if configured

    host, port = options.schema_registry
    async with serving_of_broker(broker, server, host, port, "--schema-registry", security) as (registry, url):
        _announce(options, f"schema registry on {url}")
        yield registry


def _control_commands(
    options: ServeOptions, server: SocketServer, broker: Broker, observers: Observers
) -> ControlCommands | None:
    if options.control is None:
        return None
    from pipeline_broker.node.control_commands import ControlCommands  # noqa: PLC0415 - only if configured

    return ControlCommands(server, broker, functools.partial(observers.remember, server))


async def _start_maintenance(
    nursery: trio.Nursery,
    options: ServeOptions,
    broker: Broker,
    sealed: ThreadWakeup,
    timelines: Timelines,
    control: ControlCommands | None,
) -> None:
    # The import takes a tenth of the startup. In a thread it delays no client.
    maintenance = await trio.to_thread.run_sync(maintenance_of, broker, sealed)
    await nursery.start(maintenance.run)
    commands = maintenance.commands() | fault_commands(broker) | timelines.commands()
    if control is not None:
        commands |= control.commands()
    await nursery.start(functools.partial(serve_admin, fatal=FATAL), options.data, commands)
    if options.control is not None:
        await _start_control(nursery, options, broker, commands)


async def _start_control(
    nursery: trio.Nursery, options: ServeOptions, broker: Broker, commands: dict[str, Command]
) -> None:
    from pipeline_broker.node.control_endpoint import serve_control  # noqa: PLC0415 - only if configured
    from pipeline_broker.node.control_token import TOKEN_NAME, token_of  # noqa: PLC0415 - as above

    assert options.control is not None, "called with a control endpoint"
    path = options.control_token or options.data / TOKEN_NAME
    token = await trio.to_thread.run_sync(token_of, path)
    serving = functools.partial(serve_control, fatal=FATAL)
    own = commands | fault_commands(broker, "control")
    url = await nursery.start(serving, *options.control, token, own, broker.edges)
    _announce(options, f"control on {url} with the token in {path}")


async def _end_with_supervisor() -> None:
    # The supervisor holds the other end of the pipe and never writes to it.
    await trio.lowlevel.wait_readable(sys.stdin)
    logger.warning("the supervisor has ended")
    os.kill(os.getpid(), signal.SIGTERM)


async def _stop_on_signal(signals: Any, server: SocketServer, broker: Broker, timelines: Timelines) -> None:
    async for _ in signals:
        notify("STOPPING=1", "STATUS=shutting down")
        # First, because publishing the last timelines needs the server.
        await timelines.end()
        server.stop()
        broker.end_waiting()


def _exit_now(code: int) -> NoReturn:
    # Python is not finalized: that ends other threads when they acquire the GIL. A thread in a C++ extension, such as
    # an import by the maintenance of the logs, would then abort the process.
    logging.shutdown()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    os._exit(code)


def _root_of(error: BaseException) -> BaseException:
    while error.__cause__ is not None:
        error = error.__cause__
    return error


def run(
    options: ServeOptions, on_ready: Callable[[str], None], on_standing_by: Callable[[str], None] = print_line
) -> None:
    """Run a broker in this process, and return after an orderly shutdown.

    The process ends after a failed commit or failed maintenance: with EXIT_TAKEN_OVER if another process has taken over
    the log, else with 1.

    Args:
        on_ready: called with the ready line.
        on_standing_by: called with a line when a standby starts to wait.

    Raises:
        UnavailableError: the broker or one of its services cannot start.
    """

    def ready(line: str) -> None:
        on_ready(line)
        # All objects of the startup exist now, so that no later collection visits them.
        shorten_collections()

    try:
        trio.run(functools.partial(serve, options, on_ready=ready, on_standing_by=on_standing_by))
    except BaseExceptionGroup as errors:
        cause = first_cause(errors)
        if isinstance(cause, UnavailableError):
            raise cause from None
        if isinstance(cause, CommitFailedError | JournalFailed):
            if isinstance(fenced := _root_of(cause), FencedError):
                logger.critical("%s; this broker exits", fenced)
                _exit_now(EXIT_TAKEN_OVER)
            logger.critical("%s; no later write was acknowledged", cause)
            _exit_now(1)
        if isinstance(cause, TakenOverError):
            logger.critical("%s", cause)
            _exit_now(EXIT_TAKEN_OVER)
        if isinstance(cause, MaintenanceFailedError):
            logger.critical("%s", cause)
            _exit_now(1)
        raise
