"""Precedence of settings: of the topic, of this broker, of all brokers, from startup, and defaults."""

import enum
from collections.abc import Sequence

import attrs

from pipeline_broker.config.properties import (
    COARSER,
    PREFIXED,
    Property,
    Settings,
    Value,
    broker_properties,
    scaled,
    topic_properties,
)


class Source(enum.IntEnum):
    DYNAMIC_TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5
    DYNAMIC_CLIENT_METRICS = 7
    DYNAMIC_GROUP = 8


@attrs.frozen
class Synonym:
    """A setting that contributes to the value of a property, as DescribeConfigs lists it."""

    name: str
    value: str | None
    source: Source


@attrs.frozen
class Entry:
    """A property with its effective setting.

    Attributes:
        value: None if the property is unset. It must not be shown if the definition is sensitive.
        synonyms: all settings of the property; the first one is effective.
    """

    definition: Property
    value: str | None
    source: Source
    synonyms: tuple[Synonym, ...]


@attrs.frozen(kw_only=True)
class BrokerSettings:
    """All settings of the broker, by layer.

    Attributes:
        static: settings from the start of the broker.
        secrets: names of static settings that are never shown.
        dynamic_default: settings that IncrementalAlterConfigs made for all brokers.
        dynamic: settings that IncrementalAlterConfigs made for this broker.
    """

    static: Settings = attrs.field(factory=dict)
    secrets: frozenset[str] = frozenset()
    dynamic_default: Settings = attrs.field(factory=dict)
    dynamic: Settings = attrs.field(factory=dict)
    _inherited: dict[str, Entry] = attrs.field(init=False, factory=dict, eq=False, repr=False)
    _inherited_values: dict[str, Value] = attrs.field(init=False, factory=dict, eq=False, repr=False)

    def synonyms(self, name: str, *others: str) -> list[Synonym]:
        """Return the settings of a property and of `others`, strongest layer first, then their defaults.

        Within a layer, `name` precedes `others`. As in Kafka, settings before the first one of `name` itself are
        omitted.
        """
        layers = (
            (self.dynamic, Source.DYNAMIC_BROKER),
            (self.dynamic_default, Source.DYNAMIC_DEFAULT_BROKER),
            (self.static, Source.STATIC_BROKER),
        )
        names = (name, *others)
        found = [Synonym(each, layer[each], source) for layer, source in layers for each in names if each in layer]
        for each in names:
            definition = broker_properties().get(each)
            if definition is not None and definition.default is not None:
                found.append(Synonym(each, definition.default, Source.DEFAULT))
        while found and found[0].name != name:
            del found[0]
        return found

    def inherited(self, name: str) -> Entry:
        """Return the entry of a topic setting for topics that do not set it themselves; cached."""
        # Every topic without a setting of its own needs this, and a broker may have many topics.
        known = self._inherited.get(name)
        if known is None:
            known = self._inherited[name] = _inherited(topic_properties()[name], self)
        return known

    def inherited_value(self, name: str) -> Value:
        known = self._inherited_values.get(name)
        if known is None:
            text, _ = _inherited_text(topic_properties()[name], self)
            known = self._inherited_values[name] = topic_properties()[name].parse(text)
        return known


def _coarser(name: str) -> list[str]:
    return [coarser for coarser, _ in COARSER.get(name, ())]


def broker_entry(name: str, settings: BrokerSettings) -> Entry:
    """Return the entry of a broker property, which may be prefixed with a listener or unknown to Kafka."""
    definition = broker_properties().get(name)
    others: Sequence[str] = _coarser(name)
    if definition is None:
        prefixed = PREFIXED.fullmatch(name)
        base = broker_properties().get(prefixed[1]) if prefixed else None
        if base is None:
            # An unknown property may be the secret of a plug-in, so its value is never shown.
            definition = Property(name=name, type="unknown", default=None, values="-", update_mode="read-only")
        else:
            definition, others = attrs.evolve(base, name=name, update_mode="read-only"), [base.name]
    if name in settings.secrets:
        definition = attrs.evolve(definition, type="password")
    return _entry(definition, settings.synonyms(name, *others))


def _entry(definition: Property, synonyms: list[Synonym]) -> Entry:
    if not synonyms:
        return Entry(definition, None, Source.DEFAULT, ())
    if definition.sensitive:
        synonyms = [attrs.evolve(synonym, value=None) for synonym in synonyms]
    return Entry(definition, synonyms[0].value, synonyms[0].source, tuple(synonyms))


def topic_entry(name: str, own: Settings, settings: BrokerSettings) -> Entry:
    """Return the entry of a topic setting.

    Args:
        name: a setting in the table of topics.
        own: the settings of the topic itself.
        settings: the broker's settings, from which the topic inherits.
    """
    inherited = settings.inherited(name)
    if name not in own:
        return inherited
    synonym = Synonym(name, own[name], Source.DYNAMIC_TOPIC)
    return Entry(inherited.definition, synonym.value, synonym.source, (synonym, *inherited.synonyms))


def broker_entries(settings: BrokerSettings) -> list[Entry]:
    """Return the entries of all broker properties, followed by those of unknown names that are set."""
    known = broker_properties()
    layers = (settings.dynamic, settings.dynamic_default, settings.static)
    foreign = {name for layer in layers for name in layer if name not in known}
    return [broker_entry(name, settings) for name in (*known, *sorted(foreign))]


def default_broker_entries(settings: BrokerSettings) -> list[Entry]:
    only = BrokerSettings(dynamic_default=settings.dynamic_default)
    entries = [broker_entry(name, only) for name in sorted(settings.dynamic_default)]
    return [attrs.evolve(entry, synonyms=entry.synonyms[:1]) for entry in entries]


def topic_entries(own: Settings, settings: BrokerSettings) -> list[Entry]:
    return [topic_entry(name, own, settings) for name in topic_properties()]


def topic_value(name: str, own: Settings, settings: BrokerSettings) -> Value:
    return topic_properties()[name].parse(own[name]) if name in own else settings.inherited_value(name)


def _inherited(definition: Property, settings: BrokerSettings) -> Entry:
    value, source = _inherited_text(definition, settings)
    name = definition.broker_property
    names = [] if name is None else [name, *_coarser(name)]
    synonyms = settings.synonyms(*names) if names else []
    # A topic must not reveal a value that came from a config provider.
    if settings.secrets.intersection(names):
        hidden = tuple(attrs.evolve(synonym, value=None) for synonym in synonyms)
        return Entry(attrs.evolve(definition, type="password"), value, source, hidden)
    return Entry(definition, value, source, tuple(synonyms))


def _inherited_text(definition: Property, settings: BrokerSettings) -> tuple[str, Source]:
    name = definition.broker_property
    if name is not None:
        for candidate, unit in ((name, 1), *COARSER.get(name, ())):
            synonym = next(iter(settings.synonyms(candidate)), None)
            if synonym is not None and synonym.value is not None and synonym.source is not Source.DEFAULT:
                # Kafka reports a value derived from a coarser unit as a default.
                return scaled(synonym.value, unit), synonym.source if candidate == name else Source.DEFAULT
    assert definition.default is not None
    return definition.default, Source.DEFAULT
