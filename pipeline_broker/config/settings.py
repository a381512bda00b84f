"""What this broker acts on: one frozen object, made from (name, text) pairs.

Rules: the fields of BrokerConfig are the properties that the broker reads, each Kafka's name with `_` for `.`, its
default that of the table. Those that topics inherit are resolved for each topic (`resolution`). Any other property
that Kafka knows is checked, kept for DescribeConfigs and answered with one warning line; an unknown one is refused.
Of two pairs with one name the later wins.
"""

import functools
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import attrs

from pipeline_broker.config.listeners import (
    LISTENER_PROPERTIES,
    OF_ONE_LISTENER,
    PREFIX,
    ListenerConfig,
    listener_configs,
    read_endpoints,
)
from pipeline_broker.config.properties import (
    PREFIXED,
    ConfigError,
    broker_properties,
    format_value,
    nearest_hint,
    unknown_property,
)
from pipeline_broker.config.relations import check_relations
from pipeline_broker.config.share_properties import SHARE_PROPERTIES
from pipeline_broker.config.sources import read_argument, read_settings_file
from pipeline_broker.config.topic_settings import INHERITED_BY_TOPICS

INT32_MAX = 2**31 - 1
DATA_DEFAULT = Path("data")
JAAS = "sasl.jaas.config"
PLUGIN_PREFIXES = ("rsm.config.", "rlmm.config.", "config.providers.")
"""Properties that Kafka hands to plug-ins unread."""


def _super_users(text: str) -> tuple[str, ...]:
    """Principals between semicolons: the names in certificates have commas."""
    users = tuple(filter(None, map(str.strip, text.split(";"))))
    for user in users:
        kind, colon, name = user.partition(":")
        if not (kind and colon and name):
            raise ConfigError(f"super.users: {user!r} is not of the form User:name")
    return users


AUTHORIZER_PROPERTIES: Mapping[str, Callable[[str], Any]] = {
    "allow.everyone.if.no.acl.found": lambda text: text.strip().lower() == "true",
    "super.users": _super_users,
}
"""What Kafka's own authorizer reads, a plug-in too: in no list of broker properties, yet in every guide to ACLs."""


