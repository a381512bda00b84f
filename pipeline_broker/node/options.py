"""How a broker is started, and what its configuration means for the stages.

Rules of this file: it turns settings into the values that stages takes and starts nothing; the command line goes over
the configuration here and nowhere else.
"""

from __future__ import annotations

import logging
import socket
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs

from pipeline_broker.config.listeners import read_endpoints
from stages.commit_pace import COMMITS_IN_FLIGHT_MAX, CommitPace, PaidCommitPace
from stages.connection_limits import ConnectionLimits
from stages.connection_quotas import ConnectionQuotaLimits
from stages.mode import MODES, SHARED_QUEUE, Batching, CommitOn, Mode
from stages.request_channel import BYTES_MAX
from stages.socket_server import ServerLimits

if TYPE_CHECKING:
    from pipeline_broker.config.broker_config import BrokerConfig
    from pipeline_broker.dashboard.options import DashboardOptions
    from pipeline_broker.log.archive.local.archive_place import Wal
    from pipeline_broker.log.journal.flush_policy import Flush

__all__ = [
    "QUEUES",
    "ServeOptions",
    "StartBlockedError",
    "StartError",
    "commit_pace_of",
    "limits_of",
    "mode_of",
    "quota_limits_of",
]

logger = logging.getLogger(__name__)

NO_LIMIT_MS = 0
QUEUES = "pipeline.queues"


class StartError(Exception):
    """The broker cannot start; the text is one line that says what to do."""


class StartBlockedError(StartError):
    """What this start needs another process has now, or a store does not give: a standby tries again later."""


@attrs.frozen(kw_only=True)
class ServeOptions:
    """How a broker is started.

    Attributes:
        mode: the request path, with its axes.
        flush: "always" or "os".
        data: the data directory.
        config: what the broker acts on, the addresses of its listeners included.
        trace: where trace files are written, if at all.
        commit_delay_seconds: an injected delay per commit.
        commits_in_flight: group commits that run at once, at most.
        metrics_port: port of the Prometheus endpoint, if any.
        metrics_hosts: names by which scrapers know it, beside those that clients are told.
        request_log: the file that requests are logged in, if they are from the start.
        faults: the file of the fault rules that it begins with, if any.
        dashboard: where the dashboard is served, if at all.
        schema_registry: host and port of the schema registry, if it is served.
        store: the address of the store that the archive is in; None for the data directory.
        wal: where the journal is: "disk", the data directory, or "objects", the store.
        store_delay_seconds: an injected delay of each request to the store.
        standby: wait until the owner of that journal shows no life, and take over then.
    """

    mode: Mode
    flush: Flush
    data: Path
    config: BrokerConfig
    trace: Path | None = None
    commit_delay_seconds: float = 0.0
    commits_in_flight: int = COMMITS_IN_FLIGHT_MAX
    metrics_port: int | None = None
    metrics_hosts: tuple[str, ...] = ()
    request_log: Path | None = None
    faults: Path | None = None
    dashboard: DashboardOptions | None = None
    schema_registry: tuple[str, int] | None = None
    store: str | None = None
    wal: Wal = "disk"
    store_delay_seconds: float = 0.0
    standby: bool = False

    @classmethod
    def from_command_line(cls, config: BrokerConfig, options: Mapping[str, Any]) -> ServeOptions:
        """The options of the command line over those of the configuration; raises StartError."""
        for host in config.connection_limit_overrides():
            _check_host(host)
        if options["host"] is not None or options["port"] is not None:
            config = config.listening_at(options["host"], options["port"])
        return cls(
            mode=mode_of(options["mode"], config),
            flush=options["flush"],
            data=config.directory(options["data"]),
            trace=options["trace"],
            commit_delay_seconds=options["commit_delay_seconds"],
            commits_in_flight=options["commits_in_flight"],
            metrics_port=options["metrics"],
            metrics_hosts=options["metrics_hosts"],
            request_log=options["request_log"],
            faults=options["faults"],
            dashboard=_dashboard(options),
            schema_registry=_schema_registry(options["schema_registry"]),
            store=options["store"],
            wal=_wal(options["store"], options["wal"]),
            store_delay_seconds=_store_delay(options["store"], options["store_delay_seconds"]),
            standby=_standby(options["wal"], wanted=options["standby"]),
            config=config,
        )

    @property
    def host(self) -> str:
        """The host of the first listener: the metrics are served there too."""
        return self.config.listener_configs[0].host

    @property
    def metrics_names(self) -> frozenset[str]:
        """The names by which the endpoint of the metrics may be asked for, beside addresses."""
        advertised = read_endpoints("advertised.listeners", self.config.advertised_listeners or ())
        return frozenset({*self.metrics_hosts, *(endpoint.host for endpoint in advertised)})


def _dashboard(options: Mapping[str, Any]) -> DashboardOptions | None:
    """Where the dashboard is served; a place that is none, and its options without it, are StartErrors."""
    place = options["dashboard"]
    if place is None:
        for name in ("dashboard_beside", "dashboard_read_only", "dashboard_principal"):
            if options[name]:
                raise StartError(f"--{name.replace('_', '-')} needs --dashboard")
        return None
    from pipeline_broker.dashboard.options import DashboardOptions  # noqa: PLC0415 - for those who asked

    try:
        return DashboardOptions.parse(
            place,
            options["dashboard_beside"],
            options["dashboard_principal"],
            is_read_only=options["dashboard_read_only"],
        )
    except ValueError as error:
        raise StartError(f"--dashboard: {error}") from None


