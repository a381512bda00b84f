"""The settings of what is neither a topic nor a broker: subscriptions of client metrics, and groups.

Rules: a kind of resource is one row; its settings are a table as those of topics are, kept under the key of the kind
as those of brokers are. Whoever acts on them asks the cluster for what is set and `value_of` for what counts.
"""

import functools
from collections.abc import Callable, Mapping, Sequence

import attrs

from pipeline_broker.base.patterns import InvalidPatternError, Pattern, compiled_java
from pipeline_broker.config.changes import Operation, alter_known, check_list_operations
from pipeline_broker.config.group_relations import check_group_settings
from pipeline_broker.config.properties import FOLDER, ConfigError, Property, Settings, Value, of_broker, read_table
from pipeline_broker.config.resolution import BrokerSettings, Entry, Source, Synonym

CLIENT_METRICS = 16
GROUP = 32
"""Numbers of the kinds on the wire."""
MATCHED_BY = (
    "client_id",
    "client_instance_id",
    "client_software_name",
    "client_software_version",
    "client_source_address",
    "client_source_port",
)
"""What a subscription may look at of a client."""


class ResourceError(ConfigError):
    """A fault of the request rather than of a value."""


INTERVAL_MS_MIN, INTERVAL_MS_MAX = 100, 3_600_000
"""How often a subscription may have its clients push."""


@attrs.frozen
class ResourceKind:
    """One kind of resource.

    Attributes:
        number: on the wire.
        key: under which the cluster keeps what is set.
        table: file of its settings.
        source: what DescribeConfigs calls a value that was set.
        unknown: the refusal of a name that is none of a setting.
        nameless: what is said to who names no resource: in a change, and in a description.
        check: refuses settings that cannot be, all those of a resource.
        shows_defaults: whether DescribeConfigs lists what a value would be otherwise.
    """

    number: int
    key: str
    table: str
    source: Source
    unknown: Callable[[str], ConfigError]
    nameless: tuple[str, str]
    check: Callable[["ResourceKind", Settings, BrokerSettings], None]
    shows_defaults: bool = False

    @functools.cached_property
    def properties(self) -> Mapping[str, Property]:
        """Its settings by their names."""
        return read_table(FOLDER / self.table, of_broker)

    def alter(
        self, name: str, own: Settings, changes: Sequence[tuple[str, Operation, str | None]], settings: BrokerSettings
    ) -> dict[str, str]:
        """What is set after the changes.

        Args:
            name: of the resource.
            own: what is set now.
            changes: what shall become of it.
            settings: the broker's, which limit some.

        Raises:
            NotAListError, ResourceError: the request is at fault.
            ConfigError: a value is.
        """
        check_list_operations(changes, {})  # Kafka takes none of these settings for a list, whatever it calls them
        if not name:
            raise ResourceError(self.nameless[0])
        altered = alter_known(own, self.properties, changes, self.unknown)
        self.check(self, altered, settings)
        return altered

    def entries(self, own: Settings, settings: BrokerSettings) -> list[Entry]:
        """Every setting, as DescribeConfigs shows it."""
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
        """The value of a setting that counts, as Python's type."""
        definition = self.properties[name]
        text = own[name] if name in own else self._inherited(definition, settings)[0].value
        assert text is not None, name
        return definition.parse(text)


def matches_of(text: str) -> dict[str, Pattern]:
    """What a subscription says of the clients that it is about: patterns by what they look at.

    Raises:
        ConfigError: it says nothing that can be understood.
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
    matches_of(settings.get("match", ""))


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
            "client_metrics_properties.txt",
            Source.DYNAMIC_CLIENT_METRICS,
            lambda name: ResourceError(f"Unknown client metrics configuration: {name}"),
            ("Subscription name can't be empty", "Client metrics subscription name must not be empty"),
            _check_client_metrics,
        ),
        ResourceKind(
            GROUP,
            "group",
            "group_properties.txt",
            Source.DYNAMIC_GROUP,
            lambda name: ConfigError(f"Unknown group config name: {name}"),
            ("Default group resources are not allowed.", "Group name must not be empty"),
            _check_group,
            shows_defaults=True,
        ),
    )
}
