"""Precedence of settings; the expected results come from Apache Kafka."""

import pytest

from pipeline_broker.config.properties import COARSER, ConfigError, broker_properties, topic_properties
from pipeline_broker.config.resolution import (
    BrokerSettings,
    Source,
    Synonym,
    broker_entries,
    broker_entry,
    default_broker_entries,
    topic_entries,
    topic_entry,
    topic_value,
)

NOTHING = BrokerSettings()


def test_every_property_has_an_entry():
    assert [entry.definition.name for entry in broker_entries(NOTHING)] == list(broker_properties())
    assert [entry.definition.name for entry in topic_entries({}, NOTHING)] == list(topic_properties())


def test_a_topic_without_settings_shows_the_brokers_default_under_its_name():
    entry = topic_entry("cleanup.policy", {}, NOTHING)
    assert (entry.value, entry.source) == ("delete", Source.DEFAULT)
    assert entry.synonyms == (Synonym("log.cleanup.policy", "delete", Source.DEFAULT),)


def test_a_topics_own_setting_takes_precedence():
    entry = topic_entry("cleanup.policy", {"cleanup.policy": ""}, NOTHING)
    assert (entry.value, entry.source) == ("", Source.DYNAMIC_TOPIC)
    assert entry.synonyms == (
        Synonym("cleanup.policy", "", Source.DYNAMIC_TOPIC),
        Synonym("log.cleanup.policy", "delete", Source.DEFAULT),
    )


@pytest.mark.parametrize("name", ["flush.ms", "segment.ms", "retention.ms", "remote.storage.enable"])
def test_some_topic_settings_have_no_synonyms(name):
    assert topic_entry(name, {}, NOTHING).synonyms == ()


def test_an_unknown_property_is_a_secret_and_one_of_a_listener_has_the_type_of_its_base():
    static = {"super.users": "User:a", "listener.name.external.max.connections": "50"}
    entries = {entry.definition.name: entry for entry in broker_entries(BrokerSettings(static=static))}
    foreign = entries["super.users"]
    assert (foreign.value, foreign.definition.sensitive, foreign.source) == (None, True, Source.STATIC_BROKER)
    own = entries["listener.name.external.max.connections"]
    assert (own.value, own.source, own.definition.type) == ("50", Source.STATIC_BROKER, "int")
    assert own.synonyms[1] == Synonym("max.connections", "2147483647", Source.DEFAULT)


def test_layers_of_the_broker_have_kafkas_precedence():
    settings = BrokerSettings(
        static={"num.io.threads": "4"}, dynamic_default={"num.io.threads": "5"}, dynamic={"num.io.threads": "6"}
    )
    entry = broker_entry("num.io.threads", settings)
    assert (entry.value, entry.source) == ("6", Source.DYNAMIC_BROKER)
    assert [(synonym.value, synonym.source) for synonym in entry.synonyms] == [("6", 2), ("5", 3), ("4", 4), ("8", 5)]


def test_a_coarser_unit_gives_a_topic_its_default():
    settings = BrokerSettings(static={"log.retention.minutes": "1440", "log.roll.hours": "24"})
    entry = topic_entry("retention.ms", {}, settings)
    assert (entry.value, entry.source, entry.synonyms) == ("86400000", Source.DEFAULT, ())
    assert topic_value("segment.ms", {}, settings) == 86400000
    assert topic_value("segment.jitter.ms", {}, BrokerSettings(static={"log.roll.jitter.hours": "2"})) == 7200000
    assert topic_value("retention.ms", {}, BrokerSettings(static={"log.retention.hours": "-1"})) == -1


def test_a_finer_unit_wins_over_a_coarser_one():
    settings = BrokerSettings(static={"log.retention.hours": "1"}, dynamic_default={"log.retention.ms": "777"})
    entry = topic_entry("retention.ms", {}, settings)
    assert (entry.value, entry.source) == ("777", Source.DYNAMIC_DEFAULT_BROKER)


def test_unset_and_secret_properties_have_no_value():
    assert broker_entry("log.retention.ms", NOTHING).value is None
    assert broker_entry("log.retention.ms", NOTHING).synonyms == ()
    entry = broker_entry("ssl.keystore.password", BrokerSettings(static={"ssl.keystore.password": "abc"}))
    assert (entry.value, entry.source) == (None, Source.STATIC_BROKER)
    assert entry.synonyms == (Synonym("ssl.keystore.password", None, Source.STATIC_BROKER),)


def test_values_are_parsed():
    own = {"max.message.bytes": "5", "preallocate": "true", "cleanup.policy": "compact,delete"}
    assert topic_value("max.message.bytes", own, NOTHING) == 5
    assert topic_value("preallocate", own, NOTHING) is True
    assert topic_value("cleanup.policy", own, NOTHING) == ("compact", "delete")


def test_unknown_names_are_secrets_and_those_of_a_listener_have_their_base_as_a_synonym():
    settings = BrokerSettings(
        dynamic={"no.such": "1", "listener.name.x.max.connections": "7"}, dynamic_default={"num.io.threads": "5"}
    )
    shown = {entry.definition.name: entry for entry in broker_entries(settings)}
    assert (shown["no.such"].value, shown["no.such"].definition.sensitive) == (None, True)
    assert shown["listener.name.x.max.connections"].synonyms == (
        Synonym("listener.name.x.max.connections", "7", Source.DYNAMIC_BROKER),
        Synonym("max.connections", "2147483647", Source.DEFAULT),
    )
    (entry,) = default_broker_entries(settings)
    assert entry.synonyms == (Synonym("num.io.threads", "5", Source.DYNAMIC_DEFAULT_BROKER),)


def test_a_coarser_unit_is_a_synonym_only_if_the_finer_one_is_set():
    settings = BrokerSettings(static={"log.retention.minutes": "5"}, dynamic={"log.retention.ms": "777"})
    expected = [("log.retention.ms", 2), ("log.retention.minutes", 4), ("log.retention.hours", 5)]
    for entry in (topic_entry("retention.ms", {}, settings), broker_entry("log.retention.ms", settings)):
        assert [(synonym.name, synonym.source) for synonym in entry.synonyms] == expected


INHERITED = sorted(
    name
    for name, it in topic_properties().items()
    if it.broker_property is not None and broker_properties()[it.broker_property].documentation
)
"""Topic settings that inherit from a property with an effect."""


@pytest.mark.parametrize("layer", ["static", "dynamic", "dynamic_default"])
def test_topics_can_inherit_every_allowed_value_of_a_broker(layer):
    """Otherwise an accepted broker setting would break every use of a topic's settings."""
    texts = ("-2", "-1", "0", "1", "2147483647", "9223372036854775807", "", "true", "0.5", "none", "a,b")
    refused = []
    for name in INHERITED:
        broker_property = topic_properties()[name].broker_property
        for name_of_broker in (broker_property, *(coarser for coarser, _ in COARSER.get(broker_property, ()))):
            for text in texts:
                try:
                    broker_properties()[name_of_broker].parse(text)
                except ConfigError:
                    continue
                try:
                    topic_value(name, {}, BrokerSettings(**{layer: {name_of_broker: text}}))
                except ConfigError as error:
                    refused.append(f"{name_of_broker}={text}: {error}")
    assert refused == []
