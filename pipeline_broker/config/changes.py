"""Changes to settings: set, delete, append and subtract, with Kafka's checks and error messages."""

import enum
import re
from collections.abc import Callable, Iterable, Mapping, Sequence

from pipeline_broker.config.listeners import PER_LISTENER_LIMITS, PREFIX
from pipeline_broker.config.properties import (
    PREFIXED,
    ConfigError,
    Property,
    Settings,
    broker_properties,
    format_value,
    topic_properties,
    unknown_property,
)

ONLY_WITH_LISTENER_PREFIX = frozenset(
    {
        "ssl.key.password",
        "ssl.keystore.certificate.chain",
        "ssl.keystore.key",
        "ssl.keystore.location",
        "ssl.keystore.password",
        "ssl.keystore.type",
        "ssl.truststore.certificates",
        "ssl.truststore.location",
        "ssl.truststore.password",
        "ssl.truststore.type",
    }
)
"""Security properties that a running broker accepts only with a listener's prefix."""
THROTTLED_REPLICAS = frozenset({"leader.replication.throttled.replicas", "follower.replication.throttled.replicas"})
REPLICA = re.compile(r"[0-9]+:[0-9]+")
# The largest string in the protocol: DescribeConfigs could not return a longer value.
VALUE_BYTES_MAX = 32_767


class Operation(enum.IntEnum):
    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


LIST_OPERATIONS = frozenset({Operation.APPEND, Operation.SUBTRACT})


class NotDynamicError(ConfigError):
    """A change that no running broker can make; an invalid request, in contrast to an invalid value."""


class NotAListError(ConfigError):
    """An append to, or a subtraction from, a property that is not a list."""


def check_topic_settings(pairs: Mapping[str, str]) -> dict[str, str]:
    """Return the settings of a new topic in canonical form.

    Raises:
        ConfigError: a name is unknown, or values are invalid.
    """
    changes = [(name, Operation.SET, text) for name, text in pairs.items()]
    settings = alter_known({}, topic_properties(), changes, _unknown_topic_setting)
    _check_topic_relations(settings)
    return settings


def check_list_operations(changes: Iterable[tuple[str, Operation, str | None]], known: Mapping[str, Property]) -> None:
    """Raise NotAListError if a change appends to, or subtracts from, a property that `known` does not define as a list.

    Kafka makes this check before all others.
    """
    for name, operation, _ in changes:
        definition = known.get(name)
        if operation in LIST_OPERATIONS and (definition is None or definition.type != "list"):
            message = f"Can't {operation.name} to key {name} because its type is not LIST."
            raise _not_a_list(name, operation, message, is_known=definition is not None)


def _not_a_list(name: str, operation: Operation, message: str, *, is_known: bool) -> NotAListError:
    change = f"cannot {operation.name.lower()} {'to' if operation is Operation.APPEND else 'from'} {name}"
    reason = "it is not a list. Set its whole value instead" if is_known else "the property is unknown. Check its name"
    return NotAListError(f"{change}: {reason}", message)


def alter_topic_settings(own: Settings, changes: Sequence[tuple[str, Operation, str | None]]) -> dict[str, str]:
    """Return the settings of a topic after changes.

    Raises:
        NotAListError: an operation requires a list.
        ConfigError: a name is unknown, or values are invalid.
    """
    check_list_operations(changes, topic_properties())
    altered = alter_known(own, topic_properties(), changes, _unknown_topic_setting)
    _check_topic_relations(altered)
    return altered


def alter_broker_settings(
    own: Settings, changes: Sequence[tuple[str, Operation, str | None]], *, for_all: bool = False
) -> dict[str, str]:
    """Return the dynamic settings of a broker after changes.

    Args:
        own: the current dynamic settings.
        changes: names, operations and texts, in order.
        for_all: whether these are the settings of all brokers.

    Raises:
        NotDynamicError: a property cannot be changed on a running broker, or only for one broker or listener.
        NotAListError: an operation requires a list.
        ConfigError: a value is invalid.
    """
    known = broker_properties()
    for name, operation, _ in changes:
        if operation in LIST_OPERATIONS and (name not in known or known[name].type != "list"):
            not_a_list = f"Config value {operation.name.lower()} is not allowed for config key: {name}"
            message = not_a_list if name in known else f"Unknown config name: {name}"
            raise _not_a_list(name, operation, message, is_known=name in known)
    # Every setting can be deleted, as in Kafka: an earlier release may have stored a property that is now read-only.
    _check_dynamic([name for name, operation, _ in changes if operation is not Operation.DELETE], for_all=for_all)
    altered = dict(own)
    for name, operation, text in changes:
        prefixed = PREFIXED.fullmatch(name)
        definition = known.get(prefixed[1] if prefixed else name)
        if definition is None and text is not None and operation is Operation.SET:
            altered[name] = text  # as in Kafka, where a plug-in may read it
        else:
            _alter_one(altered, definition, name, operation, text)
    return altered


def not_dynamic(names: Sequence[str]) -> NotDynamicError:
    """Return the error for properties that a running broker cannot change (Kafka's DynamicBrokerConfig)."""
    listed = ", ".join(names)
    return NotDynamicError(
        f"{listed} cannot be changed while the broker runs. Restart it with the new value",
        f"Cannot update these configs dynamically: [{listed}]",
    )


