"""Changes to settings; the expected results come from Apache Kafka."""

import pytest

from pipeline_broker.config.changes import (
    NotAListError,
    NotDynamicError,
    Operation,
    alter_broker_settings,
    alter_topic_settings,
    check_topic_settings,
)
from pipeline_broker.config.properties import ConfigError


@pytest.mark.parametrize(
    ("name", "allowed"),
    [
        ("listener.name.external.max.connections", True),
        ("listener.name.external.num.network.threads", True),
        ("listener.name.external.ssl.keystore.location", False),
        ("listener.name.external.plain.sasl.jaas.config", False),
        ("listener.name.nowhere.foo", False),
        ("listeners", False),
    ],
)
def test_only_limits_and_processors_of_a_listener_can_be_set_for_all_brokers(name, allowed):
    changes = [(name, Operation.SET, "5")]
    alter_broker_settings({}, changes)
    if allowed:
        assert alter_broker_settings({}, changes, for_all=True) == {name: "5"}
        return
    with pytest.raises(NotDynamicError) as caught:
        alter_broker_settings({}, changes, for_all=True)
    said = f"Cannot update these configs at default cluster level, broker id must be specified: [{name}]"
    assert caught.value.client_message == said


def test_settings_of_a_new_topic_are_checked_and_made_canonical():
    given = {"retention.ms": " +7000 ", "preallocate": "TRUE"}
    assert check_topic_settings(given) == {"retention.ms": "7000", "preallocate": "true"}


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"no.such": "1"}, "unknown property"),
        ({"retention.ms": "soon"}, "type long"),
        ({"segment.bytes": "100"}, "at least 1048576"),
        ({"cleanup.policy": "foo"}, "one of compact, delete"),
        ({"min.compaction.lag.ms": "10", "max.compaction.lag.ms": "5"}, "must not be above"),
        ({"remote.storage.enable": "true"}, "no tiered storage"),
        ({"leader.replication.throttled.replicas": "*,0:1"}, "neither"),
    ],
)
def test_wrong_settings_of_a_new_topic_are_refused(settings, message):
    with pytest.raises(ConfigError, match=message):
        check_topic_settings(settings)


@pytest.mark.parametrize(
    ("own", "operation", "text", "expected"),
    [
        ({}, Operation.APPEND, "compact", "delete,compact"),
        ({"cleanup.policy": "delete,compact"}, Operation.APPEND, "compact", "delete,compact"),
        ({"cleanup.policy": "delete,compact"}, Operation.SUBTRACT, "compact", "delete"),
        ({"cleanup.policy": "delete"}, Operation.SUBTRACT, "foo", "delete"),
        ({"cleanup.policy": "delete"}, Operation.SUBTRACT, "delete", ""),
        ({"cleanup.policy": "delete"}, Operation.SET, "compact", "compact"),
    ],
)
def test_lists_are_set_appended_to_and_subtracted_from(own, operation, text, expected):
    assert alter_topic_settings(own, [("cleanup.policy", operation, text)]) == {"cleanup.policy": expected}


def test_deleting_is_always_allowed():
    changes = [("no.such", Operation.DELETE, None), ("retention.ms", Operation.DELETE, None)]
    assert alter_topic_settings({"retention.ms": "5", "preallocate": "true"}, changes) == {"preallocate": "true"}


@pytest.mark.parametrize(
    ("name", "operation", "text"),
    [
        ("no.such", Operation.SET, "1"),
        ("retention.ms", Operation.APPEND, "1"),
        ("retention.ms", Operation.SET, None),
        ("retention.ms", Operation.SET, "-5"),
        ("cleanup.policy", Operation.APPEND, "foo"),
        ("min.compaction.lag.ms", Operation.SET, "9223372036854775807"),
    ],
)
def test_a_refused_change_changes_nothing(name, operation, text):
    own = {"retention.ms": "5", "max.compaction.lag.ms": "9"}
    with pytest.raises(ConfigError):
        alter_topic_settings(own, [("preallocate", Operation.SET, "true"), (name, operation, text)])
    assert own == {"retention.ms": "5", "max.compaction.lag.ms": "9"}


