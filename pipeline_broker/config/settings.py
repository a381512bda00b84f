"""What this broker acts on, made from (name, text) pairs.

Rules: the properties that topics inherit are resolved for each topic (`resolution`). Any other property that Kafka
knows is checked and kept for DescribeConfigs, and one line names all of them that have no effect. Another line names
the unknown ones, which are ignored as in Kafka; a likely misspelling is refused (`unknown_names`). All mistakes are
reported at once. Of two pairs with one name the later wins.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import attrs

from pipeline_broker.config.broker_config import BrokerConfig
from pipeline_broker.config.listeners import (
    LISTENER_PROPERTIES,
    OF_ONE_LISTENER,
    PREFIX,
    read_endpoints,
)
from pipeline_broker.config.properties import (
    PREFIXED,
    ConfigError,
    UnknownPropertyError,
    broker_properties,
    format_value,
    nearest_hint,
)
from pipeline_broker.config.providers import resolve
from pipeline_broker.config.relations import check_relations
from pipeline_broker.config.share_properties import SHARE_PROPERTIES
from pipeline_broker.config.sources import read_argument, read_settings_file
from pipeline_broker.config.topic_settings import INHERITED_BY_TOPICS
from pipeline_broker.config.unknown_names import misspelled

JAAS = "sasl.jaas.config"
KAFKA_VERSION = "4.3"
"""The release whose names are known."""
PLUGIN_PREFIXES = ("rsm.config.", "rlmm.config.", "config.providers.")
"""Properties that Kafka hands to plug-ins unread."""


def _super_users(text: str) -> tuple[str, ...]:
    """Principals between semicolons: the names in certificates have commas."""
    users = tuple(filter(None, map(str.strip, text.split(";"))))
    for user in users:
        kind, colon, name = user.partition(":")
        if not (kind and colon and name):
            raise ConfigError(f"super.users: {user!r} is not of the form User:name")
    return users


AUTHORIZER_PROPERTIES: Mapping[str, Callable[[str], Any]] = {
    "allow.everyone.if.no.acl.found": lambda text: text.strip().lower() == "true",
    "super.users": _super_users,
}
"""What Kafka's own authorizer reads, a plug-in too: in no list of broker properties, yet in every guide to ACLs."""


FIELDS = frozenset(field.name.replace("_", ".") for field in attrs.fields(BrokerConfig)) - {
    "properties",
    "changed",
    "secrets",
    "listener.of.options",
}
ACTED_ON = (FIELDS - AUTHORIZER_PROPERTIES.keys()) | LISTENER_PROPERTIES | SHARE_PROPERTIES | INHERITED_BY_TOPICS
COPIES = re.compile(r".*\.(?:replication\.factor|min\.isr)|min\.insync\.replicas")
"""Properties that count copies of records."""
COMMENT = re.compile(r"\s#")
WITHOUT_BLANKS = frozenset({
    "advertised.listeners", "authorizer.class.name", "inter.broker.listener.name", "listener.security.protocol.map",
    "listeners", "sasl.enabled.mechanisms", "sasl.mechanism.inter.broker.protocol",
})  # fmt: skip
"""Texts in which a blank and a # cannot be meant."""
ALIASES = {"broker.id": "node.id", "log.dir": "log.dirs"}
"""Former names, and the properties that they set."""
BROKER_ID_GENERATED = "-1"
"""The default of `broker.id`: with ZooKeeper the broker drew a number."""


def load_settings(files: Iterable[Path], arguments: Iterable[str]) -> tuple[BrokerConfig, list[str]]:
    """Return the configuration of settings files and then `name=value` arguments; later ones win.

    Raises:
        ConfigError: settings cannot be used; the text has a line for each of them.
    """
    pairs: list[tuple[str, str]] = []
    for path in files:
        pairs += read_settings_file(path)
    pairs += [read_argument(argument) for argument in arguments]
    settings, secrets = resolve(dict(pairs))
    return parse_settings(settings.items(), secrets)


