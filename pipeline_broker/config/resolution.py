"""Which of several settings counts: a topic's own, a running broker's, the started broker's, or the default.

Rules: settings come as plain mappings of name to Kafka's text and are never changed here; an entry lists every setting
that had a say, the one that counts first, as DescribeConfigs shows them.
"""

import enum
from collections.abc import Iterable, Mapping, Sequence

import attrs

from pipeline_broker.config.properties import (
    ConfigError,
    Property,
    Value,
    broker_properties,
    format_value,
    topic_properties,
    unknown_property,
)

Settings = Mapping[str, str]

HOUR_MS = 3_600_000
MINUTE_MS = 60_000
COARSER: Mapping[str, Sequence[tuple[str, int]]] = {
    "log.retention.ms": (("log.retention.minutes", MINUTE_MS), ("log.retention.hours", HOUR_MS)),
    "log.roll.ms": (("log.roll.hours", HOUR_MS),),
    "log.roll.jitter.ms": (("log.roll.jitter.hours", HOUR_MS),),
    "log.flush.interval.ms": (("log.flush.scheduler.interval.ms", 1),),
}
"""Broker properties in milliseconds that give way to the same in a coarser unit, with what one of it is worth."""


class ReadOnlyPropertyError(ConfigError):
    """The property can be set at the start only."""


class Source(enum.IntEnum):
    """Where a value comes from, numbered as in DescribeConfigs."""

    DYNAMIC_TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5


class Operation(enum.IntEnum):
    """What IncrementalAlterConfigs asks for, numbered as on the wire."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


@attrs.frozen
class Synonym:
    """One setting that had a say."""

    name: str
    value: str | None
    source: Source


@attrs.frozen
class Entry:
    """One property with the value that counts; secrets have none."""

    definition: Property
    value: str | None
    source: Source
    synonyms: tuple[Synonym, ...]


@attrs.frozen(kw_only=True)
class BrokerSettings:
    """All that was set for the broker: at its start, by IncrementalAlterConfigs for all brokers, and for this one."""

    static: Settings = attrs.field(factory=dict)
    dynamic_default: Settings = attrs.field(factory=dict)
    dynamic: Settings = attrs.field(factory=dict)

    def synonyms(self, name: str) -> list[Synonym]:
        """The settings of one broker property, the strongest first, its default last."""
        layers = (
            (self.dynamic, Source.DYNAMIC_BROKER),
            (self.dynamic_default, Source.DYNAMIC_DEFAULT_BROKER),
            (self.static, Source.STATIC_BROKER),
        )
        found = [Synonym(name, layer[name], source) for layer, source in layers if name in layer]
        default = broker_properties()[name].default
        return found if default is None else [*found, Synonym(name, default, Source.DEFAULT)]


def broker_entry(name: str, settings: BrokerSettings) -> Entry:
    """The entry of one broker property."""
    definition = broker_properties()[name]
    synonyms = settings.synonyms(name)
    for coarser, _ in COARSER.get(name, ()) if synonyms else ():
        synonyms += settings.synonyms(coarser)
    if not synonyms:
        return Entry(definition, None, Source.DEFAULT, ())
    if definition.sensitive:
        synonyms = [attrs.evolve(synonym, value=None) for synonym in synonyms]
    return Entry(definition, synonyms[0].value, synonyms[0].source, tuple(synonyms))


def topic_entry(name: str, own: Settings, settings: BrokerSettings) -> Entry:
    """The entry of one topic setting, given the topic's own settings."""
    definition = topic_properties()[name]
    synonyms = [Synonym(name, own[name], Source.DYNAMIC_TOPIC)] if name in own else []
    value, source = (own[name], Source.DYNAMIC_TOPIC) if name in own else _inherited(definition, settings)
    if definition.broker_property is not None:
        synonyms += settings.synonyms(definition.broker_property)
    return Entry(definition, value, source, tuple(synonyms))


def broker_entries(settings: BrokerSettings) -> list[Entry]:
    """Every property of the broker."""
    return [broker_entry(name, settings) for name in broker_properties()]


