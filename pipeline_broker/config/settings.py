"""The broker's configuration, parsed from settings files and `name=value` arguments."""

import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import attrs

from pipeline_broker.config.broker_config import BrokerConfig
from pipeline_broker.config.listeners import (
    LISTENER_PROPERTIES,
    PER_LISTENER_LIMITS,
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
    topic_properties,
)
from pipeline_broker.config.providers import resolve
from pipeline_broker.config.relations import check_relations
from pipeline_broker.config.secret_files import exposures
from pipeline_broker.config.sources import read_argument, read_located_settings
from pipeline_broker.config.unknown_names import misspelled

JAAS = "sasl.jaas.config"
CONFLUENT = "confluent."
KAFKA_VERSION = "4.4"
DEAD_LETTERS_ENABLED = "errors.deadletterqueue.group.enable"
"""The Kafka release that the tables of properties describe."""
PLUGIN_PREFIXES = ("rsm.config.", "rlmm.config.", "config.providers.")
"""Prefixes of properties that Kafka passes to plug-ins without checking them."""


def _super_users(text: str) -> tuple[str, ...]:
    # At semicolons, because names in certificates contain commas.
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
# Kafka's authorizer is a plug-in, so its properties are not in Kafka's list of broker properties.


FIELDS = frozenset(field.name.replace("_", ".") for field in attrs.fields(BrokerConfig)) - {
    "properties",
    "changed",
    "secrets",
    "listener.of.options",
}
COPIES = re.compile(r".*\.(?:replication\.factor|min\.isr)|min\.insync\.replicas")
# Properties that set a number of replicas.
RETENTION = ("log.retention.minutes", "log.retention.hours")
NEVER = "-1"
COMMENT = re.compile(r"\s#")
WITHOUT_BLANKS = frozenset({
    "advertised.listeners", "authorizer.class.name", "inter.broker.listener.name", "listener.security.protocol.map",
    "listeners", "sasl.enabled.mechanisms", "sasl.mechanism.inter.broker.protocol",
})  # fmt: skip
# Text properties in which a blank followed by a # cannot be part of a value.
ALIASES = {"broker.id": "node.id", "log.dir": "log.dirs"}
"""Former names of properties, and the properties that they set."""
# Kafka's default of `broker.id`: with ZooKeeper, a broker without an id received a generated one.
BROKER_ID_GENERATED = "-1"


def load_settings(files: Iterable[Path], arguments: Iterable[str]) -> tuple[BrokerConfig, list[str]]:
    """Return the configuration of `files` and then `arguments`, and warnings; later settings override earlier ones.

    Config providers are resolved here, and only here (see `providers`).

    Args:
        files: Java properties files, or TOML files by their suffix.
        arguments: texts of the form `name=value`.

    Raises:
        ConfigError: a file or argument cannot be read, or settings are invalid; one line per mistake.
    """
    of_files = [(path, read_located_settings(path)) for path in files]
    located = [setting for _, settings in of_files for setting in settings]
    located += [(*read_argument(argument), "") for argument in arguments]
    given = {name: text for name, text, _ in located}
    settings, secrets = resolve(given)
    config, warnings = parse_settings(settings.items(), secrets, {name: place for name, _, place in located})
    sources = [(path, [setting[:2] for setting in settings]) for path, settings in of_files]
    return config, warnings + [f"warning: {line}" for line in exposures(sources, given, settings)]


NOWHERE: Mapping[str, str] = {}


