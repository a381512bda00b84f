"""Expected values, including codes and messages, are those of Apache Kafka."""

import pytest

from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.records.batch import NewRecord, build_batch
from pipeline_broker.wire.codec import versions_of
from pipeline_broker.wire.messages.configs.describe_configs import DescribeConfigsRequest
from pipeline_broker.wire.messages.configs.incremental_alter_configs import IncrementalAlterConfigsRequest
from pipeline_broker.wire.messages.data.produce import ProduceRequest
from pipeline_broker.wire.messages.topics.create_topics import CreateTopicsRequest
from tests.apis.desk import Desk

Config = IncrementalAlterConfigsRequest.AlterableConfig
Resource = IncrementalAlterConfigsRequest.AlterConfigsResource
TOPIC, BROKER, LOGGER, GROUP = 2, 4, 8, 32
SET, DELETE, APPEND, SUBTRACT = range(4)
T, B, ALL = (TOPIC, "t"), (BROKER, "1"), (BROKER, "")


@pytest.fixture
def desk():
    desk = Desk("num.io.threads=4")
    desk.ask(CreateTopicsRequest(topics=[CreateTopicsRequest.CreatableTopic(name, 1, 1) for name in ("t", "u")]), 7)
    return desk


def alter(desk, *resources, version=1, validate_only=False):
    """Resources are (resource, *changes), a change (name, operation, value)."""
    wanted = [Resource(*resource, [Config(*change) for change in changes]) for resource, *changes in resources]
    request = IncrementalAlterConfigsRequest(resources=wanted, validate_only=validate_only)
    responses = desk.ask(request, version).responses
    assert [(each.resource_type, each.resource_name) for each in responses] == [resource for resource, *_ in resources]
    return [(each.error_code, each.error_message) for each in responses]


def shown(desk, resource, name):
    """Value, source and synonyms of one setting."""
    wanted = DescribeConfigsRequest.DescribeConfigsResource(*resource, [name])
    (result,) = desk.ask(DescribeConfigsRequest(resources=[wanted], include_synonyms=True), 4).results
    (config,) = result.configs
    return config.value, config.config_source, [(each.name, each.value, each.source) for each in config.synonyms]


def produce(desk, value, key=None):
    data = ProduceRequest.PartitionProduceData(index=0, records=build_batch([NewRecord(value, key, desk.now_ms)]))
    request = ProduceRequest(acks=-1, topic_data=[ProduceRequest.TopicProduceData(name="t", partition_data=[data])])
    return desk.ask(request, 9).responses[0].partition_responses[0].error_code


def test_a_list_grows_until_it_is_as_long_as_a_string_may_be(desk):
    name, (half, other) = "leader.replication.throttled.replicas", ("1:" + "1" * 16_381, "2:" + "2" * 16_381)
    assert alter(desk, (T, (name, SET, half))) == [(0, None)]
    too_long = "The configuration value cannot be added because it exceeds the maximum value size of 32767 bytes."
    assert alter(desk, (T, (name, APPEND, other + "2"))) == [(ErrorCode.INVALID_CONFIG, too_long)]
    assert alter(desk, (T, (name, APPEND, other))) == [(0, None)]
    assert shown(desk, T, name)[0] == f"{half},{other}"
    assert alter(desk, (T, (name, APPEND, "3:3"))) == [(ErrorCode.INVALID_CONFIG, too_long)]


@pytest.mark.parametrize(
    ("resource", "names"),
    [
        (T, ("retention.ms", "max.message.bytes")),
        (B, ("log.retention.ms", "message.max.bytes")),
        (ALL, ("log.retention.ms", "message.max.bytes")),
        ((GROUP, "g"), ("consumer.session.timeout.ms", "consumer.heartbeat.interval.ms")),
    ],
)
def test_a_change_builds_on_an_undurable_one(desk, resource, names):
    values = ("50000", "6000")
    requests = [
        IncrementalAlterConfigsRequest(resources=[Resource(*resource, [Config(name, SET, value)])])
        for name, value in zip(names, values, strict=True)
    ]
    decided = [desk.decide(request, 1) for request in requests]
    for request, result in zip(requests, decided, strict=True):
        assert desk.finish(request, 1, result).responses[0].error_code == 0
    assert tuple(shown(desk, resource, name)[0] for name in names) == values


