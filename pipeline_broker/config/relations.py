"""Constraints between the properties of a broker."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipeline_broker.config.broker_config import BrokerConfig
from pipeline_broker.config.listeners import zero_refusal
from pipeline_broker.config.properties import ConfigError

if TYPE_CHECKING:
    from pipeline_broker.config.group_settings import GroupSettings

AUTHORIZERS = (
    "",
    "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "kafka.security.authorizer.AclAuthorizer",
    "kafka.security.auth.SimpleAclAuthorizer",
)
"""Values of `authorizer.class.name`: none, Kafka's authorizer, and its former names."""


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
    # The defaults satisfy all constraints of groups.
    if any(name.startswith(("group.consumer.", "group.share.", "group.streams.")) for name in config.texts):
        _check_groups(config)
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


def _check_groups(config: BrokerConfig) -> None:
    from pipeline_broker.config.group_settings import (  # noqa: PLC0415 - few set any of them
        ConsumerGroupSettings,
        ShareGroupSettings,
        StreamsGroupSettings,
    )

    _check_kind(config, ConsumerGroupSettings)
    _ = config.consumer_assignors
    _check_kind(config, ShareGroupSettings)
    _ = config.share_assignor
    standby, standby_max = config.group_streams_num_standby_replicas, config.group_streams_max_standby_replicas
    if standby > standby_max:
        raise ConfigError(
            f"group.streams.num.standby.replicas is {standby}: it must be at most group.streams.max.standby.replicas"
            f" ({standby_max})"
        )
    _check_kind(config, StreamsGroupSettings)
    _ = config.streams_assignors
    if config.group_share_max_share_sessions < config.group_share_max_size:
        raise ConfigError(
            f"group.share.max.share.sessions is {config.group_share_max_share_sessions}: it must be at least"
            f" group.share.max.size ({config.group_share_max_size})"
        )


def _check_kind(config: BrokerConfig, view: type[GroupSettings]) -> None:
    """Check that settings of a group type are within their limits, and that a session outlasts a heartbeat."""
    kind, of_group = view.KIND, view.of(config, {})
    for name in view.inherited():
        value, limits = getattr(of_group, name), view.limits(config, name)
        if limits is None:
            continue
        least, most = limits
        if not least <= value <= most:
            rest = name.replace("_", ".")
            raise ConfigError(
                f"group.{kind}.{rest} is {value}: it must be between group.{kind}.min.{rest} ({least})"
                f" and group.{kind}.max.{rest} ({most})"
            )
    if of_group.heartbeat_interval_ms >= of_group.session_timeout_ms:
        raise ConfigError(
            f"group.{kind}.heartbeat.interval.ms is {of_group.heartbeat_interval_ms}: it must be below"
            f" group.{kind}.session.timeout.ms ({of_group.session_timeout_ms})"
        )