def parse_settings(
    pairs: Iterable[tuple[str, str]], secrets: frozenset[str] = frozenset()
) -> tuple[BrokerConfig, list[str]]:
    """Return the configuration, and warnings about settings that have no effect.

    Args:
        pairs: names and texts.
        secrets: names whose texts are never shown.

    Raises:
        ConfigError: settings cannot be used; the text has a line for each of them.
    """
    given = dict(pairs)
    texts = {name: _without_comment(name, text) for name, text in given.items()}
    commented = [name for name, text in texts.items() if text != given[name]]
    known = broker_properties() if texts else {}
    fields: dict[str, Any] = {}
    properties: dict[str, str] = {}
    idle, unknown, mistakes = [], [], []
    for name, text in texts.items():
        try:
            if is_known(name):
                properties[name] = _checked(name, text, fields)
            elif (meant := misspelled(name, known)) is not None:
                raise UnknownPropertyError(f"unknown property {name!r}; did you mean {meant}?")
            else:
                properties[name] = text
        except ConfigError as error:
            mistakes.append(f"{name}: the value is not allowed" if name in secrets else str(error))
            continue
        if not is_known(name):
            unknown.append(name)
        elif not is_acted_on(name) and name not in ALIASES and not _says_what_is(name, text):
            idle.append(name)
    if mistakes:
        raise ConfigError("\n".join(mistakes))
    _apply_aliases(fields, properties)
    config = BrokerConfig(**fields, properties=properties, secrets=secrets)
    check_relations(config)
    return config, _warnings_of_names(idle, unknown, commented) + _idle_warnings(config)


def _warnings_of_names(idle: list[str], unknown: list[str], commented: list[str]) -> list[str]:
    """Return a line for each kind of names that there is."""
    lines = [warning_of(*idle)] if idle else []
    if unknown:
        lines.append(f"{', '.join(unknown)}: not a property of Kafka {KAFKA_VERSION}, and ignored")
    if commented:
        lines.append(f"{', '.join(commented)}: the comment after the value is ignored; give it its own line")
    return [f"warning: {line}" for line in lines]


def is_known(name: str) -> bool:
    """Return whether Kafka, or a plug-in of Kafka, has a property of this name."""
    known = broker_properties()
    prefixed = PREFIXED.fullmatch(name)
    return (
        name in known
        or (prefixed is not None and prefixed[1] in known)
        or name in AUTHORIZER_PROPERTIES
        or name.startswith(PLUGIN_PREFIXES)
    )


def _without_comment(name: str, text: str) -> str:
    """Return a value without the comment after it, where no value of the property has a blank and a #.

    Java's format has no such comments, and Apache Kafka refuses these values; files of guides have them.
    """
    prefixed = PREFIXED.fullmatch(name)
    rest = name if prefixed is None else prefixed[1]
    definition = broker_properties().get(rest)
    has_words = definition is None or not (definition.is_number_or_choice or rest in WITHOUT_BLANKS)
    comment = None if has_words else COMMENT.search(text)
    return text if comment is None else text[: comment.start()].rstrip()


def _checked(name: str, text: str, fields: dict[str, Any]) -> str:
    """Return the text of a known property in Kafka's form, and set its field; raises ConfigError."""
    definition = broker_properties().get(name)
    if definition is None:
        canonical = _foreign_text(name, text)
        if name in AUTHORIZER_PROPERTIES:
            fields[name.replace(".", "_")] = AUTHORIZER_PROPERTIES[name](text)
        return canonical
    value = definition.parse(text)
    if name in FIELDS:
        fields[name.replace(".", "_")] = value
    return format_value(value)


def config_with(started: BrokerConfig, changed: Mapping[str, str]) -> BrokerConfig:
    """The configuration of a running broker: as at its start, and what was `changed` since.

    Raises:
        ConfigError: properties do not go together.
    """
    fields: dict[str, Any] = {}
    counting = {name: text for name, text in changed.items() if _is_dynamic(name)}
    for name, text in counting.items():
        if name in FIELDS:
            fields[name.replace(".", "_")] = broker_properties()[name].parse(text)
    config = attrs.evolve(started, **fields, changed=counting)
    check_relations(config)
    return config


def _is_dynamic(name: str) -> bool:
    definition = broker_properties().get(name)
    return name.startswith(PREFIX) if definition is None else not definition.read_only


def is_acted_on(name: str) -> bool:
    """Whether this broker acts on a property, also on one with the prefix of a listener."""
    prefixed = PREFIXED.fullmatch(name)
    if prefixed:
        return prefixed[1] in LISTENER_PROPERTIES | OF_ONE_LISTENER
    return name in ACTED_ON or name in AUTHORIZER_PROPERTIES


