"""Constraints between the properties of a broker."""

from pipeline_broker.config.assignors import consumer_assignors, share_assignor
from pipeline_broker.config.broker_config import BrokerConfig
from pipeline_broker.config.listeners import zero_refusal
from pipeline_broker.config.properties import ConfigError
from pipeline_broker.config.share_properties import SHARE_PROPERTIES

AUTHORIZERS = (
    "",
    "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "kafka.security.authorizer.AclAuthorizer",
    "kafka.security.auth.SimpleAclAuthorizer",
)
"""Values of `authorizer.class.name`: none, Kafka's authorizer, and its former names."""

SHARE_BOUNDED = (
    "session_timeout_ms",
    "heartbeat_interval_ms",
    "assignment_interval_ms",
    "record_lock_duration_ms",
    "delivery_count_limit",
    "partition_max_record_locks",
)
"""Fields `group_share_...` with a minimum and a maximum."""


def check_relations(config: BrokerConfig) -> None:
    """Refuse a configuration with contradictory properties.

    Raises:
        ConfigError: a constraint is violated; the message has one line.
    """
    if 0 < config.queued_max_request_bytes < config.socket_request_max_bytes:
        raise ConfigError(
            f"queued.max.request.bytes is {config.queued_max_request_bytes}: it must be at least "
            f"socket.request.max.bytes ({config.socket_request_max_bytes}), or -1"
        )
    # Parsed here so that an invalid value fails the startup or the change, not a later connection.
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
    _check_consumer_groups(config)
    if config.properties.keys() & SHARE_PROPERTIES:  # the defaults satisfy all constraints
        _check_share_groups(config)
    if config.log_dirs is not None and not config.log_dirs:
        raise ConfigError("log.dirs is empty. Name a data directory.")
    if 0 <= config.connections_max_idle_ms <= config.connection_failed_authentication_delay_ms:
        raise ConfigError(
            f"connection.failed.authentication.delay.ms is {config.connection_failed_authentication_delay_ms}: it must"
            f" be below connections.max.idle.ms ({config.connections_max_idle_ms})"
        )
    if config.max_connection_creation_rate == 0:
        raise zero_refusal("max.connection.creation.rate", "max.connection.creation.rate")
    if config.authorizer_class_name not in AUTHORIZERS:
        raise ConfigError(
            f"authorizer.class.name: {config.authorizer_class_name!r} is not supported; use {AUTHORIZERS[1]}"
        )
    config.connection_limit_overrides()
    _ = config.listener_configs


def _check_consumer_groups(config: BrokerConfig) -> None:
    _check_kind(config, "consumer", ("session_timeout_ms", "heartbeat_interval_ms", "assignment_interval_ms"))
    consumer_assignors(config.group_consumer_assignors)


def _check_share_groups(config: BrokerConfig) -> None:
    from pipeline_broker.config.share_settings import share_settings  # noqa: PLC0415 - few set any of them

    settings = share_settings(config.properties)
    _check_kind(settings, "share", SHARE_BOUNDED)
    share_assignor(settings.group_share_assignors)
    if settings.group_share_max_share_sessions < settings.group_share_max_size:
        raise ConfigError(
            f"group.share.max.share.sessions is {settings.group_share_max_share_sessions}: it must be at least"
            f" group.share.max.size ({settings.group_share_max_size})"
        )


def _check_kind(settings: object, kind: str, names: tuple[str, ...]) -> None:
    """Check that settings of a group type are within their limits, and that a session outlasts a heartbeat."""
    for name in names:
        least, value, most = (getattr(settings, f"group_{kind}_{bound}{name}") for bound in ("min_", "", "max_"))
        if not least <= value <= most:
            rest = name.replace("_", ".")
            raise ConfigError(
                f"group.{kind}.{rest} is {value}: it must be between group.{kind}.min.{rest} ({least})"
                f" and group.{kind}.max.{rest} ({most})"
            )
    heartbeat_ms, session_ms = (
        getattr(settings, f"group_{kind}_{name}") for name in ("heartbeat_interval_ms", "session_timeout_ms")
    )
    if heartbeat_ms >= session_ms:
        raise ConfigError(
            f"group.{kind}.heartbeat.interval.ms is {heartbeat_ms}: it must be below"
            f" group.{kind}.session.timeout.ms ({session_ms})"
        )