def parse_settings(
    pairs: Iterable[tuple[str, str]], secrets: frozenset[str] = frozenset(), places: Mapping[str, str] = NOWHERE
) -> tuple[BrokerConfig, list[str]]:
    """Return the configuration, and warnings about settings without effect and comments after values.

    Each name falls into one of four classes:

    * Properties that the broker acts on are parsed and checked.
    * Other properties of Kafka are checked and kept for DescribeConfigs. One warning names them all.
    * Unknown names are kept, as in Kafka, which ignores them. One warning names them all.
    * Likely misspellings of known names are refused (see `unknown_names`).

    Properties that topics inherit stay texts, because `resolution` resolves them for each topic.

    Args:
        pairs: names and texts; of two pairs with one name the later wins.
        secrets: names of settings that errors must not show.
        places: file and line of settings, by name, which errors show.

    Raises:
        ConfigError: settings are invalid; the message has one line per mistake.
    """
    given = dict(pairs)
    texts = {name: _without_comment(name, text) for name, text in given.items()}
    commented = [name for name, text in texts.items() if text != given[name]]
    known = broker_properties() if texts else {}
    fields: dict[str, Any] = {}
    properties: dict[str, str] = {}
    ignored, unknown, mistakes = [], [], []
    for name, text in texts.items():
        try:
            if is_known(name):
                properties[name] = _checked(name, text, fields)
            elif (meant := misspelled(name, known)) is not None:
                raise UnknownPropertyError(f"unknown property {name!r}; did you mean {meant}?")
            else:
                properties[name] = text
        except ConfigError as error:
            # The error of a property shows its value, which must not happen with a secret.
            mistake = f"{name}: the value is not allowed" if name in secrets else str(error)
            place = places.get(name)
            mistakes.append(f"{place}: {mistake}" if place else mistake)
            continue
        if not is_known(name):
            unknown.append(name)
        elif not is_acted_on(name) and name not in ALIASES and not _describes_single_broker(name, text):
            ignored.append(name)
    if mistakes:
        raise ConfigError("\n".join(mistakes))
    _apply_aliases(fields, properties)
    config = BrokerConfig(**fields, properties=properties, secrets=secrets)
    check_relations(config)
    return config, _name_warnings(ignored, unknown, commented) + _ineffective_warnings(config)


def _name_warnings(ignored: list[str], unknown: list[str], commented: list[str]) -> list[str]:
    lines = [warning_of(*ignored)] if ignored else []
    if unknown:
        lines.append(f"this broker ignores {', '.join(unknown)}: Kafka {KAFKA_VERSION} has no such property")
    if commented:
        lines.append(f"{', '.join(commented)}: the comment after the value is ignored; write it on its own line")
    return [f"warning: {line}" for line in lines]


def is_known(name: str) -> bool:
    """Return whether Kafka, or one of its plug-ins, has a property of this name."""
    known = broker_properties()
    prefixed = PREFIXED.fullmatch(name)
    return (
        name in known
        or (prefixed is not None and prefixed[1] in known)
        or name in AUTHORIZER_PROPERTIES
        or (name.startswith(PLUGIN_PREFIXES) and name not in PLUGIN_PREFIXES)
    )


def _without_comment(name: str, text: str) -> str:
    """Return `text` without a trailing comment, if no valid value of the property contains a blank and a #.

    Java's format has no trailing comments, so Apache Kafka refuses such values. Files of published guides contain them.
    """
    prefixed = PREFIXED.fullmatch(name)
    rest = name if prefixed is None else prefixed[1]
    definition = broker_properties().get(rest)
    has_words = definition is None or not (definition.is_number_or_choice or rest in WITHOUT_BLANKS)
    comment = None if has_words else COMMENT.search(text)
    return text if comment is None else text[: comment.start()].rstrip()


def _checked(name: str, text: str, fields: dict[str, Any]) -> str:
    definition = broker_properties().get(name)
    if definition is None:
        canonical = _foreign_text(name, text)
        # They have no definition in the table, so they are parsed here.
        if name in AUTHORIZER_PROPERTIES:
            fields[name.replace(".", "_")] = AUTHORIZER_PROPERTIES[name](text)
        return canonical
    value = definition.parse(text)
    if name in FIELDS:
        fields[name.replace(".", "_")] = value
    return format_value(value)


def config_with(started: BrokerConfig, changed: Mapping[str, str]) -> BrokerConfig:
    """Return the configuration of a running broker: `started`, overridden by the dynamic properties in `changed`.

    Raises:
        ConfigError: properties contradict each other.
    """
    fields: dict[str, Any] = {}
    # Stored settings include names that only a plug-in would read, and they have no effect.
    effective = {name: text for name, text in changed.items() if _is_dynamic(name)}
    for name, text in effective.items():
        if name in FIELDS:
            fields[name.replace(".", "_")] = broker_properties()[name].parse(text)
    config = attrs.evolve(started, **fields, changed=effective)
    check_relations(config)
    return config


def _is_dynamic(name: str) -> bool:
    definition = broker_properties().get(name)
    return name.startswith(PREFIX) if definition is None else not definition.read_only


def is_acted_on(name: str) -> bool:
    """Return whether this broker acts on a property, with or without the prefix of a listener."""
    prefixed = PREFIXED.fullmatch(name)
    if prefixed:
        return prefixed[1] in LISTENER_PROPERTIES | PER_LISTENER_LIMITS
    definition = broker_properties().get(name)
    is_documented = definition is not None and definition.documentation is not None
    return (is_documented and name not in ALIASES) or name in AUTHORIZER_PROPERTIES