@pytest.mark.parametrize("version", versions_of(IncrementalAlterConfigsRequest))
def test_a_topic_setting_is_set_and_deleted(desk, version):
    assert alter(desk, (T, ("max.message.bytes", SET, " 90 ")), version=version) == [(0, None)]
    assert shown(desk, T, "max.message.bytes")[:2] == ("90", 1)
    again = desk.restart()
    assert shown(again, T, "max.message.bytes")[:2] == ("90", 1)
    assert alter(again, (T, ("max.message.bytes", DELETE, None)), version=version) == [(0, None)]
    assert shown(again, T, "max.message.bytes")[:2] == ("1048588", 5)


def test_a_topics_setting_acts_on_the_next_batch(desk):
    assert produce(desk, b"x" * 100) == 0
    alter(desk, (T, ("max.message.bytes", SET, "90"), ("cleanup.policy", APPEND, "compact")))
    assert produce(desk, b"x" * 100, b"k") == ErrorCode.MESSAGE_TOO_LARGE
    assert produce(desk, b"x") == ErrorCode.INVALID_RECORD
    assert produce(desk, b"x", b"k") == 0


def test_lists_are_appended_to_and_subtracted_from(desk):
    for operation, value, expected in [
        (APPEND, "compact", "delete,compact"),
        (APPEND, "compact,delete", "delete,compact"),
        (SUBTRACT, "delete", "compact"),
        (SUBTRACT, "zzz", "compact"),
        (SUBTRACT, "compact", ""),
    ]:
        assert alter(desk, (T, ("cleanup.policy", operation, value))) == [(0, None)]
        assert shown(desk, T, "cleanup.policy")[0] == expected


@pytest.mark.parametrize(
    ("change", "code", "message"),
    [
        (
            ("retention.ms", SET, "soon"),
            40,
            "Invalid value soon for configuration retention.ms: Not a number of type LONG",
        ),
        (("no.such", SET, "1"), 40, "Unknown topic config name: no.such"),
        (("no.such", APPEND, "1"), 40, "Can't APPEND to key no.such because its type is not LIST."),
        (("retention.ms", SUBTRACT, "1"), 40, "Can't SUBTRACT to key retention.ms because its type is not LIST."),
        (("retention.ms", SET, None), 42, "Null value not supported for : retention.ms"),
        (("retention.ms", 4, "1"), -1, None),
        (("no.such", DELETE, None), 0, None),
    ],
)
def test_an_invalid_topic_setting_is_refused_alone(desk, change, code, message):
    both = alter(desk, (T, ("retention.bytes", SET, "1"), change), ((TOPIC, "u"), ("retention.bytes", SET, "5")))
    assert both == [(code, message), (0, None)]
    assert shown(desk, T, "retention.bytes")[0] == ("1" if code == 0 else "-1")
    assert shown(desk, (TOPIC, "u"), "retention.bytes")[0] == "5"


@pytest.mark.parametrize(
    ("resource", "code", "message"),
    [
        ((TOPIC, "z"), 40, "Unknown topic config name: log.retention.ms"),
        ((TOPIC, ""), 42, "Default topic resources are not allowed."),
        ((BROKER, "2"), 42, "Unexpected broker id, expected 1, but received 2"),
        ((BROKER, "x"), 42, "Node id must be an integer, but it is: x"),
        ((LOGGER, "1"), 40, "Logger log.retention.ms does not exist!"),
        ((LOGGER, "2"), 42, "Unexpected node id. Expected 1, but received 2"),
        ((0, "x"), 42, "Unknown resource type 0"),
        ((7, "x"), 42, "Unknown resource type 7"),
    ],
)
def test_an_unknown_resource_is_refused_alone(desk, resource, code, message):
    both = alter(desk, (resource, ("log.retention.ms", SET, "1")), (T, ("retention.ms", SET, "5")))
    assert both == [(code, message), (0, None)]


