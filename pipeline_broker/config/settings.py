"""What this broker acts on: one frozen object, made from (name, text) pairs.

Rules: the fields of BrokerConfig are the properties acted on, each Kafka's name with `_` for `.`, its default that of
the table; any other property that Kafka knows is checked, kept for DescribeConfigs and answered with one warning line;
what Kafka does not know is refused. Of two pairs with one name the later wins.
"""

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import attrs

from pipeline_broker.config.properties import (
    PREFIXED,
    ConfigError,
    broker_properties,
    format_value,
    unknown_property,
)
from pipeline_broker.config.sources import read_argument, read_settings_file

INT32_MAX = 2**31 - 1
LISTENER = re.compile(r"([A-Za-z0-9_-]+)://(?:\[([0-9A-Fa-f:.%]+)\]|([^:\[\]/]*)):([0-9]{1,5})")
PORT_MAX = 65535
WILDCARDS = frozenset({"", "0.0.0.0", "::"})  # noqa: S104 - compared with, not bound to
PLUGIN_PREFIXES = ("rsm.config.", "rlmm.config.", "config.providers.")
"""Properties that Kafka hands to plug-ins unread."""
AUTHORIZER_PROPERTIES = frozenset({"allow.everyone.if.no.acl.found", "super.users"})
"""What Kafka's own authorizer reads, a plug-in too: in no list of broker properties, yet in every guide to ACLs."""


@attrs.frozen(kw_only=True)
class BrokerConfig:
    """The properties that this broker acts on; their meaning stands in broker_properties.txt."""

    node_id: int = 1
    listeners: tuple[str, ...] = ("PLAINTEXT://127.0.0.1:9092",)
    advertised_listeners: tuple[str, ...] | None = None
    log_dirs: tuple[str, ...] | None = None

    num_network_threads: int = 3
    num_io_threads: int = 8
    queued_max_requests: int = 500
    queued_max_request_bytes: int = -1
    socket_request_max_bytes: int = 104857600
    socket_send_buffer_bytes: int = 102400
    socket_receive_buffer_bytes: int = 102400
    socket_listen_backlog_size: int = 50
    connections_max_idle_ms: int = 600000
    max_connections: int = INT32_MAX
    max_connections_per_ip: int = INT32_MAX
    max_connections_per_ip_overrides: str = ""
    max_connection_creation_rate: int = INT32_MAX

    quota_window_num: int = 11
    quota_window_size_seconds: int = 1
    controller_quota_window_num: int = 11
    controller_quota_window_size_seconds: int = 1

    num_partitions: int = 1
    auto_create_topics_enable: bool = True
    delete_topic_enable: bool = True
    message_max_bytes: int = 1048588
    log_message_timestamp_type: str = "CreateTime"
    log_message_timestamp_before_max_ms: int = 2**63 - 1
    log_message_timestamp_after_max_ms: int = 3600000
    log_segment_bytes: int = 1073741824
    min_insync_replicas: int = 1
    fetch_max_bytes: int = 57671680
    max_incremental_fetch_session_cache_slots: int = 1000
    max_request_partition_size_limit: int = 2000

    group_initial_rebalance_delay_ms: int = 3000
    group_min_session_timeout_ms: int = 6000
    group_max_session_timeout_ms: int = 1800000
    group_max_size: int = INT32_MAX
    offset_metadata_max_bytes: int = 4096
    offsets_topic_num_partitions: int = 50
    offsets_retention_minutes: int = 10080
    offsets_retention_check_interval_ms: int = 600000
    producer_id_expiration_ms: int = 86400000

    pipeline_queues: int | None = None
    pipeline_in_flight: int | None = None
    pipeline_commit: str | None = None

    properties: Mapping[str, str] = attrs.field(factory=dict)
    """What was set, by Kafka's name, in Kafka's form: the static settings that DescribeConfigs shows."""

    @property
    def listen_address(self) -> tuple[str, int]:
        """The host and port to listen on."""
        return _listener_address("listeners", self.listeners)

    @property
    def advertised_address(self) -> tuple[str, int] | None:
        """The host and port that clients are told, None where it is the one listened on."""
        if self.advertised_listeners is None:
            return None
        return _listener_address("advertised.listeners", self.advertised_listeners)

    @property
    def data_directory(self) -> str | None:
        """The data directory, None where no property names one."""
        return self.log_dirs[0] if self.log_dirs else None

    def connection_limit_overrides(self) -> dict[str, int]:
        """Connection limits of single addresses."""
        limits = {}
        for item in filter(None, map(str.strip, self.max_connections_per_ip_overrides.split(","))):
            host, _, limit = item.rpartition(":")
            if not host or not limit.isascii() or not limit.isdigit():
                raise ConfigError(f"max.connections.per.ip.overrides: {item!r} is not of the form host:limit")
            limits[host] = int(limit)
        return limits


ACTED_ON = frozenset(field.name.replace("_", ".") for field in attrs.fields(BrokerConfig)) - {"properties"}
TOPIC_ACTED_ON = frozenset(
    {
        "max.message.bytes",
        "message.timestamp.after.max.ms",
        "message.timestamp.before.max.ms",
        "message.timestamp.type",
        "min.insync.replicas",
        "segment.bytes",
    }
)
"""The settings of topics that this broker acts on; one replica is all that it could wait for."""
ALIASES = {"broker.id": "node.id", "log.dir": "log.dirs"}
"""Former names, and the properties that they set."""


def load_settings(files: Iterable[Path], arguments: Iterable[str]) -> tuple[BrokerConfig, list[str]]:
    """The configuration from settings files and then `name=value` arguments; later ones win."""
    pairs: list[tuple[str, str]] = []
    for path in files:
        pairs += read_settings_file(path)
    pairs += [read_argument(argument) for argument in arguments]
    return parse_settings(pairs)


