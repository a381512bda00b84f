"""Settings of resources that are neither topics nor brokers: client metrics subscriptions and groups."""

from collections.abc import Callable, Mapping, Sequence

import attrs

from pipeline_broker.base.patterns import InvalidPatternError, Pattern, compiled_java
from pipeline_broker.config.changes import Operation, alter_known, check_list_operations
from pipeline_broker.config.group_relations import check_group_settings
from pipeline_broker.config.properties import ConfigError, Property, Settings, Value, properties_of
from pipeline_broker.config.resolution import BrokerSettings, Entry, Source, Synonym

# Numbers of the resource types in the protocol.
CLIENT_METRICS = 16
GROUP = 32
MATCHED_BY = (
    "client_id",
    "client_instance_id",
    "client_software_name",
    "client_software_version",
    "client_source_address",
    "client_source_port",
)
"""Keys of the patterns by which a client metrics subscription selects clients (KIP-714)."""


class ResourceError(ConfigError):
    pass


INTERVAL_MS_MIN, INTERVAL_MS_MAX = 100, 3_600_000
"""Limits of the interval in which the clients of a subscription push."""


@attrs.frozen
class ResourceKind:
    """One type of resource that has settings.

    Attributes:
        number: the resource type in the protocol.
        key: the scope in the table of properties, and the key under which the cluster stores the settings.
        source: the source that DescribeConfigs reports for a value that is set.
        unknown: makes the error for an unknown setting.
        nameless: the error messages for an empty resource name, in a change and in a description.
        check: raises ConfigError if the settings of a resource are invalid together.
        shows_defaults: whether DescribeConfigs lists inherited values as synonyms.
    """

    number: int
    key: str
    source: Source
    unknown: Callable[[str], ConfigError]
    nameless: tuple[str, str]
    check: Callable[["ResourceKind", Settings, BrokerSettings], None]
    shows_defaults: bool = False

    @property
    def properties(self) -> Mapping[str, Property]:
        return properties_of(self.key)

    def alter(
        self, name: str, own: Settings, changes: Sequence[tuple[str, Operation, str | None]], settings: BrokerSettings
    ) -> dict[str, str]:
        """Return the settings of a resource after changes.

        Args:
            own: the current settings of the resource.
            changes: names, operations and texts, in order.
            settings: the broker's settings, which limit those of groups.

        Raises:
            NotAListError: an operation requires a list.
            ResourceError: the name is empty, or a client metrics setting is invalid.
            ConfigError: a value is invalid.
        """
        check_list_operations(changes, {})  # Kafka treats none of these settings as a list, whatever their types
        if not name:
            raise ResourceError(self.nameless[0])
        altered = alter_known(own, self.properties, changes, self.unknown)
        self.check(self, altered, settings)
        return altered

    def entries(self, own: Settings, settings: BrokerSettings) -> list[Entry]:
        return [self._entry(definition, own, settings) for definition in self.properties.values()]

    def _entry(self, definition: Property, own: Settings, settings: BrokerSettings) -> Entry:
        name = definition.name
        inherited = self._inherited(definition, settings)
        found = [Synonym(name, own[name], self.source)] if name in own else []
        first, *_ = [*found, *inherited]
        return Entry(definition, first.value, first.source, tuple(found + inherited if self.shows_defaults else found))

    @staticmethod
    def _inherited(definition: Property, settings: BrokerSettings) -> list[Synonym]:
        if definition.broker_property is None:
            return [Synonym(definition.name, definition.default, Source.DEFAULT)]
        return settings.synonyms(definition.broker_property)

    def value_of(self, name: str, own: Settings, settings: BrokerSettings) -> Value:
        definition = self.properties[name]
        text = own[name] if name in own else self._inherited(definition, settings)[0].value
        assert text is not None, name
        return definition.parse(text)


def parse_client_patterns(text: str) -> dict[str, Pattern]:
    """Parse the `match` setting of a subscription: patterns by the client attribute that they are matched with.

    Raises:
        ConfigError: the text is not a list of `attribute=pattern`.
    """
    found = {}
    for item in filter(None, map(str.strip, text.split(","))):
        name, equals, pattern = (part.strip() for part in item.partition("="))
        if not equals or name not in MATCHED_BY or not pattern:
            raise ConfigError(f"Illegal client matching pattern: {item}")
        try:
            found[name] = compiled_java(pattern)
        except InvalidPatternError:
            raise ConfigError(f"Illegal client matching pattern: {item}") from None
    return found


def _check_client_metrics(_kind: ResourceKind, settings: Settings, _of_broker: BrokerSettings) -> None:
    interval_ms = _kind.value_of("interval.ms", settings, BrokerSettings())
    assert isinstance(interval_ms, int)
    if not INTERVAL_MS_MIN <= interval_ms <= INTERVAL_MS_MAX:
        limits = f"interval must be between {INTERVAL_MS_MIN} and {INTERVAL_MS_MAX} (1 hour)"
        raise ResourceError(f"Invalid value {interval_ms} for interval.ms, {limits}")
    parse_client_patterns(settings.get("match", ""))


def _check_group(kind: ResourceKind, settings: Settings, of_broker: BrokerSettings) -> None:
    def value_of(name: str) -> int:
        value = kind.value_of(name, settings, of_broker)
        assert isinstance(value, int), name
        return value

    def of_property(name: str) -> int:
        return int(of_broker.synonyms(name)[0].value or 0)

    check_group_settings(settings, value_of, of_property)


RESOURCE_KINDS: Mapping[int, ResourceKind] = {
    kind.number: kind
    for kind in (
        ResourceKind(
            CLIENT_METRICS,
            "client-metrics",
            Source.DYNAMIC_CLIENT_METRICS,
            lambda name: ResourceError(f"Unknown client metrics configuration: {name}"),
            ("Subscription name can't be empty", "Client metrics subscription name must not be empty"),
            _check_client_metrics,
        ),
        ResourceKind(
            GROUP,
            "group",
            Source.DYNAMIC_GROUP,
            lambda name: ConfigError(f"Unknown group config name: {name}"),
            ("Default group resources are not allowed.", "Group name must not be empty"),
            _check_group,
            shows_defaults=True,
        ),
    )
}
