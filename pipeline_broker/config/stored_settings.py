"""Validation of stored settings, which another release may have written."""

from __future__ import annotations

from collections.abc import Mapping

from pipeline_broker.config.properties import PREFIXED, ConfigError, properties_of
from pipeline_broker.config.resolution import BrokerSettings

__all__ = ["check_stored_settings"]


def check_stored_settings(resource_type: str, settings: Mapping[str, str]) -> None:
    """Refuse stored values that this release cannot read.

    Unknown names pass, because another release may have written them.

    Args:
        resource_type: "topic", "broker", "group" or "client-metrics".
        settings: texts by name.

    Raises:
        ConfigError: a value is invalid; the message does not show it, because it may be secret.
    """
    known = properties_of(resource_type)
    for name, text in settings.items():
        prefixed = PREFIXED.fullmatch(name) if resource_type == "broker" else None
        bare = prefixed[1] if prefixed else name
        try:
            if bare in known:
                known[bare].parse(text)
        except ConfigError:
            raise ConfigError(f"the stored value of {bare} is invalid") from None
    if resource_type == "client-metrics":  # unlike those of groups, no broker property limits these settings
        from pipeline_broker.config.resources import (  # noqa: PLC0415 - most brokers have no such settings
            CLIENT_METRICS,
            RESOURCE_KINDS,
        )

        kind = RESOURCE_KINDS[CLIENT_METRICS]
        kind.check(kind, settings, BrokerSettings())