def is_idle_jaas(name: str) -> bool:
    """Whether a name is that of JAAS lines without a listener and a mechanism: no listener reads those."""
    return name == JAAS or (PREFIXED.fullmatch(name) is not None and name.split(".", 3)[3] == JAAS)


def warning_of(*names: str) -> str:
    """The line about properties that are accepted without being acted on."""
    if len(names) == 1:
        return f"{names[0]} is accepted, but this broker does not act on it"
    return f"{', '.join(names)} are accepted, but this broker does not act on them"


def _says_what_is(name: str, text: str) -> bool:
    """Whether a property without effect asks for what this broker is: one that has the only copy of everything."""
    return (name == "process.roles" and "broker" in text) or (
        COPIES.fullmatch(name) is not None and text.strip() == "1"
    )


def warning_of_change(name: str) -> str | None:
    """The line about a property that was set while the broker runs, where that has no effect."""
    if is_acted_on(name):
        return None
    known = broker_properties()
    prefixed = PREFIXED.fullmatch(name)
    if (name if prefixed is None else prefixed[1]) in known or name.startswith(PLUGIN_PREFIXES):
        return warning_of(name)
    return f"{name} is kept, but is not a property of Kafka's{nearest_hint(name, known)}"


def _foreign_text(name: str, text: str) -> str:
    """The text of a property that is in no table: with the prefix of a listener, or for a plug-in."""
    known = broker_properties()
    prefixed = PREFIXED.fullmatch(name)
    if prefixed and prefixed[1] in known:
        if name != name.lower():
            raise ConfigError(f"{name}: the name of the listener is written in lower case there: {name.lower()}")
        try:
            return known[prefixed[1]].canonical(text)
        except ConfigError as error:
            raise ConfigError(f"{name.removesuffix(prefixed[1])}{error}", error.client_message) from None
    return text


def _idle_warnings(config: BrokerConfig) -> list[str]:
    """What is set for listeners or access and cannot count: some are the controller's, some do not exist."""
    names = {listener.name for listener in config.listener_configs}
    warnings = [
        f"warning: {name} does not count: no authorizer.class.name is set, so everybody may do everything"
        for name in AUTHORIZER_PROPERTIES
        if name in config.properties and not config.authorizer_class_name
    ]
    if config.log_dirs is not None and len(config.log_dirs) > 1:
        warnings.append(f"warning: log.dirs: all data is in the first directory, {config.log_dirs[0]}")
    warnings += [
        f"warning: the listener {endpoint.name} is the controller's; this broker has no quorum and does not serve it"
        for endpoint in read_endpoints("listeners", config.listeners)
        if endpoint.name not in names
    ]
    warnings += [
        f"warning: {name} does not count: write {PREFIX}<listener>.<mechanism>.{JAAS}"
        for name in config.properties
        if is_idle_jaas(name)
    ]
    controllers = {name.upper() for name in config.controller_listener_names}
    prefixes = {name.split(".")[2].upper() for name in config.properties if name.startswith(PREFIX)}
    strangers = sorted(name.lower() for name in prefixes - names - controllers)
    return warnings + [
        f"warning: properties of {PREFIX}{name} do not count: there is no such listener" for name in strangers
    ]


def _apply_aliases(fields: dict[str, Any], properties: dict[str, str]) -> None:
    node, broker = properties.get("node.id"), properties.get("broker.id")
    if node is None and broker == BROKER_ID_GENERATED:
        properties["broker.id"] = str(BrokerConfig().node_id)
    elif node is None and broker is not None:
        if int(broker) < 0:
            raise ConfigError(f"broker.id: {broker!r} is not allowed: must be at least 0")
        fields["node_id"] = int(broker)
        properties["node.id"] = broker
    elif node is not None and broker is None:  # clients that ask see both, as in Kafka (AbstractKafkaConfig)
        properties["broker.id"] = node
    elif node != broker:
        raise ConfigError(f"node.id is {node} but broker.id is {broker}: they must agree where both are set")
    if "log.dirs" not in properties and "log.dir" in properties:
        fields["log_dirs"] = tuple(properties["log.dir"].split(","))
