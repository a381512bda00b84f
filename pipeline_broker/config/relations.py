"""What one property demands of another.

Rules: it looks at a whole configuration and changes nothing; a refusal is one line for the person who wrote it.
"""

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
"""What `authorizer.class.name` may be: nobody is asked, Kafka's, and its former names."""

SHARE_BOUNDED = (
    "session_timeout_ms",
    "heartbeat_interval_ms",
    "assignment_interval_ms",
    "record_lock_duration_ms",
    "delivery_count_limit",
    "partition_max_record_locks",
)
"""Settings of share groups that have limits."""


def check_relations(config: BrokerConfig) -> None:
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
    _check_consumer_groups(config)
    if config.properties.keys() & SHARE_PROPERTIES:  # their defaults go together
        _check_share_groups(config)
    if config.log_dirs is not None and not config.log_dirs:
        raise ConfigError("log.dirs: a data directory is expected")
    if 0 <= config.connections_max_idle_ms <= config.connection_failed_authentication_delay_ms:
        raise ConfigError(
            f"connection.failed.authentication.delay.ms is {config.connection_failed_authentication_delay_ms}: it must"
            f" be below connections.max.idle.ms ({config.connections_max_idle_ms})"
        )
    if config.max_connection_creation_rate == 0:
        raise zero_refusal("max.connection.creation.rate", "max.connection.creation.rate")
    if config.authorizer_class_name not in AUTHORIZERS:
        raise ConfigError(
            f"authorizer.class.name: {config.authorizer_class_name!r} is not known here; expected {AUTHORIZERS[1]}"
        )
    config.connection_limit_overrides()
    _ = config.listener_configs


def _check_consumer_groups(config: BrokerConfig) -> None:
    _check_kind(config, "consumer", ("session_timeout_ms", "heartbeat_interval_ms", "assignment_interval_ms"))
    consumer_assignors(config.group_consumer_assignors)


def _check_share_groups(config: BrokerConfig) -> None:
    """What Kafka's ShareGroupConfig demands; the settings are read here only where one of them is set."""
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
    """Settings of a kind of groups lie within their limits, and a session outlasts a heartbeat."""
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