def _check_dynamic(names: list[str], *, for_all: bool) -> None:
    known = broker_properties()
    modes = {name: known[name].update_mode for name in names if name in known}
    if fixed := [name for name, mode in modes.items() if mode == "read-only"]:
        raise not_dynamic(fixed)
    if bare := [name for name in names if name in ONLY_WITH_LISTENER_PREFIX]:
        raise NotDynamicError(
            f"{', '.join(bare)} can be changed only for each listener. Add the prefix listener.name.NAME.",
            "These security configs can be dynamically updated only per-listener using the listener prefix: "
            f"[{', '.join(bare)}]",
        )
    # Of the properties with a listener's prefix, Kafka accepts only limits and network threads for all brokers.
    of_one = [name for name in names if name.startswith(PREFIX) and name.split(".", 3)[-1] not in PER_LISTENER_LIMITS]
    if for_all and (single := [name for name, mode in modes.items() if mode == "per-broker"] + of_one):
        raise NotDynamicError(
            f"{', '.join(single)} can be changed for one broker only. Name the broker",
            f"Cannot update these configs at default cluster level, broker id must be specified: [{', '.join(single)}]",
        )


def _unknown_topic_setting(name: str) -> ConfigError:
    return unknown_property(name, topic_properties(), f"Unknown topic config name: {name}")


def alter_known(
    own: Settings,
    known: Mapping[str, Property],
    changes: Sequence[tuple[str, Operation, str | None]],
    unknown: Callable[[str], ConfigError],
) -> dict[str, str]:
    """Return the settings after changes. The deletion of an unknown name has no effect.

    Args:
        own: the current settings.
        known: definitions by name.
        changes: names, operations and texts, in order.
        unknown: makes the error for an unknown name.

    Raises:
        ConfigError: a change other than a deletion names an unknown property, or a value is invalid.
    """
    # Like Kafka, report an unknown name before any invalid value. Deleting an unknown name has no effect.
    for name, operation, _ in changes:
        if name not in known and operation is not Operation.DELETE:
            raise unknown(name)
    altered = dict(own)
    for name, operation, text in changes:
        _alter_one(altered, known.get(name), name, operation, text)
    return altered


def _alter_one(
    altered: dict[str, str], definition: Property | None, name: str, operation: Operation, text: str | None
) -> None:
    if operation is Operation.DELETE:
        altered.pop(name, None)
        return
    assert definition is not None
    if text is None:
        raise ConfigError(f"{name}: the value is missing. Set one, or delete the setting")
    if operation is Operation.SET:
        altered[name] = definition.canonical(text)
        return
    value = format_value(_changed_list(definition, altered.get(name), operation, text))
    if len(value.encode()) > VALUE_BYTES_MAX:
        raise ConfigError(
            f"{name}: the list would have more than {VALUE_BYTES_MAX} bytes. Remove items first",
            "The configuration value cannot be added because it exceeds the maximum value size of"
            f" {VALUE_BYTES_MAX} bytes.",
        )
    altered[name] = value


def _changed_list(definition: Property, own: str | None, operation: Operation, text: str) -> tuple[str, ...]:
    current = definition.parse(definition.default or "" if own is None else own)
    assert isinstance(current, tuple)
    if operation is Operation.SUBTRACT:
        # Items to subtract are not validated, as in Kafka. Those that are not in the list have no effect.
        items = [item.strip() for item in text.split(",")]
        return tuple(item for item in current if item not in items)
    items = [item.strip() for item in text.rstrip(",").split(",")]
    if "" in items:
        raise definition.empty_item(text)
    appended = definition.parse(",".join((*current, *items)))
    assert isinstance(appended, tuple)
    # As in Kafka, an item that is already in the list is not appended again.
    return tuple(dict.fromkeys(appended))


def _check_topic_relations(settings: Settings) -> None:
    low, high = (
        int(settings.get(name, topic_properties()[name].default or "0"))
        for name in ("min.compaction.lag.ms", "max.compaction.lag.ms")
    )
    if low > high:
        raise ConfigError(
            f"min.compaction.lag.ms is {low}: it must not be above max.compaction.lag.ms ({high})",
            f"conflict topic config setting min.compaction.lag.ms ({low}) > max.compaction.lag.ms ({high})",
        )
    if settings.get("remote.storage.enable") == "true":
        raise ConfigError(
            "remote.storage.enable: true is not allowed: this broker has no tiered storage. Set it to false",
            "Tiered Storage functionality is disabled in the broker. Topic cannot be configured with remote log"
            " storage.",
        )
    for name in THROTTLED_REPLICAS & settings.keys():
        items = settings[name].split(",")
        if items not in ([""], ["*"]) and not all(map(REPLICA.fullmatch, items)):
            raise ConfigError(
                f"{name}: {settings[name]!r} is neither * nor of the form partition:broker,partition:broker",
                f"Invalid value [{', '.join(items)}] for configuration {name}: {name} must be the literal '*' or a"
                " list of replicas in the following format: [partitionId]:[brokerId],[partitionId]:[brokerId],...",
            )
