"""A dynamic property has an effect or is stored as in Kafka, unless it promises security or names a class."""

import attrs
import pytest

from pipeline_broker.config.changes import ONLY_WITH_LISTENER_PREFIX, NotDynamicError, Operation, alter_broker_settings
from pipeline_broker.config.properties import ConfigError, broker_properties
from pipeline_broker.config.reconfiguration import CLASS_LISTS, check_has_effect
from pipeline_broker.config.resolution import BrokerSettings, topic_entries
from pipeline_broker.config.settings import config_with, is_acted_on, is_unscoped_jaas, parse_settings
from tests.tables import each_row

DYNAMIC = [each for each in broker_properties().values() if not each.read_only]
PREFIX = "listener.name.secure."
LISTENERS = (
    ("listeners", "PLAINTEXT://127.0.0.1:9092,SECURE://127.0.0.1:9093"),
    ("listener.security.protocol.map", "PLAINTEXT:PLAINTEXT,SECURE:SASL_SSL"),
    (PREFIX + "sasl.enabled.mechanisms", "SCRAM-SHA-256"),
    (PREFIX + "ssl.keystore.type", "PEM"),
    (PREFIX + "ssl.keystore.location", "/none"),
)
OTHERS = {
    "listeners": "PLAINTEXT://127.0.0.1:9092",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SECURE:SSL",
    "sasl.enabled.mechanisms": "SCRAM-SHA-512",
    "log.cleanup.policy": "compact",
    "compression.type": "zstd",
    "log.message.timestamp.type": "LogAppendTime",
    "max.connections.per.ip.overrides": "127.0.0.1:5",
    "min.insync.replicas": "2",
    "pipeline.fetch.verify": "always",
    "ssl.client.auth": "required",
    "ssl.enabled.protocols": "TLSv1.3",
}
"""Values other than the default, for properties with their own syntax."""


def another(definition):
    """Return an allowed value other than the default."""
    if definition.name in OTHERS:
        return OTHERS[definition.name]
    if definition.type == "boolean":
        return "true" if definition.default == "false" else "false"
    if definition.type in {"int", "long", "short"}:
        default = int(definition.default or 1)
        return str(default // 2 if default > 2**30 else max(default, 1) + 1)
    return "0.7" if definition.type == "double" else "other"


def effective(name, text):
    """Return everything that determines the behavior of the broker, with one dynamic setting or none."""
    started, _ = parse_settings(LISTENERS)
    config = started if name is None else config_with(started, {name: text})
    settings = BrokerSettings(static=config.properties, dynamic=config.changed)
    fields = attrs.asdict(attrs.evolve(config, properties={}, changed={}), recurse=False)
    topics = {each.definition.name: each.value for each in topic_entries({}, settings)}
    return fields, config.listener_configs, topics


def altered(name, text):
    own = alter_broker_settings({}, [(name, Operation.SET, text)])
    check_has_effect(own, [name])
    return own


ACTING = [each for each in DYNAMIC if is_acted_on(each.name) and not is_unscoped_jaas(each.name)]
WITHOUT_EFFECT = [each for each in DYNAMIC if not is_acted_on(each.name)]


def each_property(definitions):
    return each_row("definition", definitions, [each.name for each in definitions])


@each_property(ACTING)
def test_a_dynamic_property_with_an_effect_changes_the_configuration(definition):
    name = PREFIX * (definition.name in ONLY_WITH_LISTENER_PREFIX or definition.name == "sasl.enabled.mechanisms")
    name, text = name + definition.name, another(definition)

    assert altered(name, text) == {name: definition.canonical(text)}
    assert effective(name, text) != effective(None, None)


NAMES_CLASSES = [each for each in WITHOUT_EFFECT if each.type == "class" or each.name in CLASS_LISTS]


@each_property(NAMES_CLASSES)
def test_a_property_that_names_a_class_is_refused(definition):
    text = another(definition)
    with pytest.raises(ConfigError) as caught:
        altered(definition.name, text)
    assert caught.value.client_message == (
        f"Invalid value {text} for configuration {definition.name}: Class {text} could not be found."
    )


@each_property([each for each in WITHOUT_EFFECT if each.default is not None])
def test_a_property_without_effect_can_be_set_to_its_default(definition):
    text = definition.canonical(definition.default)
    assert altered(definition.name, definition.default) == {definition.name: text}


@each_property([each for each in WITHOUT_EFFECT if each not in NAMES_CLASSES and not is_unscoped_jaas(each.name)])
def test_any_other_property_without_effect_is_stored_as_in_kafka(definition):
    text = another(definition)
    assert altered(definition.name, text) == {definition.name: definition.canonical(text)}


@pytest.mark.parametrize(
    "name",
    [
        "super.users",
        "allow.everyone.if.no.acl.found",
        "sasl.jaas.config",
        PREFIX + "sasl.jaas.config",
        PREFIX + "log.preallocate",
    ],
)
def test_a_property_with_an_effect_only_at_a_start_or_elsewhere_is_refused(name):
    with pytest.raises(NotDynamicError) as caught:
        altered(name, "true")
    assert caught.value.client_message == f"Cannot update these configs dynamically: [{name}]"