@attrs.frozen(kw_only=True)
class BrokerConfig:
    """The properties that this broker acts on; their meaning stands in broker_properties.txt."""

    node_id: int = 1
    listeners: tuple[str, ...] = ("PLAINTEXT://127.0.0.1:9092",)
    advertised_listeners: tuple[str, ...] | None = None
    listener_security_protocol_map: str = "SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT"
    inter_broker_listener_name: str | None = None
    security_inter_broker_protocol: str = "PLAINTEXT"
    controller_listener_names: tuple[str, ...] = ()
    control_plane_listener_name: str | None = None
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
    connection_failed_authentication_delay_ms: int = 100
    background_threads: int = 10
    authorizer_class_name: str = ""
    super_users: tuple[str, ...] = ()
    allow_everyone_if_no_acl_found: bool = False
    num_partitions: int = 1
    auto_create_topics_enable: bool = True
    delete_topic_enable: bool = True
    log_retention_check_interval_ms: int = 300000
    log_initial_task_delay_ms: int = 30000
    log_cleaner_enable: bool = True
    log_cleaner_backoff_ms: int = 15000
    log_cleaner_dedupe_buffer_size: int = 134217728
    fetch_max_bytes: int = 57671680
    max_incremental_fetch_session_cache_slots: int = 1000
    max_request_partition_size_limit: int = 2000

    group_initial_rebalance_delay_ms: int = 3000
    group_min_session_timeout_ms: int = 6000
    group_max_session_timeout_ms: int = 1800000
    group_max_size: int = INT32_MAX
    group_consumer_session_timeout_ms: int = 45000
    group_consumer_min_session_timeout_ms: int = 45000
    group_consumer_max_session_timeout_ms: int = 60000
    group_consumer_heartbeat_interval_ms: int = 5000
    group_consumer_min_heartbeat_interval_ms: int = 5000
    group_consumer_max_heartbeat_interval_ms: int = 15000
    group_consumer_assignment_interval_ms: int = 1000
    group_consumer_min_assignment_interval_ms: int = 0
    group_consumer_max_assignment_interval_ms: int = 15000
    group_consumer_max_size: int = INT32_MAX
    group_consumer_assignors: tuple[str, ...] = ("uniform", "range")
    group_consumer_migration_policy: str = "bidirectional"
    offset_metadata_max_bytes: int = 4096
    offsets_topic_num_partitions: int = 50
    offsets_retention_minutes: int = 10080
    offsets_retention_check_interval_ms: int = 600000
    producer_id_expiration_ms: int = 86400000
    transaction_max_timeout_ms: int = 900000
    transaction_abort_timed_out_transaction_cleanup_interval_ms: int = 10000
    transaction_remove_expired_transaction_cleanup_interval_ms: int = 3600000
    transaction_partition_verification_enable: bool = True
    transaction_state_log_num_partitions: int = 50
    transaction_state_log_segment_bytes: int = 104857600
    transactional_id_expiration_ms: int = 604800000

    delegation_token_secret_key: str | None = None
    delegation_token_expiry_time_ms: int = 86400000
    delegation_token_max_lifetime_ms: int = 604800000
    delegation_token_expiry_check_interval_ms: int = 3600000
    telemetry_max_bytes: int = 1048576

    pipeline_queues: int | None = None
    pipeline_partitions: int = 200000
    pipeline_auto_create_partitions: int = 10000
    pipeline_group_bytes: int = 134217728
    pipeline_transactional_ids: int = 100000
    pipeline_fetch_session_partitions: int = 100000
    pipeline_partial_request_bytes: int = 268435456
    pipeline_unsent_response_bytes: int = 268435456
    pipeline_in_flight: int | None = None
    pipeline_commit: str | None = None
    pipeline_telemetry_file: str | None = None
    pipeline_timelines: bool = False

    properties: Mapping[str, str] = attrs.field(factory=dict)
    """What was set, by Kafka's name, in Kafka's form: the static settings that DescribeConfigs shows."""
    changed: Mapping[str, str] = attrs.field(factory=dict)
    """What was set while the broker runs and counts for this one."""

    @property
    def texts(self) -> Mapping[str, str]:
        """All that is set, in Kafka's form; what was changed goes over what it was started with."""
        return {**self.properties, **self.changed}

    @functools.cached_property
    def listener_configs(self) -> tuple[ListenerConfig, ...]:
        """The listeners that are served, in the order in which they are set."""
        return listener_configs(self)

    def listening_at(self, host: str | None, port: int | None) -> "BrokerConfig":
        """The configuration with another host or port of its first listener that is served."""
        first = self.listener_configs[0]
        endpoints = read_endpoints("listeners", self.listeners)
        moved = {first.name: (first.host if host is None else host, first.port if port is None else port)}
        return self.with_addresses({endpoint.name: (endpoint.host, endpoint.port) for endpoint in endpoints} | moved)

    def with_addresses(self, addresses: Mapping[str, tuple[str, int]]) -> "BrokerConfig":
        """The configuration with the addresses of listeners changed, as they are shown to clients too."""
        listeners = tuple(
            str(attrs.evolve(each, host=addresses[each.name][0], port=addresses[each.name][1]))
            if each.name in addresses
            else str(each)
            for each in read_endpoints("listeners", self.listeners)
        )
        return attrs.evolve(self, listeners=listeners, properties={**self.properties, "listeners": ",".join(listeners)})

    def directory(self, given: Path | None) -> Path:
        """The data directory: the one given on a command line, else that of `log.dirs`, else the default."""
        if given is not None:
            return given
        return Path(self.log_dirs[0]) if self.log_dirs else DATA_DEFAULT

    def connection_limit_overrides(self) -> dict[str, int]:
        """Connection limits of single addresses."""
        limits = {}
        for item in filter(None, map(str.strip, self.max_connections_per_ip_overrides.split(","))):
            host, _, limit = item.rpartition(":")
            if not host or not limit.isascii() or not limit.isdigit():
                raise ConfigError(f"max.connections.per.ip.overrides: {item!r} is not of the form host:limit")
            limits[host] = int(limit)
        return limits