def test_the_settings_of_a_missing_topic_are_checked_before_the_topic(desk):
    assert alter(desk, ((TOPIC, "z"), ("retention.ms", SET, "5"))) == [(3, "The topic 'z' does not exist.")]
    (refused,) = alter(desk, ((TOPIC, "z"), ("retention.ms", SET, "-2")))
    assert refused[0] == 40


def test_a_duplicate_resource_is_refused(desk):
    assert alter(desk, (T, ("retention.ms", SET, "1")), (T, ("retention.bytes", SET, "1")), ((TOPIC, "u"),)) == [
        (42, "Each resource must appear at most once."),
        (42, "Each resource must appear at most once."),
        (0, None),
    ]
    twice = (("retention.ms", SET, None), ("retention.ms", DELETE, None))
    assert alter(desk, (T, *twice)) == [(42, "Error due to duplicate config keys")]


@pytest.mark.parametrize("resource", [T, B])
def test_validate_only_changes_nothing(desk, resource):
    name = "retention.ms" if resource is T else "log.retention.ms"
    before = shown(desk, resource, name)
    assert alter(desk, (resource, (name, SET, "5")), validate_only=True) == [(0, None)]
    assert alter(desk, (resource, (name, SET, "x")), validate_only=True)[0][0] == (40 if resource is T else 42)
    assert shown(desk, resource, name) == before


def test_a_broker_setting_overrides_the_default_and_topics_inherit_it(desk):
    alter(desk, (ALL, ("log.retention.ms", SET, "200"), ("message.max.bytes", SET, "90")))
    alter(desk, (B, ("log.retention.ms", SET, "100")))
    for each in (desk, desk.restart()):
        layers = [("log.retention.ms", "100", 2), ("log.retention.ms", "200", 3), ("log.retention.hours", "168", 5)]
        assert shown(each, B, "log.retention.ms") == ("100", 2, layers)
        assert shown(each, T, "retention.ms") == ("100", 2, layers)
        assert shown(each, ALL, "log.retention.ms") == ("200", 3, [("log.retention.ms", "200", 3)])
        assert each.broker.logs.find("t", 0).rules.size_max == 90


def test_inherited_settings_are_cached_until_they_change(desk):
    before = desk.broker.settings
    shown(desk, T, "retention.ms")
    assert desk.broker.settings is before
    for changed, value in ((ALL, "200"), (B, "100")):
        alter(desk, (changed, ("log.retention.ms", SET, value)))
        assert shown(desk, T, "retention.ms")[0] == value
    alter(desk, (B, ("log.retention.ms", DELETE, None)), (ALL, ("log.retention.ms", DELETE, None)))
    assert shown(desk, T, "retention.ms")[0] == "604800000"


def test_a_change_of_the_broker_acts_on_batches_and_on_its_configuration(desk):
    alter(desk, (ALL, ("message.max.bytes", SET, "90")), (B, ("max.connections", SET, "7")))
    assert produce(desk, b"x" * 100) == ErrorCode.MESSAGE_TOO_LARGE
    assert [config.max_connections for config in desk.configs_seen] == [2**31 - 1, 7]
    again = desk.restart()
    assert again.broker.config.max_connections == 7
    alter(again, (B, ("max.connections", DELETE, None)))
    assert again.broker.config.max_connections == 2**31 - 1


