"""Which of several settings counts: a topic's own, a running broker's, the started broker's, or the default.

Rules: settings come as plain mappings of name to Kafka's text and are never changed here; an entry lists every setting
that had a say, the one that counts first, as DescribeConfigs shows them.

Longer than most files: what settings may become is decided by the same tables as what they are.
"""

import enum
import re
from collections.abc import Callable, Iterable, Mapping, Sequence

import attrs

from pipeline_broker.config.listeners import OF_ONE_LISTENER, PREFIX
from pipeline_broker.config.properties import (
    PREFIXED,
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


ONLY_OF_A_LISTENER = frozenset(
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
"""Security properties that change while the broker runs only with the prefix of a listener."""
THROTTLED_REPLICAS = frozenset({"leader.replication.throttled.replicas", "follower.replication.throttled.replicas"})
REPLICA = re.compile(r"[0-9]+:[0-9]+")


class NotDynamicError(ConfigError):
    """The properties cannot be changed in this way while the broker runs; a fault of the request, not of a value."""


class NotAListError(ConfigError):
    """Only a list can be appended to or subtracted from."""


class Source(enum.IntEnum):
    """Where a value comes from, numbered as in DescribeConfigs."""

    DYNAMIC_TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5
    DYNAMIC_CLIENT_METRICS = 7
    DYNAMIC_GROUP = 8


class Operation(enum.IntEnum):
    """What IncrementalAlterConfigs asks for, numbered as on the wire."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


VALUE_BYTES_MAX = 32_767
"""A longer value could be told to nobody: no string of the protocol has more bytes."""

LIST_OPERATIONS = frozenset({Operation.APPEND, Operation.SUBTRACT})


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
    _inherited: dict[str, Entry] = attrs.field(init=False, factory=dict, eq=False, repr=False)
    _inherited_values: dict[str, Value] = attrs.field(init=False, factory=dict, eq=False, repr=False)

    def synonyms(self, name: str, *others: str) -> list[Synonym]:
        """The settings of one property, the strongest first, its default last; then its `others` within each layer.

        As in Kafka, all that stands before the first one of the name itself is left out.
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
        """What topics without a setting of their own get, worked out once for all of them."""
        known = self._inherited.get(name)
        if known is None:
            known = self._inherited[name] = _inherited(topic_properties()[name], self)
        return known

    def inherited_value(self, name: str) -> Value:
        """The value of that, as Python's type."""
        known = self._inherited_values.get(name)
        if known is None:
            entry = self.inherited(name)
            assert entry.value is not None
            known = self._inherited_values[name] = entry.definition.parse(entry.value)
        return known


def _coarser(name: str) -> list[str]:
    return [coarser for coarser, _ in COARSER.get(name, ())]


def broker_entry(name: str, settings: BrokerSettings) -> Entry:
    """The entry of one broker property, also of one that only a plug-in could know."""
    definition = broker_properties().get(name)
    others: Sequence[str] = _coarser(name)
    if definition is None:
        prefixed = PREFIXED.fullmatch(name)
        base = broker_properties().get(prefixed[1]) if prefixed else None
        if base is None:
            definition = Property(name=name, type="unknown", default=None, values="-", update_mode="read-only")
        else:
            definition, others = attrs.evolve(base, name=name, update_mode="read-only"), [base.name]
    return _entry(definition, settings.synonyms(name, *others))


def _entry(definition: Property, synonyms: list[Synonym]) -> Entry:
    if not synonyms:
        return Entry(definition, None, Source.DEFAULT, ())
    if definition.sensitive:
        synonyms = [attrs.evolve(synonym, value=None) for synonym in synonyms]
    return Entry(definition, synonyms[0].value, synonyms[0].source, tuple(synonyms))


def topic_entry(name: str, own: Settings, settings: BrokerSettings) -> Entry:
    """The entry of one topic setting, given the topic's own settings."""
    inherited = settings.inherited(name)
    if name not in own:
        return inherited
    synonym = Synonym(name, own[name], Source.DYNAMIC_TOPIC)
    return Entry(inherited.definition, synonym.value, synonym.source, (synonym, *inherited.synonyms))


def broker_entries(settings: BrokerSettings) -> list[Entry]:
    """Every property of the broker, then what was set under names that it does not know."""
    known = broker_properties()
    layers = (settings.dynamic, settings.dynamic_default, settings.static)
    foreign = {name for layer in layers for name in layer if name not in known}
    return [broker_entry(name, settings) for name in (*known, *sorted(foreign))]


def default_broker_entries(settings: BrokerSettings) -> list[Entry]:
    """What was set for all brokers while they run."""
    only = BrokerSettings(dynamic_default=settings.dynamic_default)
    entries = [broker_entry(name, only) for name in sorted(settings.dynamic_default)]
    return [attrs.evolve(entry, synonyms=entry.synonyms[:1]) for entry in entries]


def topic_entries(own: Settings, settings: BrokerSettings) -> list[Entry]:
    """Every setting of a topic."""
    return [topic_entry(name, own, settings) for name in topic_properties()]


def topic_value(name: str, own: Settings, settings: BrokerSettings) -> Value:
    """The value of a topic setting that counts, as Python's type."""
    return topic_properties()[name].parse(own[name]) if name in own else settings.inherited_value(name)


def _inherited(definition: Property, settings: BrokerSettings) -> Entry:
    value, source = _inherited_text(definition, settings)
    name = definition.broker_property
    synonyms = () if name is None else settings.synonyms(name, *_coarser(name))
    return Entry(definition, value, source, tuple(synonyms))


def _inherited_text(definition: Property, settings: BrokerSettings) -> tuple[str, Source]:
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
    # less than nothing of a coarser unit means "never", which is -1 (KafkaConfig.getLogRetentionTimeMillis)
    return value if unit == 1 else str(max(-1, int(value) * unit))


def check_topic_settings(pairs: Mapping[str, str]) -> dict[str, str]:
    """The settings of a topic to be created, in Kafka's form."""
    changes = [(name, Operation.SET, text) for name, text in pairs.items()]
    settings = alter_known({}, topic_properties(), changes, _unknown_topic_setting)
    _check_topic_relations(settings)
    return settings


def check_list_operations(changes: Iterable[tuple[str, Operation, str | None]]) -> None:
    """Raise NotAListError where a topic's setting is no list but treated so; the first thing that Kafka looks at."""
    for name, operation, _ in changes:
        definition = topic_properties().get(name)
        if operation in LIST_OPERATIONS and (definition is None or definition.type != "list"):
            raise NotAListError(
                f"{name}: only a list can be appended to or subtracted from",
                f"Can't {operation.name} to key {name} because its type is not LIST.",
            )


def alter_topic_settings(own: Settings, changes: Sequence[tuple[str, Operation, str | None]]) -> dict[str, str]:
    """A topic's settings after the changes; raises ConfigError and changes nothing where one is not allowed."""
    check_list_operations(changes)
    altered = alter_known(own, topic_properties(), changes, _unknown_topic_setting)
    _check_topic_relations(altered)
    return altered


def alter_broker_settings(
    own: Settings, changes: Sequence[tuple[str, Operation, str | None]], *, for_all: bool = False
) -> dict[str, str]:
    """The dynamic settings of a broker, or those `for_all`, after the changes.

    Raises:
        NotDynamicError: they cannot be changed while the broker runs, or not so.
        NotAListError: see the name.
        ConfigError: a value is not allowed.
    """
    known = broker_properties()
    for name, operation, _ in changes:
        if operation in LIST_OPERATIONS and (name not in known or known[name].type != "list"):
            what = f"Config value {operation.name.lower()} is not allowed for config key: {name}"
            raise NotAListError(
                f"{name}: only a list can be appended to or subtracted from",
                what if name in known else f"Unknown config name: {name}",
            )
    _check_dynamic([name for name, operation, _ in changes if operation is not Operation.DELETE], for_all=for_all)
    altered = dict(own)
    for name, operation, text in changes:
        prefixed = PREFIXED.fullmatch(name)
        definition = known.get(prefixed[1] if prefixed else name)
        if definition is None and text is not None and operation is Operation.SET:
            altered[name] = text  # as Kafka, which keeps them for plug-ins
        else:
            _alter_one(altered, definition, name, operation, text)
    return altered


def not_dynamic(names: Sequence[str]) -> NotDynamicError:
    """Refuse properties that cannot be changed while the broker runs, in the words of Kafka's DynamicBrokerConfig."""
    listed = ", ".join(names)
    return NotDynamicError(
        f"{listed} cannot be changed while the broker runs", f"Cannot update these configs dynamically: [{listed}]"
    )


def _check_dynamic(names: list[str], *, for_all: bool) -> None:
    known = broker_properties()
    modes = {name: known[name].update_mode for name in names if name in known}
    if fixed := [name for name, mode in modes.items() if mode == "read-only"]:
        raise not_dynamic(fixed)
    if bare := [name for name in names if name in ONLY_OF_A_LISTENER]:
        raise NotDynamicError(
            f"{', '.join(bare)} can be changed for one listener only, with its prefix",
            "These security configs can be dynamically updated only per-listener using the listener prefix: "
            f"[{', '.join(bare)}]",
        )
    of_one = [name for name in names if name.startswith(PREFIX) and name.split(".", 3)[-1] not in OF_ONE_LISTENER]
    if for_all and (single := [name for name, mode in modes.items() if mode == "per-broker"] + of_one):
        raise NotDynamicError(
            f"{', '.join(single)} can be changed for one broker only",
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
    """The settings after the changes of those that are known; as Kafka, it looks at all names before any value.

    Args:
        unknown: the refusal of a name that is none of a setting; to delete one changes nothing.

    Raises:
        ConfigError: it is that refusal, or a value is not allowed.
    """
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
    """Change one setting among those that are `altered`; raises ConfigError where its value is not allowed."""
    if operation is Operation.DELETE:
        altered.pop(name, None)
        return
    assert definition is not None
    if text is None:
        raise ConfigError(f"{name}: a value is expected")
    if operation is Operation.SET:
        altered[name] = definition.canonical(text)
        return
    value = format_value(_changed_list(definition, altered.get(name), operation, text))
    if len(value.encode()) > VALUE_BYTES_MAX:
        raise ConfigError(
            f"{name}: the list would have more than {VALUE_BYTES_MAX} bytes",
            "The configuration value cannot be added because it exceeds the maximum value size of"
            f" {VALUE_BYTES_MAX} bytes.",
        )
    altered[name] = value


def _changed_list(definition: Property, own: str | None, operation: Operation, text: str) -> tuple[str, ...]:
    current = definition.parse(definition.default or "" if own is None else own)
    assert isinstance(current, tuple)
    if operation is Operation.SUBTRACT:
        items = [item.strip() for item in text.split(",")]
        return tuple(item for item in current if item not in items)
    items = [item.strip() for item in text.rstrip(",").split(",")]
    if "" in items:
        raise definition.empty_item(text)
    appended = definition.parse(",".join((*current, *items)))
    assert isinstance(appended, tuple)
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
            "remote.storage.enable: there is no tiered storage",
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