FIELDS = frozenset(field.name.replace("_", ".") for field in attrs.fields(BrokerConfig)) - {"properties", "changed"}
ACTED_ON = (FIELDS - AUTHORIZER_PROPERTIES.keys()) | LISTENER_PROPERTIES | SHARE_PROPERTIES | INHERITED_BY_TOPICS
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
            properties[name] = _foreign_text(name, text)
            if name in AUTHORIZER_PROPERTIES:
                fields[name.replace(".", "_")] = AUTHORIZER_PROPERTIES[name](text)
        else:
            value = definition.parse(text)
            properties[name] = format_value(value)
            if name in FIELDS:
                fields[name.replace(".", "_")] = value
        if not is_acted_on(name) and name not in ALIASES:
            warnings.append(f"warning: {warning_of(name)}")
    _apply_aliases(fields, properties)
    config = BrokerConfig(**fields, properties=properties)
    check_relations(config)
    return config, warnings + _idle_warnings(config)


def config_with(started: BrokerConfig, changed: Mapping[str, str]) -> BrokerConfig:
    """The configuration of a running broker: as at its start, and what was `changed` since.

    Raises:
        ConfigError: properties do not go together.
    """
    fields: dict[str, Any] = {}
    counting = {name: text for name, text in changed.items() if _is_dynamic(name)}
    for name, text in counting.items():
        if name in FIELDS:
            fields[name.replace(".", "_")] = broker_properties()[name].parse(text)
    config = attrs.evolve(started, **fields, changed=counting)
    check_relations(config)
    return config


def _is_dynamic(name: str) -> bool:
    definition = broker_properties().get(name)
    return name.startswith(PREFIX) if definition is None else not definition.read_only


def is_acted_on(name: str) -> bool:
    """Whether this broker acts on a property, also on one with the prefix of a listener."""
    prefixed = PREFIXED.fullmatch(name)
    if prefixed:
        return prefixed[1] in LISTENER_PROPERTIES | OF_ONE_LISTENER
    return name in ACTED_ON or name in AUTHORIZER_PROPERTIES


def is_idle_jaas(name: str) -> bool:
    """Whether a name is that of JAAS lines without a listener and a mechanism: no listener reads those."""
    return name == JAAS or (PREFIXED.fullmatch(name) is not None and name.split(".", 3)[3] == JAAS)


def warning_of(name: str) -> str:
    """The line about a property that is accepted without being acted on."""
    return f"{name} is accepted, but this broker does not act on it yet"


def warning_of_change(name: str) -> str | None:
    """The line about a property that was set while the broker runs, where that has no effect."""
    if is_acted_on(name):
        return None
    known = broker_properties()
    prefixed = PREFIXED.fullmatch(name)
    if (name if prefixed is None else prefixed[1]) in known or name.startswith(PLUGIN_PREFIXES):
        return warning_of(name)
    return f"{name} is kept, but is no property of Kafka's{nearest_hint(name, known)}"


def _foreign_text(name: str, text: str) -> str:
    """The text of a property that is in no table: with the prefix of a listener, or for a plug-in."""
    known = broker_properties()
    prefixed = PREFIXED.fullmatch(name)
    if prefixed and prefixed[1] in known:
        if name != name.lower():
            raise ConfigError(f"{name}: the name of the listener is written in lower case there: {name.lower()}")
        try:
            return known[prefixed[1]].canonical(text)
        except ConfigError as error:
            raise ConfigError(f"{name.removesuffix(prefixed[1])}{error}", error.client_message) from None
    if name not in AUTHORIZER_PROPERTIES and not name.startswith(PLUGIN_PREFIXES):
        raise unknown_property(name, known)
    return text


def _idle_warnings(config: BrokerConfig) -> list[str]:
    """What is set for listeners or access and cannot count: some are the controller's, some do not exist."""
    names = {listener.name for listener in config.listener_configs}
    warnings = [
        f"warning: {name} does not count: no authorizer.class.name is set, so everybody may do everything"
        for name in AUTHORIZER_PROPERTIES
        if name in config.properties and not config.authorizer_class_name
    ]
    warnings += [
        f"warning: the listener {endpoint.name} is the controller's; this broker has no quorum and does not serve it"
        for endpoint in read_endpoints("listeners", config.listeners)
        if endpoint.name not in names
    ]
    warnings += [
        f"warning: {name} does not count: write {PREFIX}<listener>.<mechanism>.{JAAS}"
        for name in config.properties
        if is_idle_jaas(name)
    ]
    controllers = {name.upper() for name in config.controller_listener_names}
    prefixes = {name.split(".")[2].upper() for name in config.properties if name.startswith(PREFIX)}
    strangers = sorted(name.lower() for name in prefixes - names - controllers)
    return warnings + [
        f"warning: properties of {PREFIX}{name} do not count: there is no such listener" for name in strangers
    ]


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
