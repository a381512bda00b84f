"""Settings that the cluster has kept since an earlier start: whether this release can still read them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pipeline_broker.config.properties import PREFIXED, ConfigError, Property, broker_properties, topic_properties
from pipeline_broker.config.resolution import BrokerSettings

__all__ = ["check_stored_settings"]


def check_stored_settings(resource_type: str, settings: Mapping[str, str]) -> None:
    """Refuse a text that is no value of its setting. Names that are not known are those of another release.

    Args:
        resource_type: "topic", "broker", "group" or "client-metrics".
        settings: the texts by their names.

    Raises:
        ConfigError: a text cannot be read; the error does not show it, as it may be secret.
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
            if kind.number == CLIENT_METRICS:  # no setting of the broker limits these
                kind.check(kind, settings, BrokerSettings())


def _check(settings: Iterable[tuple[str, str]], definitions: Mapping[str, Property]) -> None:
    for name, text in settings:
        definition = definitions.get(name)
        if definition is None:
            continue
        try:
            definition.parse(text)
        except ConfigError:
            raise ConfigError(f"{name} has a value that it cannot have") from None


def _without_listener(name: str) -> str:
    prefixed = PREFIXED.fullmatch(name)
    return prefixed[1] if prefixed else name
