"""What a running broker refuses to become, in Kafka's words.

Rules of this file: it compares the configuration that counts with the one that would count and changes neither; a
start is free to do what is refused here. An answer without an error means that the setting acts: what the broker would
store without acting on it is refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pipeline_broker.config.broker_config import BrokerConfig
from pipeline_broker.config.changes import not_dynamic
from pipeline_broker.config.listeners import prefix_of, zero_refusal
from pipeline_broker.config.properties import PREFIXED, ConfigError, Property, broker_properties, refusal
from pipeline_broker.config.settings import AUTHORIZER_PROPERTIES, is_acted_on, is_idle_jaas

__all__ = ["check_acts", "check_change", "has_subject"]

POOLS = (
    "num.io.threads",
    "num.network.threads",
    "background.threads",
    "num.recovery.threads.per.data.dir",
    "num.replica.fetchers",
)
"""The last two are pools that this broker does not have; a client is told the same of them."""

WITHOUT_SUBJECT = frozenset(
    {
        "follower.fetch.last.tiered.offset.enable",
        "follower.replication.throttled.rate",
        "group.coordinator.cached.buffer.max.bytes",
        "group.streams.assignment.interval.ms",
        "leader.replication.throttled.rate",
        "num.recovery.threads.per.data.dir",
        "num.replica.fetchers",
        "replica.alter.log.dirs.io.max.bytes.per.second",
        "sasl.mechanism.inter.broker.protocol",
        "share.coordinator.cached.buffer.max.bytes",
        "ssl.endpoint.identification.algorithm",
        "ssl.keymanager.algorithm",
        "ssl.provider",
        "ssl.secure.random.implementation",
        "ssl.trustmanager.algorithm",
        "unclean.leader.election.enable",
    }
)
"""Dynamic properties of what this broker does not have: replicas, other brokers, streams groups, buffers and providers
of Java. Tools set some of them on every cluster, and nothing here contradicts any value."""
WITHOUT_SUBJECT_PREFIXES = ("log.local.", "remote.", "sasl.kerberos.", "sasl.login.")
"""The same: tiered storage, GSSAPI, and logins at other brokers."""


def check_change(before: BrokerConfig, after: BrokerConfig) -> None:
    """Refuse a change that a running broker cannot make.

    Raises:
        ConfigError: see the functions below.
    """
    for name in POOLS:
        old, new = (int(config.texts.get(name, broker_properties()[name].default or "1")) for config in (before, after))
        _check_thread_count(name, name, old, new)
    if after.max_connections == 0 < before.max_connections:
        raise zero_refusal("max.connections", "max.connections")
    _check_listeners(before, after)


def has_subject(name: str) -> bool:
    """Whether a property, without the prefix of a listener, is about something that this broker has."""
    return name not in WITHOUT_SUBJECT and not name.startswith(WITHOUT_SUBJECT_PREFIXES)


def check_acts(altered: Mapping[str, str], names: Iterable[str]) -> None:
    """Refuse settings that would be stored, and answered without an error, though the broker does not act on them.

    A property that is not acted on may be set to its default, by which the broker acts. Names that are no property of
    a broker pass, as in Kafka, except those of the authorizer: Kafka stores `super.users`, and goes on with those of
    its start.

    Args:
        altered: all that is set after the change, in Kafka's form.
        names: what the change sets.

    Raises:
        NotDynamicError: a property counts only where it is set at the start, or not at all.
        ConfigError: it names a class, and no code of others runs here.
    """
    known = broker_properties()
    refused = []
    for name in names:
        prefixed = PREFIXED.fullmatch(name)
        definition = known.get(name if prefixed is None else prefixed[1])
        if name in AUTHORIZER_PROPERTIES or is_idle_jaas(name):
            refused.append(name)
        elif definition is None or is_acted_on(name) or not has_subject(definition.name):
            continue
        elif definition.default is None or altered[name] != definition.canonical(definition.default):
            if definition.type == "class":
                raise _unknown_class(name, definition, altered[name])
            refused.append(name)
    if refused:
        raise not_dynamic(refused)


def _unknown_class(name: str, definition: Property, text: str) -> ConfigError:
    return ConfigError(
        f"{name}: {text!r} is not allowed: only {definition.default} is known here",
        f"Invalid value {text} for configuration {definition.name}: Class {text} could not be found.",
    )


def _check_thread_count(shown: str, name: str, old: int, new: int) -> None:
    """A number of threads is at most doubled or halved at once."""
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
    """A listener that stays keeps its protocol; its own limits follow the rules of the general ones."""
    served = {listener.name: listener for listener in before.listener_configs}
    for listener in after.listener_configs:
        current = served.get(listener.name)
        if current is None:
            continue
        if current.security_protocol != listener.security_protocol:
            raise refusal(
                f"{listener.name}: the security protocol of a listener cannot be changed while the broker runs",
                f"Security protocol cannot be updated for existing listener ListenerName({listener.name})",
            )
        name = "num.network.threads"
        old, new = (
            config.num_network_threads if own is None else own
            for config, own in ((before, current.limit(name)), (after, listener.limit(name)))
        )
        _check_thread_count(prefix_of(listener.name) + name, name, old, new)
