"""The properties that the broker acts on, as one frozen object."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import attrs

from pipeline_broker.base.numbers import INT32, whole_number
from pipeline_broker.config import assignors
from pipeline_broker.config.listeners import (
    ADVERTISED_FOR_WILDCARD,
    WILDCARDS,
    Endpoint,
    ListenerConfig,
    check_ports,
    is_of_listener,
    prefix_of,
    read_endpoints,
    refusal_of_listeners,
    security_protocols,
    zero_refusal,
)
from pipeline_broker.config.properties import ConfigError, fields_of

__all__ = ["BrokerConfig"]

DATA_DEFAULT = Path("data")
FLUSH_MESSAGES = "log.flush.interval.messages"
HOST = re.compile(r"[0-9A-Za-z%._:-]+")
"""A host name or address in Kafka's syntax."""


@attrs.frozen(kw_only=True, field_transformer=fields_of("broker"))
class BrokerConfig:
    """The properties that this broker acts on.

    A field is Kafka's property with `_` for `.`. Its default and its documentation are in `properties.txt`.
    """

    node_id: int
    broker_session_timeout_ms: int
    broker_heartbeat_interval_ms: int
    listeners: tuple[str, ...]
    advertised_listeners: tuple[str, ...] | None
    listener_security_protocol_map: str
    inter_broker_listener_name: str | None
    security_inter_broker_protocol: str
    controller_listener_names: tuple[str, ...]
    control_plane_listener_name: str | None
    log_dirs: tuple[str, ...] | None

    num_network_threads: int
    num_io_threads: int
    queued_max_requests: int
    queued_max_request_bytes: int
    socket_request_max_bytes: int
    socket_send_buffer_bytes: int
    socket_receive_buffer_bytes: int
    socket_listen_backlog_size: int
    connections_max_idle_ms: int
    max_connections: int
    max_connections_per_ip: int
    max_connections_per_ip_overrides: str
    max_connection_creation_rate: int
    quota_window_num: int
    quota_window_size_seconds: int
    controller_quota_window_num: int
    controller_quota_window_size_seconds: int
    connection_failed_authentication_delay_ms: int
    background_threads: int
    authorizer_class_name: str
    super_users: tuple[str, ...] = ()
    allow_everyone_if_no_acl_found: bool = False
    num_partitions: int
    auto_create_topics_enable: bool
    delete_topic_enable: bool
    log_retention_check_interval_ms: int
    log_initial_task_delay_ms: int
    log_cleaner_enable: bool
    log_cleaner_backoff_ms: int
    log_cleaner_dedupe_buffer_size: int
    fetch_max_bytes: int
    max_incremental_fetch_session_cache_slots: int
    max_request_partition_size_limit: int

    group_initial_rebalance_delay_ms: int
    group_min_session_timeout_ms: int
    group_max_session_timeout_ms: int
    group_max_size: int
    group_consumer_session_timeout_ms: int
    group_consumer_min_session_timeout_ms: int
    group_consumer_max_session_timeout_ms: int
    group_consumer_heartbeat_interval_ms: int
    group_consumer_min_heartbeat_interval_ms: int
    group_consumer_max_heartbeat_interval_ms: int
    group_consumer_assignment_interval_ms: int
    group_consumer_min_assignment_interval_ms: int
    group_consumer_max_assignment_interval_ms: int
    group_consumer_max_size: int
    group_consumer_assignors: tuple[str, ...]
    group_consumer_migration_policy: str
    group_share_assignment_interval_ms: int
    group_share_assignors: tuple[str, ...]
    group_share_delivery_count_limit: int
    group_share_heartbeat_interval_ms: int
    group_share_max_assignment_interval_ms: int
    group_share_max_delivery_count_limit: int
    group_share_max_heartbeat_interval_ms: int
    group_share_max_partition_max_record_locks: int
    group_share_max_record_lock_duration_ms: int
    group_share_max_session_timeout_ms: int
    group_share_max_share_sessions: int
    group_share_max_size: int
    group_share_min_assignment_interval_ms: int
    group_share_min_delivery_count_limit: int
    group_share_min_heartbeat_interval_ms: int
    group_share_min_partition_max_record_locks: int
    group_share_min_record_lock_duration_ms: int
    group_share_min_session_timeout_ms: int
    group_share_partition_max_record_locks: int
    group_share_record_lock_duration_ms: int
    group_share_session_timeout_ms: int
    group_streams_assignment_interval_ms: int
    group_streams_assignors: tuple[str, ...]
    group_streams_heartbeat_interval_ms: int
    group_streams_initial_rebalance_delay_ms: int
    group_streams_max_assignment_interval_ms: int
    group_streams_max_heartbeat_interval_ms: int
    group_streams_max_session_timeout_ms: int
    group_streams_max_size: int
    group_streams_max_standby_replicas: int
    group_streams_min_assignment_interval_ms: int
    group_streams_min_heartbeat_interval_ms: int
    group_streams_min_session_timeout_ms: int
    group_streams_num_standby_replicas: int
    group_streams_rack_aware_assignment_tags: tuple[str, ...]
    group_streams_session_timeout_ms: int
    offset_metadata_max_bytes: int
    offsets_topic_num_partitions: int
    offsets_retention_minutes: int
    offsets_retention_check_interval_ms: int
    errors_deadletterqueue_topic_name_prefix: str
    share_coordinator_snapshot_update_records_per_snapshot: int
    share_coordinator_state_topic_num_partitions: int
    producer_id_expiration_ms: int
    transaction_max_timeout_ms: int
    transaction_abort_timed_out_transaction_cleanup_interval_ms: int
    transaction_remove_expired_transaction_cleanup_interval_ms: int
    transaction_partition_verification_enable: bool
    transaction_state_log_num_partitions: int
    transaction_state_log_segment_bytes: int
    transactional_id_expiration_ms: int

    delegation_token_secret_key: str | None
    delegation_token_expiry_time_ms: int
    delegation_token_max_lifetime_ms: int
    delegation_token_expiry_check_interval_ms: int
    telemetry_max_bytes: int

    pipeline_queues: int | None
    pipeline_partitions: int
    pipeline_auto_create_partitions: int
    pipeline_edge_bytes: int
    pipeline_group_bytes: int
    pipeline_transaction_partitions: int
    pipeline_transactional_ids: int
    pipeline_fetch_session_partitions: int
    pipeline_fetch_verify: str
    pipeline_partial_request_bytes: int
    pipeline_unsent_response_bytes: int
    pipeline_in_flight: int | None
    pipeline_commit: str | None
    pipeline_commit_on: str
    pipeline_telemetry_file: str | None
    pipeline_timelines: bool
    wal_puts_per_second: int

    properties: Mapping[str, str] = attrs.field(factory=dict)
    """Static settings, as DescribeConfigs shows them: canonical texts by Kafka's name."""
    changed: Mapping[str, str] = attrs.field(factory=dict)
    """Dynamic settings that apply to this broker, in the same form."""
    secrets: frozenset[str] = frozenset()
    """Names of settings that came from a config provider and are never shown."""
    listener_of_options: str | None = None
    """The listener that --host or --port moved."""

    @property
    def texts(self) -> Mapping[str, str]:
        """All settings as canonical texts; dynamic ones override static ones."""
        return {**self.properties, **self.changed}

    @functools.cached_property
    def consumer_assignors(self) -> tuple[str, ...]:
        """Short names of the assignors that consumer groups may select, the default first.

        Raises:
            ConfigError: see `assignors.consumer_assignors`.
        """
        return assignors.consumer_assignors(self.group_consumer_assignors)

    @functools.cached_property
    def share_assignor(self) -> str:
        """Short name of the assignor of all share groups.

        Raises:
            ConfigError: see `assignors.share_assignor`.
        """
        return assignors.share_assignor(self.group_share_assignors)

    @functools.cached_property
    def streams_assignors(self) -> tuple[str, ...]:
        """Names of the assignors that streams groups may select, the default first.

        Raises:
            ConfigError: see `assignors.streams_assignors`.
        """
        return assignors.streams_assignors(self.group_streams_assignors)

    @functools.cached_property
    def listener_configs(self) -> tuple[ListenerConfig, ...]:
        """The listeners that the broker serves, in the order of `listeners`.

        Listeners of the controller are left out, because the broker has no quorum.

        Raises:
            ConfigError: properties of listeners contradict each other.
        """
        return _listener_configs(self)

    def with_endpoint(self, host: str | None, port: int | None) -> BrokerConfig:
        """Return the configuration with another host or port of its first listener that is served."""
        first = self.listener_configs[0]
        endpoints = read_endpoints("listeners", self.listeners)
        moved = {first.name: (first.host if host is None else host, first.port if port is None else port)}
        found = self.with_addresses({endpoint.name: (endpoint.host, endpoint.port) for endpoint in endpoints} | moved)
        return attrs.evolve(found, listener_of_options=first.name)

    def listeners_of_broker(self, number: int) -> list[str]:
        """Return the settings with the listeners of the `number`-th broker of a machine, from 1.

        The port of a single listener is an option of the command line instead.
        """
        added = (number - 1) * len(self.listeners)
        found = {"advertised.listeners": self.advertised_listeners or ()}
        if len(self.listeners) > 1:
            found["listeners"] = self.listeners
        return [f"{name}={','.join(_moved(name, endpoints, added))}" for name, endpoints in found.items() if endpoints]

    def with_addresses(self, addresses: Mapping[str, tuple[str, int]]) -> BrokerConfig:
        """Return the configuration with the named listeners at other addresses (host, port), also in `properties`."""
        listeners = tuple(
            str(attrs.evolve(each, host=addresses[each.name][0], port=addresses[each.name][1]))
            if each.name in addresses
            else str(each)
            for each in read_endpoints("listeners", self.listeners)
        )
        # DescribeConfigs shows the texts in `properties`.
        return attrs.evolve(self, listeners=listeners, properties={**self.properties, "listeners": ",".join(listeners)})

    def with_flush(self, flush: str) -> BrokerConfig:
        """Return the configuration with the policy of `--flush`, unless a property already sets one.

        With "always", every message is synced before it is acknowledged.
        """
        if flush != "always" or FLUSH_MESSAGES in self.properties:
            return self
        return attrs.evolve(self, properties={**self.properties, FLUSH_MESSAGES: "1"})

    def directory(self, given: Path | None) -> Path:
        """Return the data directory: `given`, else the first of `log.dirs`, else the default."""
        if given is not None:
            return given
        return Path(self.log_dirs[0]) if self.log_dirs else DATA_DEFAULT

    def connection_limit_overrides(self) -> dict[str, int]:
        """Return the connection limits in `max.connections.per.ip.overrides`, by host.

        Raises:
            ConfigError: an item is not of the form host:limit, or a host is invalid.
        """
        limits = {}
        for item in filter(None, map(str.strip, self.max_connections_per_ip_overrides.split(","))):
            host, _, limit = item.rpartition(":")
            number = whole_number(limit, 0, INT32[1])
            if not host or number is None:
                raise ConfigError(f"max.connections.per.ip.overrides: {item!r} is not of the form host:limit")
            if not HOST.fullmatch(host):
                raise ConfigError(
                    f"max.connections.per.ip.overrides: {host!r} is not a host. Write IPv6 addresses without brackets.",
                    f"max.connections.per.ip.overrides contains invalid addresses : {host}",
                )
            limits[host] = number
        return limits