def topic_entries(own: Settings, settings: BrokerSettings) -> list[Entry]:
    """Every setting of a topic."""
    return [topic_entry(name, own, settings) for name in topic_properties()]


def topic_value(name: str, own: Settings, settings: BrokerSettings) -> Value:
    """The value of a topic setting that counts, as Python's type."""
    definition = topic_properties()[name]
    text = own[name] if name in own else _inherited(definition, settings)[0]
    return definition.parse(text)


def _inherited(definition: Property, settings: BrokerSettings) -> tuple[str, Source]:
    """What a topic without a setting of its own gets."""
    name = definition.broker_property
    if name is not None:
        for candidate, unit in ((name, 1), *COARSER.get(name, ())):
            synonym = next(iter(settings.synonyms(candidate)), None)
            if synonym is not None and synonym.value is not None and synonym.source is not Source.DEFAULT:
                # Kafka calls a value derived from a coarser unit a default
                return _scaled(synonym.value, unit), synonym.source if candidate == name else Source.DEFAULT
    assert definition.default is not None
    return definition.default, Source.DEFAULT


def _scaled(value: str, unit: int) -> str:
    # -1 means "never" in every unit
    return value if unit == 1 or value == "-1" else str(int(value) * unit)


def check_topic_settings(pairs: Mapping[str, str | None]) -> dict[str, str]:
    """The settings of a topic to be created, in Kafka's form; None asks for the default."""
    settings: dict[str, str] = {}
    for name, text in pairs.items():
        if name not in topic_properties():
            raise unknown_property(name, topic_properties())
        if text is not None:
            settings[name] = topic_properties()[name].canonical(text)
    _check_topic_relations(settings)
    return settings


def alter_topic_settings(own: Settings, changes: Iterable[tuple[str, Operation, str | None]]) -> dict[str, str]:
    """A topic's settings after the changes; raises ConfigError and changes nothing where one is not allowed."""
    altered = dict(own)
    for name, operation, text in changes:
        _alter(altered, topic_properties(), name, operation, text)
    _check_topic_relations(altered)
    return altered


def alter_broker_settings(own: Settings, changes: Iterable[tuple[str, Operation, str | None]]) -> dict[str, str]:
    """A broker's dynamic settings after the changes; raises ConfigError where one is not allowed."""
    altered = dict(own)
    for name, operation, text in changes:
        definition = broker_properties().get(name)
        if definition is not None and definition.read_only:
            raise ReadOnlyPropertyError(f"{name} cannot be changed while the broker runs")
        if definition is None and operation is Operation.SET and text is not None:
            altered[name] = text  # as Kafka, which keeps them for plug-ins
            continue
        _alter(altered, broker_properties(), name, operation, text)
    return altered


def _alter(
    altered: dict[str, str], known: Mapping[str, Property], name: str, operation: Operation, text: str | None
) -> None:
    if operation is Operation.DELETE:
        altered.pop(name, None)
        return
    definition = known.get(name)
    if definition is None:
        raise unknown_property(name, known)
    if text is None:
        raise ConfigError(f"{name}: a value is expected")
    if operation is Operation.SET:
        altered[name] = definition.canonical(text)
        return
    if definition.type != "list":
        raise ConfigError(f"{name}: only a list can be appended to or subtracted from, not a {definition.type}")
    if operation is Operation.APPEND:
        definition.parse(text)
    altered[name] = format_value(_changed_list(definition, altered.get(name), operation, text))


def _changed_list(definition: Property, own: str | None, operation: Operation, text: str) -> tuple[str, ...]:
    current = definition.parse(definition.default or "" if own is None else own)
    assert isinstance(current, tuple)
    items = [item.strip() for item in text.split(",") if item.strip()]
    if operation is Operation.APPEND:
        return tuple(dict.fromkeys((*current, *items)))
    return tuple(item for item in current if item not in items)


def _check_topic_relations(settings: Settings) -> None:
    low, high = (
        int(settings.get(name, topic_properties()[name].default or "0"))
        for name in ("min.compaction.lag.ms", "max.compaction.lag.ms")
    )
    if low > high:
        raise ConfigError(f"min.compaction.lag.ms is {low}: it must not be above max.compaction.lag.ms ({high})")
