"""Expected values, including codes and messages, are those of Apache Kafka."""

import pytest

from pipeline_broker.config.properties import broker_properties
from pipeline_broker.wire.codec import versions_of
from pipeline_broker.wire.messages.configs.describe_configs import DescribeConfigsRequest
from pipeline_broker.wire.messages.topics.create_topics import CreateTopicsRequest
from tests.apis.desk import Desk

Resource = DescribeConfigsRequest.DescribeConfigsResource
TOPIC, BROKER, LOGGER = 2, 4, 8
MALFORMED = "This most likely occurs because of a request being malformed by the client library"


@pytest.fixture
def desk():
    desk = Desk("num.partitions=4", "ssl.key.password=secret")
    own = [CreateTopicsRequest.CreatableTopicConfig("retention.ms", " 7 ")]
    topic = CreateTopicsRequest.CreatableTopic("t", 1, 1, [], own)
    desk.ask(CreateTopicsRequest(topics=[topic]), 7)
    return desk


def describe(desk, *resources, version=4, **more):
    wanted = [Resource(kind, name, keys) for kind, name, keys in resources]
    return desk.ask(DescribeConfigsRequest(resources=wanted, **more), version).results


def by_name(result):
    assert (result.error_code, result.error_message) == (0, "")
    return {config.name: config for config in result.configs}


@pytest.mark.parametrize("version", versions_of(DescribeConfigsRequest))
def test_a_topic_shows_all_its_settings_and_where_they_come_from(desk, version):
    (result,) = describe(desk, (TOPIC, "t", None), version=version, include_synonyms=True)
    assert (result.resource_type, result.resource_name, len(result.configs)) == (TOPIC, "t", 41)
    configs = by_name(result)
    own, inherited = configs["retention.ms"], configs["max.message.bytes"]
    assert (own.value, own.config_source, own.read_only, own.is_sensitive) == ("7", 1, False, False)
    assert (inherited.value, inherited.config_source) == ("1048588", 5)
    assert [(each.name, each.value, each.source) for each in own.synonyms] == [("retention.ms", "7", 1)]
    assert [(each.name, each.value, each.source) for each in inherited.synonyms] == [
        ("message.max.bytes", "1048588", 5)
    ]
    assert own.config_type == (5 if version >= 3 else 0)


def test_only_named_settings_are_shown_and_no_names_mean_all(desk):
    results = describe(
        desk, (TOPIC, "t", ["retention.ms", "no.such", "retention.ms"]), (TOPIC, "t", []), (BROKER, "1", ["nope"])
    )
    assert list(by_name(results[0])) == ["retention.ms"]
    assert [len(result.configs) for result in results] == [1, 41, 0]


def test_synonyms_and_documentation_are_sent_on_request_only(desk):
    (plain,) = describe(desk, (TOPIC, "t", ["retention.ms"]))
    assert (plain.configs[0].synonyms, plain.configs[0].documentation) == ([], None)
    wanted = (BROKER, "1", ["num.partitions", "log.preallocate"])
    (told,) = describe(desk, wanted, include_documentation=True)
    texts = {name: config.documentation for name, config in by_name(told).items()}
    assert texts["num.partitions"] == broker_properties()["num.partitions"].documentation
    assert texts["log.preallocate"] == "This broker stores this setting, but does not act on it."


def test_a_broker_shows_every_property_with_types_and_what_may_change(desk):
    (result,) = describe(desk, (BROKER, "1", None), include_synonyms=True)
    configs = by_name(result)
    assert set(configs) == set(broker_properties())
    static, free = configs["num.partitions"], configs["log.flush.interval.ms"]
    assert (static.value, static.config_source, static.read_only) == ("4", 4, True)
    assert [(each.value, each.source) for each in static.synonyms] == [("4", 4), ("1", 5)]
    assert (free.value, free.config_source, free.read_only, free.synonyms) == (None, 5, False, [])
    kinds = {
        "auto.create.topics.enable": 1,
        "message.max.bytes": 3,
        "broker.rack": 2,
        "offsets.topic.replication.factor": 4,
        "connections.max.idle.ms": 5,
        "log.cleaner.min.cleanable.ratio": 6,
        "log.cleanup.policy": 7,
        "create.topic.policy.class.name": 8,
        "ssl.key.password": 9,
    }
    assert {name: configs[name].config_type for name in kinds} == kinds


def test_a_secret_is_never_shown(desk):
    (result,) = describe(desk, (BROKER, "1", ["ssl.key.password"]), include_synonyms=True)
    (config,) = result.configs
    assert (config.value, config.is_sensitive, config.config_source) == (None, True, 4)
    assert [(each.value, each.source) for each in config.synonyms] == [(None, 4)]


@pytest.mark.parametrize(
    ("kind", "name", "code", "message"),
    [
        (TOPIC, "z", 3, ""),
        (TOPIC, "", 17, "Topic name is invalid: the empty string is not allowed"),
        (BROKER, "2", 42, "Unexpected broker id, expected 1 or empty string, but received 2"),
        (BROKER, " 1", 42, "Broker id must be an integer, but it is:  1"),
        (LOGGER, "2", 42, "Unexpected broker id, expected 1 but received 2"),
        (LOGGER, "", 42, "Broker id must not be empty"),
    ],
)
def test_an_unknown_resource_is_refused_alone(desk, kind, name, code, message):
    refused, other = describe(desk, (kind, name, None), (TOPIC, "t", ["retention.ms"]))
    assert (refused.error_code, refused.error_message, refused.configs) == (code, message, [])
    assert len(by_name(other)) == 1


@pytest.mark.parametrize("kind", [0, 1, 3, 7, -1])
def test_an_unknown_type_refuses_the_whole_request(desk, kind):
    results = describe(desk, (kind, "x", None), (TOPIC, "t", None))
    assert [(result.error_code, result.configs) for result in results] == [(42, []), (42, [])]
    assert all(result.error_message.startswith(MALFORMED) for result in results)


def test_empty_defaults_and_empty_requests_have_empty_answers(desk):
    assert by_name(describe(desk, (BROKER, "", None))[0]) == {}
    assert describe(desk) == []