def _moved(name: str, endpoints: Sequence[str], added: int) -> list[str]:
    return [
        str(attrs.evolve(each, port=each.port + added if each.port else 0)) for each in read_endpoints(name, endpoints)
    ]


def _advertised_listeners(config: BrokerConfig) -> dict[str, tuple[str, int]]:
    listeners = read_endpoints("listeners", config.listeners)
    if config.advertised_listeners is None:
        return {
            each.name: (ADVERTISED_FOR_WILDCARD if each.host in WILDCARDS else each.host, each.port)
            for each in listeners
        }
    advertised = read_endpoints("advertised.listeners", config.advertised_listeners)
    for endpoint in advertised:
        if endpoint.host in WILDCARDS - {""}:
            raise ConfigError(
                f"advertised.listeners: {str(endpoint)!r} is not allowed: clients cannot connect to this address. Name"
                " a host that they can reach.",
                "requirement failed: advertised.listeners cannot use the nonroutable meta-address 0.0.0.0. Use a"
                " routable IP address.",
            )
    names = [endpoint.name for endpoint in listeners]
    if unknown := [endpoint.name for endpoint in advertised if endpoint.name not in names]:
        raise ConfigError(
            f"advertised.listeners: unknown listener {unknown[0]}. Use one of {', '.join(names)}, or add it to"
            " listeners",
            "requirement failed: advertised.listeners listener names must be equal to or a subset of the ones defined"
            f" in listeners. Found {','.join(endpoint.name for endpoint in advertised)}. The valid options based on"
            f" the current configuration are {','.join(names)}",
        )
    # Without a host, this machine's own address is advertised, as in Kafka's ListenerInfo.
    return {endpoint.name: (endpoint.host or ADVERTISED_FOR_WILDCARD, endpoint.port) for endpoint in advertised}


