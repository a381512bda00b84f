"""Checks of configuration changes to a running broker, with Kafka's error messages.

A restart may make any change that is refused here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pipeline_broker.config.broker_config import BrokerConfig
from pipeline_broker.config.changes import not_dynamic
from pipeline_broker.config.listeners import prefix_of, zero_refusal
from pipeline_broker.config.properties import PREFIXED, ConfigError, Property, broker_properties, refusal
from pipeline_broker.config.settings import AUTHORIZER_PROPERTIES, is_acted_on, is_unscoped_jaas

__all__ = ["CLASS_LISTS", "check_change", "check_has_effect"]

POOLS = (
    "num.io.threads",
    "num.network.threads",
    "background.threads",
    "num.recovery.threads.per.data.dir",
    "num.replica.fetchers",
)
# This broker does not have the last two pools. It refuses the same changes to them as Kafka.

CLASS_LISTS = frozenset({"metric.reporters"})
"""Properties that list class names."""


def check_change(before: BrokerConfig, after: BrokerConfig) -> None:
    """Refuse a change that a running broker cannot apply.

    Args:
        before: the current configuration.
        after: the configuration with the change.

    Raises:
        ConfigError: a number of threads is more than doubled or halved, a limit would block all connections, or a
            listener would get another protocol.
    """
    for name in POOLS:
        old, new = (int(config.texts.get(name, broker_properties()[name].default or "1")) for config in (before, after))
        _check_thread_count(name, name, old, new)
    if after.max_connections == 0 < before.max_connections:
        raise zero_refusal("max.connections", "max.connections")
    _check_listeners(before, after)


def check_has_effect(altered: Mapping[str, str], names: Iterable[str]) -> None:
    """Refuse changes that would promise security without effect, and changes that name an unknown class.

    Other settings without effect are stored and shown, as in Kafka, with a warning (`SettingsWarnings`): clients set
    them on every cluster. Every property may be set to its default, since the broker behaves accordingly.

    Args:
        altered: all settings after the change, in Kafka's form.
        names: the properties that the change sets.

    Raises:
        NotDynamicError: a property has an effect only at startup, or none.
        ConfigError: a property names a class; the broker runs no foreign code.
    """
    known = broker_properties()
    refused = []
    for name in names:
        prefixed = PREFIXED.fullmatch(name)
        definition = known.get(name if prefixed is None else prefixed[1])
        if name in AUTHORIZER_PROPERTIES or is_unscoped_jaas(name):
            refused.append(name)
        elif definition is None or is_acted_on(name) or _is_default(definition, altered[name]):
            continue
        elif definition.type == "class" or definition.name in CLASS_LISTS:
            raise _unknown_class(name, definition, altered[name])
        # With the prefix of a listener, such a property looks like a restriction of that listener, and would be none.
        elif prefixed is not None:
            refused.append(name)
    if refused:
        raise not_dynamic(refused)


def _is_default(definition: Property, text: str) -> bool:
    return definition.default is not None and text == definition.canonical(definition.default)


def _unknown_class(name: str, definition: Property, text: str) -> ConfigError:
    return ConfigError(
        f"{name}: {text!r} is not supported. Use {definition.default}",
        f"Invalid value {text} for configuration {definition.name}: Class {text} could not be found.",
    )


def _check_thread_count(shown: str, name: str, old: int, new: int) -> None:
    """Refuse to more than double or halve a number of threads in one change, as in Kafka."""
    if new < old // 2:
        reason = f"value should be at least half the current value {old}"
    elif new > old * 2:
        reason = f"value should not be greater than double the current value {old}"
    else:
        return
    raise refusal(
        f"{shown}: {new} is not allowed: {reason}",
        f"Dynamic thread count update validation failed for {name}={new}, {reason}",
    )


def _check_listeners(before: BrokerConfig, after: BrokerConfig) -> None:
    """Refuse another protocol for an existing listener, and check its number of network threads."""
    served = {listener.name: listener for listener in before.listener_configs}
    for listener in after.listener_configs:
        current = served.get(listener.name)
        if current is None:
            continue
        if current.security_protocol != listener.security_protocol:
            raise refusal(
                f"{listener.name}: the security protocol cannot be changed while the broker runs. Restart it with"
                " the new protocol",
                f"Security protocol cannot be updated for existing listener ListenerName({listener.name})",
            )
        name = "num.network.threads"
        old, new = (
            config.num_network_threads if own is None else own
            for config, own in ((before, current.limit(name)), (after, listener.limit(name)))
        )
        _check_thread_count(prefix_of(listener.name) + name, name, old, new)
