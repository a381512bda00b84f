"""Options of a broker process, and the configuration of the server that follows from them."""

from __future__ import annotations

import logging
import socket
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs

from pipeline_broker.config.listeners import read_endpoints
from pipeline_broker.node.errors import StartError
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
    from pipeline_broker.telemetry.log_lines import LogFormat

__all__ = [
    "QUEUES",
    "ServeOptions",
    "commit_pace_of",
    "limits_of",
    "memory_of_each",
    "mode_of",
    "quota_limits_of",
]

logger = logging.getLogger(__name__)

NO_LIMIT_MS = 0
QUEUES = "pipeline.queues"


@attrs.frozen(kw_only=True)
class ServeOptions:
    """Options of a broker process.

    Attributes:
        mode: mode of the request path.
        flush: "always" or "os".
        data: data directory.
        config: configuration, with the addresses of the listeners.
        trace: directory for trace files; None for no trace.
        commit_delay_seconds: injected delay of each commit.
        commits_in_flight: maximum number of concurrent group commits.
        metrics_port: port of the metrics endpoint; None for no endpoint.
        metrics_hosts: host names that requests to the endpoint may use, in addition to advertised ones.
        request_log: file of the request log from startup; None to wait until a client enables it.
        faults: file of the fault rules at startup; None for none.
        dashboard: options of the dashboard; None for no dashboard.
        schema_registry: host and port of the schema registry; None for no registry.
        http_certificate: PEM file with the key and the certificates of the HTTP ports; None for HTTP without TLS.
        http_users: file with the users of the HTTP ports; None if everyone may use them.
        control: host and port of the control endpoint; None for no endpoint.
        control_token: file with the token of the control endpoint; None for the one in the data directory.
        store: URL of the object store of the archive; None for the data directory.
        wal: location of the journal: "disk" for the data directory, "objects" for the store.
        store_delay_seconds: injected delay of each request to the store.
        standby: True to take over the journal only once its owner stops or fails.
        cluster: directory of the cluster that the broker is a member of; None without one.
        log_format: form of the lines that the broker prints at startup.
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
    http_certificate: Path | None = None
    http_users: Path | None = None
    control: tuple[str, int] | None = None
    control_token: Path | None = None
    store: str | None = None
    wal: Wal = "disk"
    store_delay_seconds: float = 0.0
    standby: bool = False
    cluster: Path | None = None
    log_format: LogFormat = "text"

    @classmethod
    def from_command_line(cls, config: BrokerConfig, options: Mapping[str, Any]) -> ServeOptions:
        """Combine the options of the command line with the configuration, which they override.

        Raises:
            StartError: the options are invalid, or a host of the connection limits cannot be found.
            UnavailableError: a package of the schema registry is missing.
        """
        for host in config.connection_limit_overrides():
            _check_host(host)
        if options["host"] is not None or options["port"] is not None:
            config = config.with_endpoint(options["host"], options["port"])
        found = cls(
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
            http_certificate=options["http_certificate"],
            http_users=options["http_users"],
            control=_control(options["control"], options["control_token"]),
            control_token=options["control_token"],
            store=options["store"],
            wal=_wal(options["store"], options["wal"]),
            store_delay_seconds=_store_delay(options["store"], options["store_delay_seconds"]),
            standby=_standby(options["wal"], wanted=options["standby"]),
            cluster=options["cluster"],
            log_format=options["log_format"],
            config=config,
        )
        _check_http_security(found)
        return found

    @property
    def host(self) -> str:
        """The host of the first listener. The metrics are served there, too."""
        return self.config.listener_configs[0].host

    @property
    def http_hosts(self) -> list[str]:
        found = [] if self.metrics_port is None else [self.host]
        found += [] if self.dashboard is None else [self.dashboard.host]
        return found + ([] if self.schema_registry is None else [self.schema_registry[0]])

    @property
    def metrics_names(self) -> frozenset[str]:
        """Host names that requests to the metrics endpoint may use, in addition to addresses."""
        advertised = read_endpoints("advertised.listeners", self.config.advertised_listeners or ())
        return frozenset({*self.metrics_hosts, *(endpoint.host for endpoint in advertised)})


def _check_http_security(options: ServeOptions) -> None:
    certificate, users = options.http_certificate, options.http_users
    for name, path in (("--http-certificate", certificate), ("--http-users", users)):
        if path is not None and not options.http_hosts:
            raise StartError(f"{name} needs --metrics, --dashboard or --schema-registry")
    if users is not None and options.dashboard is not None and options.dashboard.principal is not None:
        raise StartError(
            "--dashboard-principal and --http-users contradict each other: each user is a principal. Omit one of them"
        )
    if users is None or certificate is not None:
        return
    from pipeline_broker.web.hosts import is_loopback  # noqa: PLC0415 - only if configured

    for host in options.http_hosts:
        if not is_loopback(host):
            place = host or "every address"
            raise StartError(f"--http-users needs --http-certificate: a network could see passwords sent to {place}")


def _dashboard(options: Mapping[str, Any]) -> DashboardOptions | None:
    place = options["dashboard"]
    if place is None:
        for name in ("dashboard_beside", "dashboard_read_only", "dashboard_principal"):
            if options[name]:
                raise StartError(f"--{name.replace('_', '-')} needs --dashboard")
        return None
    from pipeline_broker.dashboard.options import DashboardOptions  # noqa: PLC0415 - only if configured

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
    if place is None:
        return None
    from pipeline_broker.node.schema_registry import read_address  # noqa: PLC0415 - only if configured

    return read_address(place)


def _control(place: str | None, token: Path | None) -> tuple[str, int] | None:
    if place is None:
        if token is not None:
            raise StartError("--control-token needs --control")
        return None
    from pipeline_broker.node.control_endpoint import read_address  # noqa: PLC0415 - only if configured

    return read_address(place)


def _wal(url: str | None, wal: Wal | None) -> Wal:
    if (url is None) != (wal is None):
        raise StartError("--store and --wal need each other: use --store URL --wal disk, or --store URL --wal objects")
    return wal or "disk"


def _store_delay(url: str | None, seconds: float) -> float:
    if seconds and url is None:
        raise StartError("--store-delay needs --store URL")
    return seconds


def _standby(wal: Wal | None, *, wanted: bool) -> bool:
    if wanted and wal != "objects":  # a journal on disk stays with the machine of its owner
        raise StartError("--standby needs a journal in an object store: add --store URL --wal objects")
    return wanted


def commit_pace_of(options: ServeOptions, config: BrokerConfig) -> CommitPace | None:
    """Return the pace of group commits that are paid requests to a store; None for the default pace."""
    is_paid = options.wal == "objects" and config.wal_puts_per_second > 0
    return PaidCommitPace(config.wal_puts_per_second) if is_paid else None


def mode_of(name: str, config: BrokerConfig) -> Mode:
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
    # Only the startup decides between a shared queue (0) and several. A dynamic number of queues, set on a pipelined
    # broker, may be left in the data directory of a broker that is classic now.
    changed = QUEUES in config.changed
    text = config.properties.get(QUEUES)
    at_start = (None if text is None else int(text)) if changed else config.pipeline_queues
    if at_start == SHARED_QUEUE or (at_start is None and preset.is_shared_queue):
        return SHARED_QUEUE
    return config.pipeline_queues or at_start or config.num_io_threads


def limits_of(config: BrokerConfig) -> ServerLimits:
    idle_ms = config.connections_max_idle_ms
    return ServerLimits(
        connection=ConnectionLimits(
            frame_bytes_max=config.socket_request_max_bytes,
            idle_seconds_max=float("inf") if idle_ms < NO_LIMIT_MS else idle_ms / 1000,
            failed_authentication_delay_seconds=config.connection_failed_authentication_delay_ms / 1000,
        ),
        requests_max=config.queued_max_requests,
        bytes_max=_queued_bytes(config),
        partial_bytes_max=config.pipeline_partial_request_bytes,
        total_unsent_bytes_max=config.pipeline_unsent_response_bytes,
        processors=config.num_network_threads,
        quotas=quota_limits_of(config),
    )


def _queued_bytes(config: BrokerConfig) -> int:
    # -1 means no limit in Kafka. Here a limit always exists.
    return config.queued_max_request_bytes if config.queued_max_request_bytes > 0 else BYTES_MAX


def memory_of_each(config: BrokerConfig, brokers: int) -> dict[str, int]:
    """Return the memory for clients of each broker of a machine, by property: all together use that of one.

    Each broker has room for the largest request.
    """
    return {
        "queued.max.request.bytes": max(config.socket_request_max_bytes, _queued_bytes(config) // brokers),
        "pipeline.edge.bytes": max(1 << 20, config.pipeline_edge_bytes // brokers),
        "pipeline.group.bytes": max(1, config.pipeline_group_bytes // brokers),
        "pipeline.partial.request.bytes": max(1, config.pipeline_partial_request_bytes // brokers),
        "pipeline.unsent.response.bytes": max(1, config.pipeline_unsent_response_bytes // brokers),
    }


def quota_limits_of(config: BrokerConfig) -> ConnectionQuotaLimits:
    """Return the limits of connections and of connection rates, in total and per listener.

    Host names of `max.connections.per.ip.overrides` are resolved; one that does not resolve is logged and left out.
    """
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
        windows=config.quota_window_num,
        window_seconds=config.quota_window_size_seconds,
        # As in Kafka, the inter-broker listener is protected only if other listeners exist.
        protected_listener=_first(each.name for each in listeners if each.is_privileged and len(listeners) > 1),
    )


def _of_listeners(config: BrokerConfig, name: str) -> dict[str, int]:
    limits = {listener.name: listener.limit(name) for listener in config.listener_configs}
    return {listener: limit for listener, limit in limits.items() if limit is not None}


def _check_host(host: str) -> None:
    try:
        _resolve(host)
    except OSError as error:
        # Without an address the limit would not apply to the host's connections.
        raise StartError(
            f"max.connections.per.ip.overrides: {host!r} cannot be found: {error.strerror or error}. Give an"
            " address, or a name that resolves on this machine."
        ) from None


def _resolve(host: str) -> set[str]:
    return {str(found[4][0]) for found in socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)}


def _addresses_of(host: str) -> set[str]:
    try:
        return _resolve(host)
    except OSError as error:
        # Not fatal on a running broker: the name did resolve when it was set.
        logger.warning(
            "max.connections.per.ip.overrides: the limit of %s is ignored: %s", host, error.strerror or error
        )
        return set()


def _first(names: Iterable[str]) -> str | None:
    return next(iter(names), None)