def _listener_configs(config: BrokerConfig) -> tuple[ListenerConfig, ...]:
    endpoints = read_endpoints("listeners", config.listeners)
    check_ports(endpoints, config.listeners)
    controllers = {name.upper() for name in config.controller_listener_names}
    served = [endpoint for endpoint in endpoints if endpoint.name not in controllers]
    if not served:
        raise ConfigError("listeners: every listener is the controller's. Add a listener for clients.")
    protocols = security_protocols(config.listener_security_protocol_map)
    if unknown := [endpoint.name for endpoint in served if endpoint.name not in protocols]:
        raise refusal_of_listeners(
            "listeners",
            config.listeners,
            f"listener.security.protocol.map has no security protocol for {unknown[0]}. Add one; if {unknown[0]} is the"
            f" controller's listener, set controller.listener.names={unknown[0]}",
            f"No security protocol defined for listener {unknown[0]}",
        )
    privileged = _privileged(config, served, protocols)
    control_plane = _control_plane(config, served, privileged)
    advertised = _advertised_listeners(config)
    listeners = []
    for endpoint in served:
        host, port = advertised.get(endpoint.name, (None, 0))
        listener = ListenerConfig(
            name=endpoint.name,
            host=endpoint.host,
            port=endpoint.port,
            security_protocol=protocols[endpoint.name],
            advertised_host=host,
            advertised_port=port,
            properties=_properties(config.texts, endpoint.name, protocols[endpoint.name]),
            is_privileged=endpoint.name == privileged,
            is_control_plane=endpoint.name == control_plane,
        )
        _check_limits(listener)
        listeners.append(listener)
    return tuple(listeners)


