"""Validation of stored settings, which another release may have written."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pipeline_broker.config.properties import PREFIXED, ConfigError, Property, broker_properties, topic_properties
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
    if resource_type == "topic":
        _check(settings.items(), topic_properties())
    elif resource_type == "broker":
        _check(((_without_listener(name), text) for name, text in settings.items()), broker_properties())
    else:
        _check_others(resource_type, settings)


def _check_others(resource_type: str, settings: Mapping[str, str]) -> None:
    from pipeline_broker.config.resources import (  # noqa: PLC0415 - most brokers have no such settings
        CLIENT_METRICS,
        RESOURCE_KINDS,
    )

    for kind in RESOURCE_KINDS.values():
        if kind.key == resource_type:
            _check(settings.items(), kind.properties)
            if kind.number == CLIENT_METRICS:  # unlike those of groups, no broker property limits these settings
                kind.check(kind, settings, BrokerSettings())


def _check(settings: Iterable[tuple[str, str]], definitions: Mapping[str, Property]) -> None:
    for name, text in settings:
        definition = definitions.get(name)
        if definition is None:
            continue
        try:
            definition.parse(text)
        except ConfigError:
            raise ConfigError(f"the stored value of {name} is invalid") from None


def _without_listener(name: str) -> str:
    prefixed = PREFIXED.fullmatch(name)
    return prefixed[1] if prefixed else name