def parse_settings(pairs: Iterable[tuple[str, str]]) -> tuple[BrokerConfig, list[str]]:
    """The configuration, and a warning line for each property that is accepted without being acted on yet."""
    texts = dict(pairs)
    known = broker_properties() if texts else {}
    fields: dict[str, Any] = {}
    properties: dict[str, str] = {}
    warnings = []
    for name, text in texts.items():
        definition = known.get(name)
        if definition is None:
            _check_prefixed(name)
            warnings.append(f"warning: {warning_of(name)}")
            continue
        value = definition.parse(text)
        properties[name] = format_value(value)
        if name in ACTED_ON:
            fields[name.replace(".", "_")] = value
        elif name not in ALIASES:
            warnings.append(f"warning: {warning_of(name)}")
    _apply_aliases(fields, properties)
    config = BrokerConfig(**fields, properties=properties)
    _check_relations(config)
    return config, warnings


def config_with(started: BrokerConfig, changed: Mapping[str, str]) -> BrokerConfig:
    """The configuration of a running broker: as at its start, and what was `changed` since.

    Raises:
        ConfigError: properties do not go together.
    """
    fields: dict[str, Any] = {}
    for name, text in changed.items():
        if name in ACTED_ON and not broker_properties()[name].read_only:
            fields[name.replace(".", "_")] = broker_properties()[name].parse(text)
    config = attrs.evolve(started, **fields)
    _check_relations(config)
    return config


def check_thread_counts(before: BrokerConfig, after: BrokerConfig) -> None:
    """Refuse to more than double or halve a number of threads at once, as Kafka does."""
    for name in ("num.io.threads", "num.network.threads"):
        old, new = (getattr(config, name.replace(".", "_")) for config in (before, after))
        if new < old // 2:
            reason = f"value should be at least half the current value {old}"
        elif new > old * 2:
            reason = f"value should not be greater than double the current value {old}"
        else:
            continue
        raise ConfigError(
            f"{name}: {new} is not allowed: {reason}",
            "Invalid value org.apache.kafka.common.config.ConfigException: Dynamic thread count update validation"
            f" failed for {name}={new}, {reason} for configuration Invalid dynamic configuration",
        )


def warning_of(name: str) -> str:
    """The line about a property that is accepted without being acted on."""
    return f"{name} is accepted, but this broker does not act on it yet"


def _check_prefixed(name: str) -> None:
    known = broker_properties()
    prefixed = PREFIXED.fullmatch(name)
    if prefixed and prefixed[1] in known:
        return
    if name not in AUTHORIZER_PROPERTIES and not name.startswith(PLUGIN_PREFIXES):
        raise unknown_property(name, known)


def _apply_aliases(fields: dict[str, Any], properties: Mapping[str, str]) -> None:
    node, broker = properties.get("node.id"), properties.get("broker.id")
    if node is None and broker is not None:
        if int(broker) < 0:
            raise ConfigError(f"broker.id: {broker!r} is not allowed: must be at least 0")
        fields["node_id"] = int(broker)
    elif broker is not None and node != broker:
        raise ConfigError(f"node.id is {node} but broker.id is {broker}: they must agree where both are set")
    if "log.dirs" not in properties and "log.dir" in properties:
        fields["log_dirs"] = tuple(properties["log.dir"].split(","))


def _check_relations(config: BrokerConfig) -> None:
    """What one property demands of another; the derived values are made once, so that they fail at the start."""
    if 0 < config.queued_max_request_bytes < config.socket_request_max_bytes:
        raise ConfigError(
            f"queued.max.request.bytes is {config.queued_max_request_bytes}: it must be at least "
            f"socket.request.max.bytes ({config.socket_request_max_bytes}), or -1"
        )
    if config.max_connections_per_ip == 0 and not config.connection_limit_overrides():
        raise ConfigError(
            "max.connections.per.ip: 0 is allowed only with max.connections.per.ip.overrides",
            "requirement failed: max.connections.per.ip can be set to zero only if max.connections.per.ip.overrides"
            " property is set.",
        )
    if config.group_min_session_timeout_ms > config.group_max_session_timeout_ms:
        raise ConfigError(
            f"group.min.session.timeout.ms is {config.group_min_session_timeout_ms}: it must not be above "
            f"group.max.session.timeout.ms ({config.group_max_session_timeout_ms})"
        )
    if config.log_dirs is not None and len(config.log_dirs) != 1:
        raise ConfigError(f"log.dirs: exactly one data directory is expected, not {len(config.log_dirs)}")
    config.connection_limit_overrides()
    _ = config.listen_address
    if (advertised := config.advertised_address) and advertised[0] in WILDCARDS:
        raise ConfigError("advertised.listeners: a host that clients can connect to is expected")


def _listener_address(name: str, listeners: tuple[str, ...]) -> tuple[str, int]:
    """The address of the one plaintext listener; a controller's is nobody's business here and may stand beside it."""
    found = []
    for text in listeners:
        match = LISTENER.fullmatch(text)
        if not match or int(match[4]) > PORT_MAX:
            raise ConfigError(f"{name}: {text!r} is not of the form PLAINTEXT://host:port")
        if match[1].upper() != "CONTROLLER":
            found.append((match[1].upper(), match[2] or match[3], int(match[4])))
    if len(found) != 1 or found[0][0] != "PLAINTEXT":
        raise ConfigError(f"{name}: exactly one PLAINTEXT listener is expected, not {','.join(listeners)!r}")
    return found[0][1], found[0][2]