def _privileged(config: BrokerConfig, served: Iterable[Endpoint], protocols: Mapping[str, str]) -> str | None:
    """Return the inter-broker listener, or None; unlike Kafka, this broker needs none."""
    names = [endpoint.name for endpoint in served]
    if config.inter_broker_listener_name is None:
        of_protocol = [name for name in names if protocols[name] == config.security_inter_broker_protocol]
        return next((name for name in of_protocol if name == config.security_inter_broker_protocol), None)
    if "security.inter.broker.protocol" in config.properties:
        text = "Only one of inter.broker.listener.name and security.inter.broker.protocol should be set."
        raise ConfigError(text, text)
    return _listed("inter.broker.listener.name", config.inter_broker_listener_name, names)


def _control_plane(config: BrokerConfig, served: Sequence[Endpoint], privileged: str | None) -> str | None:
    name = config.control_plane_listener_name
    if name is None:
        return None
    name = _listed("control.plane.listener.name", name, [endpoint.name for endpoint in served])
    # The control plane answers while the others are busy, so data must have another listener.
    if name == privileged or len(served) == 1:
        raise ConfigError(
            f"control.plane.listener.name: {name} is not allowed: another listener must serve the data. Add one to"
            " listeners."
        )
    return name


def _listed(name: str, listener: str, names: Sequence[str]) -> str:
    if listener.upper() not in names:
        raise ConfigError(
            f"{name}: unknown listener {listener!r}. Use one of {', '.join(names)}, or add it to listeners",
            f"requirement failed: {name} must be a listener name defined in advertised.listeners. The valid options"
            f" based on currently configured listeners are {','.join(names)}",
        )
    return listener.upper()


def _properties(texts: Mapping[str, str], name: str, protocol: str) -> dict[str, str]:
    prefix = prefix_of(name)
    of_all = {each: text for each, text in texts.items() if is_of_listener(each)}
    if protocol == "SASL_SSL":
        of_all.pop("ssl.client.auth", None)  # as in Kafka: a client that authenticates by SASL needs no certificate
    own = {each.removeprefix(prefix): text for each, text in texts.items() if each.startswith(prefix)}
    return {**of_all, **own}


def _check_limits(listener: ListenerConfig) -> None:
    for name in ("max.connections", "max.connection.creation.rate"):
        if listener.limit(name) == 0:
            raise zero_refusal(prefix_of(listener.name) + name, name)