def test_a_running_broker_accepts_dynamic_properties_and_unknown_names():
    changes = [
        ("log.retention.ms", Operation.SET, "777600000"),
        ("no.such", Operation.SET, "1"),
        ("listener.name.x.max.connections", Operation.SET, " 7 "),
        ("num.partitions", Operation.DELETE, None),
    ]
    assert alter_broker_settings({}, changes) == {
        "log.retention.ms": "777600000",
        "no.such": "1",
        "listener.name.x.max.connections": "7",
    }


@pytest.mark.parametrize(
    ("changes", "for_all", "error", "said"),
    [
        (
            [("num.partitions", "3"), ("auto.create.topics.enable", "true"), ("log.retention.ms", "soon")],
            False,
            NotDynamicError,
            "Cannot update these configs dynamically: [num.partitions, auto.create.topics.enable]",
        ),
        (
            [("ssl.keystore.location", "x")],
            False,
            NotDynamicError,
            (
                "These security configs can be dynamically updated only per-listener using the listener prefix: "
                "[ssl.keystore.location]"
            ),
        ),
        (
            [("listener.security.protocol.map", "x")],
            True,
            NotDynamicError,
            (
                "Cannot update these configs at default cluster level, broker id must be specified: "
                "[listener.security.protocol.map]"
            ),
        ),
        (
            [("num.io.threads", "0")],
            False,
            ConfigError,
            "Invalid value 0 for configuration num.io.threads: Value must be at least 1",
        ),
        (
            [("listener.name.plaintext.max.connections", "x")],
            False,
            ConfigError,
            "Invalid value x for configuration max.connections: Not a number of type INT",
        ),
    ],
)
def test_a_running_broker_refuses_the_rest_in_kafkas_words(changes, for_all, error, said):
    with pytest.raises(error) as caught:
        alter_broker_settings({}, [(name, Operation.SET, text) for name, text in changes], for_all=for_all)
    assert caught.value.client_message == said


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("log.retention.ms", "Config value append is not allowed for config key: log.retention.ms"),
        ("no.such", "Unknown config name: no.such"),
    ],
)
def test_only_lists_of_a_broker_are_appended_to(name, said):
    with pytest.raises(NotAListError) as caught:
        alter_broker_settings({}, [(name, Operation.APPEND, "3")])
    assert caught.value.client_message == said


@pytest.mark.parametrize(
    ("name", "operation", "text", "said"),
    [
        ("no.such", Operation.SET, "1", "Unknown topic config name: no.such"),
        ("no.such", Operation.APPEND, "1", "Can't APPEND to key no.such because its type is not LIST."),
        (
            "retention.ms",
            Operation.SET,
            "x",
            "Invalid value x for configuration retention.ms: Not a number of type LONG",
        ),
        (
            "compression.gzip.level",
            Operation.SET,
            "0",
            "Invalid value 0 for configuration compression.gzip.level: Value must be between 1 and 9 or equal to -1",
        ),
        (
            "min.cleanable.dirty.ratio",
            Operation.SET,
            "2",
            "Invalid value 2.0 for configuration min.cleanable.dirty.ratio: Value must be no more than 1",
        ),
        (
            "cleanup.policy",
            Operation.APPEND,
            "x",
            "Invalid value x for configuration cleanup.policy: String must be one of: compact, delete",
        ),
        ("cleanup.policy", Operation.APPEND, "", "Configuration 'cleanup.policy' values must not be empty."),
        (
            "cleanup.policy",
            Operation.SET,
            "compact,,delete",
            "Configuration 'cleanup.policy' values must not be empty.",
        ),
        (
            "preallocate",
            Operation.SET,
            "yes",
            "Invalid value yes for configuration preallocate: Expected value to be either true or false",
        ),
        (
            "min.compaction.lag.ms",
            Operation.SET,
            "10",
            "conflict topic config setting min.compaction.lag.ms (10) > max.compaction.lag.ms (9)",
        ),
    ],
)
def test_a_refused_topic_setting_has_kafkas_message(name, operation, text, said):
    with pytest.raises(ConfigError) as caught:
        alter_topic_settings({"max.compaction.lag.ms": "9"}, [(name, operation, text)])
    assert caught.value.client_message == said