def _schema_registry(place: str | None) -> tuple[str, int] | None:
    """Where the schema registry is served; a place that is none, and a package that is missing, are StartErrors."""
    if place is None:
        return None
    from pipeline_broker.node.schema_registry import check_installed  # noqa: PLC0415 - for those who asked
    from pipeline_broker.web.hosts import parse_host_port  # noqa: PLC0415 - see above
    from pipeline_broker.web.http_server import HttpUnavailableError  # noqa: PLC0415 - see above

    try:
        check_installed()
        return parse_host_port(place)
    except HttpUnavailableError as error:
        raise StartError(str(error)) from None
    except ValueError as error:
        raise StartError(f"--schema-registry: {error}") from None


def _wal(url: str | None, wal: Wal | None) -> Wal:
    """Where the journal is; a store without a place for it, and the other way round, are StartErrors."""
    if (url is None) != (wal is None):
        raise StartError("--store and --wal belong together: --store URL --wal disk, or --wal objects")
    return wal or "disk"


def _store_delay(url: str | None, seconds: float) -> float:
    """The delay of a store; one without a store is a StartError."""
    if seconds and url is None:
        raise StartError("--store-delay is about a store: it needs --store URL")
    return seconds


def _standby(wal: Wal | None, *, wanted: bool) -> bool:
    """Whether to wait; to wait for a journal that is not in a store is a StartError, for another has its disk."""
    if wanted and wal != "objects":
        raise StartError("--standby waits for the journal of another broker: it needs --store URL --wal objects")
    return wanted


def commit_pace_of(options: ServeOptions, config: BrokerConfig) -> CommitPace | None:
    """When group commits begin, where each is a request to a store that costs money; None for the usual pace."""
    is_paid = options.wal == "objects" and config.wal_puts_per_second > 0
    return PaidCommitPace(config.wal_puts_per_second) if is_paid else None


def mode_of(name: str, config: BrokerConfig) -> Mode:
    """A preset with the axes that the configuration overrides."""
    preset = MODES[name]
    handlers = config.num_io_threads
    return attrs.evolve(
        preset,
        queues=_queues(preset, config),
        handlers=handlers,
        in_flight_max=preset.in_flight_max if config.pipeline_in_flight is None else config.pipeline_in_flight,
        batching=preset.batching if config.pipeline_commit is None else Batching(config.pipeline_commit),
        commit_on=CommitOn(config.pipeline_commit_on),
    )


def _queues(preset: Mode, config: BrokerConfig) -> int:
    """How many, 0 for one that is shared: which of both is decided at the start, also where a change outlived it.

    A number of queues that was set while the broker ran pipelined is back after the next start, which may be classic.
    """
    changed = QUEUES in config.changed
    text = config.properties.get(QUEUES)
    at_start = (None if text is None else int(text)) if changed else config.pipeline_queues
    if at_start == SHARED_QUEUE or (at_start is None and preset.is_shared_queue):
        return SHARED_QUEUE
    return config.pipeline_queues or at_start or config.num_io_threads


def limits_of(config: BrokerConfig) -> ServerLimits:
    """The bounds of the socket server that the configuration asks for."""
    idle_ms = config.connections_max_idle_ms
    return ServerLimits(
        connection=ConnectionLimits(
            frame_bytes_max=config.socket_request_max_bytes,
            idle_seconds_max=float("inf") if idle_ms < NO_LIMIT_MS else idle_ms / 1000,
            failed_authentication_delay_seconds=config.connection_failed_authentication_delay_ms / 1000,
        ),
        requests_max=config.queued_max_requests,
        bytes_max=config.queued_max_request_bytes if config.queued_max_request_bytes > 0 else BYTES_MAX,
        partial_bytes_max=config.pipeline_partial_request_bytes,
        total_unsent_bytes_max=config.pipeline_unsent_response_bytes,
        processors=config.num_network_threads,
        quotas=quota_limits_of(config),
    )


def quota_limits_of(config: BrokerConfig) -> ConnectionQuotaLimits:
    """How many connections there may be and how fast they may come, per listener too."""
    listeners = config.listener_configs
    return ConnectionQuotaLimits(
        connections_max=config.max_connections,
        connections_max_by_listener=_of_listeners(config, "max.connections"),
        connections_max_per_ip=config.max_connections_per_ip,
        connections_max_by_ip={
            address: limit
            for host, limit in config.connection_limit_overrides().items()
            for address in _addresses_of(host)
        },
        creation_rate_max=config.max_connection_creation_rate,
        creation_rate_max_by_listener=_of_listeners(config, "max.connection.creation.rate"),
        # Kafka protects it only from other listeners
        windows=config.quota_window_num,
        window_seconds=config.quota_window_size_seconds,
        protected_listener=_first(each.name for each in listeners if each.is_privileged and len(listeners) > 1),
    )


def _of_listeners(config: BrokerConfig, name: str) -> dict[str, int]:
    limits = {listener.name: listener.limit(name) for listener in config.listener_configs}
    return {listener: limit for listener, limit in limits.items() if limit is not None}


def _check_host(host: str) -> None:
    """Refuse a start with a limit for a host that cannot be found: its clients would have no limit."""
    try:
        _looked_up(host)
    except OSError as error:
        raise StartError(
            f"max.connections.per.ip.overrides: {host!r} cannot be found: {error.strerror or error}. Give an"
            " address, or a name that resolves on this machine."
        ) from None


def _looked_up(host: str) -> set[str]:
    return {str(found[4][0]) for found in socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)}


def _addresses_of(host: str) -> set[str]:
    """The addresses of a host, itself if it is one; none, and a warning, for one that was found once and is not now."""
    try:
        return _looked_up(host)
    except OSError as error:
        logger.warning("max.connections.per.ip.overrides: %s is left out: %s", host, error.strerror or error)
        return set()


def _first(names: Iterable[str]) -> str | None:
    return next(iter(names), None)