def is_topic_setting_acted_on(name: str) -> bool:
    """Return whether this broker acts on a topic setting, or on the broker property from which topics inherit it."""
    inherited = topic_properties()[name].broker_property
    if inherited is None:
        return name.startswith(CONFLUENT) or name == DEAD_LETTERS_ENABLED
    return is_acted_on(inherited)


def is_unscoped_jaas(name: str) -> bool:
    """Return whether `name` is a `sasl.jaas.config` that no listener reads: without a listener or a mechanism."""
    return name == JAAS or (PREFIXED.fullmatch(name) is not None and name.split(".", 3)[3] == JAAS)


def warning_of(*names: str) -> str:
    """Return the message about properties that are accepted without effect."""
    if len(names) == 1:
        return f"{names[0]} is accepted, but this broker does not act on it"
    return f"{', '.join(names)} are accepted, but this broker does not act on them"


def _describes_single_broker(name: str, text: str) -> bool:
    """Return whether an ignored property describes this broker anyway: a single one, with one copy of each record."""
    return (name == "process.roles" and "broker" in text) or (
        COPIES.fullmatch(name) is not None and text.strip() == "1"
    )


def warning_of_change(name: str) -> str | None:
    """Return the warning about a property that was set on a running broker without effect; None if it has one."""
    if is_acted_on(name):
        return None
    if is_known(name):
        return warning_of(name)
    return f"{name} is stored, but Kafka has no such property{nearest_hint(name, broker_properties())}"


def _foreign_text(name: str, text: str) -> str:
    """Return the canonical text of a property that is in no table: prefixed with a listener, or of a plug-in."""
    known = broker_properties()
    prefixed = PREFIXED.fullmatch(name)
    if prefixed and prefixed[1] in known:
        if name != name.lower():
            raise ConfigError(f"{name}: the listener's name must be in lower case. Write {name.lower()}.")
        try:
            return known[prefixed[1]].canonical(text)
        except ConfigError as error:
            raise ConfigError(f"{name.removesuffix(prefixed[1])}{error}", error.client_message) from None
    return text


def _ineffective_warnings(config: BrokerConfig) -> list[str]:
    names = {listener.name for listener in config.listener_configs}
    warnings = [
        f"warning: {name} has no effect: authorizer.class.name is not set, so every client may do everything"
        for name in AUTHORIZER_PROPERTIES
        if name in config.properties and not config.authorizer_class_name
    ]
    warnings += [
        f"warning: {name}={config.properties[name]} keeps records forever, like -1"
        for name in RETENTION
        if config.properties.get(name, NEVER).startswith("-") and config.properties.get(name, NEVER) != NEVER
    ]
    if config.log_dirs is not None and len(config.log_dirs) > 1:
        warnings.append(f"warning: log.dirs: only the first directory, {config.log_dirs[0]}, is used")
    warnings += [
        f"warning: the listener {endpoint.name} is the controller's; this broker has no quorum and does not serve it"
        for endpoint in read_endpoints("listeners", config.listeners)
        if endpoint.name not in names
    ]
    warnings += [
        f"warning: {name} has no effect: write {PREFIX}<listener>.<mechanism>.{JAAS}"
        for name in config.properties
        if is_unscoped_jaas(name)
    ]
    controllers = {name.upper() for name in config.controller_listener_names}
    prefixes = {name.split(".")[2].upper() for name in config.properties if name.startswith(PREFIX)}
    unknown = sorted(name.lower() for name in prefixes - names - controllers)
    return warnings + [
        f"warning: properties of {PREFIX}{name} have no effect: listeners has no {name.upper()}" for name in unknown
    ]


def _apply_aliases(fields: dict[str, Any], properties: dict[str, str]) -> None:
    node, broker = properties.get("node.id"), properties.get("broker.id")
    # A copied ZooKeeper-era file sets -1. It keeps the default id instead of failing on a negative one.
    if node is None and broker == BROKER_ID_GENERATED:
        properties["broker.id"] = broker_properties()["node.id"].default or ""
    elif node is None and broker is not None:
        if int(broker) < 0:
            raise ConfigError(f"broker.id: {broker!r} is not allowed: must be at least 0, or -1 for the default")
        fields["node_id"] = int(broker)
        properties["node.id"] = broker
    elif node is not None and broker is None:  # DescribeConfigs shows both, as in Kafka (AbstractKafkaConfig)
        properties["broker.id"] = node
    elif node != broker:
        raise ConfigError(f"node.id is {node} but broker.id is {broker}: they must agree. Remove one of them.")
    if "log.dirs" not in properties and "log.dir" in properties:
        fields["log_dirs"] = tuple(properties["log.dir"].split(","))