@pytest.mark.parametrize(
    ("resource", "changes", "code", "message"),
    [
        (
            B,
            [("num.partitions", SET, "3"), ("auto.create.topics.enable", SET, "true")],
            42,
            "Cannot update these configs dynamically: [num.partitions, auto.create.topics.enable]",
        ),
        (ALL, [("num.partitions", SET, "3")], 42, "Cannot update these configs dynamically: [num.partitions]"),
        (B, [("num.partitions", DELETE, None)], 0, None),
        (B, [("num.partitions", SET, None)], 42, "Null value not supported for : num.partitions"),
        (
            B,
            [("log.retention.ms", SET, "soon")],
            42,
            "Invalid value soon for configuration log.retention.ms: Not a number of type LONG",
        ),
        (
            B,
            [("log.retention.ms", APPEND, "1")],
            40,
            "Config value append is not allowed for config key: log.retention.ms",
        ),
        (B, [("log.retention.ms", 7, "1")], 42, "Unknown operations type 7"),
        (
            B,
            [("max.connections.per.ip", SET, "0")],
            42,
            (
                "requirement failed: max.connections.per.ip can be set to zero only if max.connections.per.ip.overrides"
                " property is set."
            ),
        ),
    ],
)
def test_an_invalid_broker_setting_is_refused(desk, resource, changes, code, message):
    assert alter(desk, (resource, *changes)) == [(code, message)]


@pytest.mark.parametrize(
    ("threads", "refused"),
    [
        ("8", None),
        ("9", "value should not be greater than double"),
        ("2", None),
        ("1", "value should be at least half"),
    ],
)
def test_threads_at_most_double_or_halve_at_once(desk, threads, refused):
    ((code, message),) = alter(desk, (B, ("num.io.threads", SET, threads)))
    assert code == (42 if refused else 0)
    assert (message or "").find(refused or "") >= 0


def test_super_users_are_read_at_startup_and_a_change_is_refused(desk):
    """Kafka stores the change without an error and keeps the super users of its startup, even after the next one."""
    said = "Cannot update these configs dynamically: [super.users]"
    assert alter(desk, (B, ("super.users", SET, "User:mallory"))) == [(42, said)]
    assert alter(desk, (ALL, ("super.users", SET, "User:mallory")), validate_only=True) == [(42, said)]
    assert desk.broker.dynamic_settings.settings(("broker", "1")) == {}
    assert alter(desk, (B, ("super.users", DELETE, None))) == [(0, None)]


def test_unknown_names_are_kept_for_plugins_and_shown_as_secrets(desk, caplog):
    assert alter(desk, (B, ("no.such", SET, "1"))) == [(0, None)]
    assert shown(desk, B, "no.such") == (None, 2, [("no.such", None, 2)])
    assert [record.getMessage() for record in caplog.records] == ["no.such is stored, but Kafka has no such property"]


def test_contradicting_settings_are_ignored_at_startup(desk, caplog):
    alter(desk, (B, ("max.connections.per.ip.overrides", SET, "h:1"), ("max.connections.per.ip", SET, "0")))
    write = desk.broker.dynamic_settings.alter(desk.broker.layers.key(for_all=False), {"max.connections.per.ip": "0"})
    desk.commit([desk.broker.append_metadata(write, 0)])
    again = desk.restart()
    assert again.broker.config.max_connections_per_ip == 2**31 - 1
    assert "are ignored" in caplog.text


def test_a_setting_is_checked_against_undurable_ones_of_the_other_layer(desk):
    count, overrides = "max.connections.per.ip", "max.connections.per.ip.overrides"
    assert alter(desk, (ALL, (overrides, SET, "127.0.0.1:5"))) == [(0, None)]
    resource = Resource(*ALL, [Config(overrides, DELETE, None)])
    on_its_way = desk.decide(IncrementalAlterConfigsRequest(resources=[resource]), 1)
    ((code, _),) = alter(desk, (B, (count, SET, "0")))
    assert code == ErrorCode.INVALID_REQUEST
    desk.submit(on_its_way.entries, on_its_way.on_durable)
    assert shown(desk, B, overrides)[0] == ""
