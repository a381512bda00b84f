"""Settings that the cluster has kept since an earlier start: whether this release can still read them."""

from collections.abc import Mapping

from pipeline_broker.config.properties import PREFIXED, ConfigError, Property, broker_properties, topic_properties
from pipeline_broker.config.resolution import BrokerSettings
from pipeline_broker.config.resources import CLIENT_METRICS, RESOURCE_KINDS

__all__ = ["check_stored_settings"]

_KINDS = {kind.key: kind for kind in RESOURCE_KINDS.values()}


def check_stored_settings(resource_type: str, settings: Mapping[str, str]) -> None:
    """Refuse a text that is no value of its setting. Names that are not known are those of another release.

    Args:
        resource_type: "topic", "broker", "group" or "client-metrics".
        settings: the texts by their names.

    Raises:
        ConfigError: a text cannot be read; the error does not show it, as it may be secret.
    """
    for name, text in settings.items():
        definition = _definition(resource_type, name)
        if definition is None:
            continue
        try:
            definition.parse(text)
        except ConfigError:
            raise ConfigError(f"{name} has a value that it cannot have") from None
    client_metrics = RESOURCE_KINDS[CLIENT_METRICS]
    if resource_type == client_metrics.key:
        client_metrics.check(client_metrics, settings, BrokerSettings())


def _definition(resource_type: str, name: str) -> Property | None:
    if resource_type == "topic":
        return topic_properties().get(name)
    if resource_type == "broker":
        prefixed = PREFIXED.fullmatch(name)
        return broker_properties().get(prefixed[1] if prefixed else name)
    kind = _KINDS.get(resource_type)
    return None if kind is None else kind.properties.get(name)
