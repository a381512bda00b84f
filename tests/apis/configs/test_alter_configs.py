"""AlterConfigs, and settings of groups and subscriptions; codes and messages are those of Apache Kafka."""

import pytest

from pipeline_broker.config.resources import RESOURCE_KINDS
from pipeline_broker.wire.messages.configs.alter_configs import AlterConfigsRequest
from pipeline_broker.wire.messages.configs.describe_configs import DescribeConfigsRequest
from pipeline_broker.wire.messages.configs.incremental_alter_configs import IncrementalAlterConfigsRequest
from pipeline_broker.wire.messages.configs.list_config_resources import ListConfigResourcesRequest
from pipeline_broker.wire.messages.topics.create_topics import CreateTopicsRequest
from tests.apis.desk import Desk

TOPIC, BROKER, LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32
SET, DELETE, APPEND, SUBTRACT = range(4)
OK = (0, None)


@pytest.fixture
def desk():
    desk = Desk()
    desk.ask(CreateTopicsRequest([CreateTopicsRequest.CreatableTopic("t", 1, 1)], 1000), 5)
    return desk


def alter(desk, *resources, validate_only=False, version=2):
    request = AlterConfigsRequest
    wanted = [
        request.AlterConfigsResource(kind, name, [request.AlterableConfig(*pair) for pair in settings.items()])
        for kind, name, settings in resources
    ]
    responses = desk.ask(request(wanted, validate_only), version).responses
    return [(each.error_code, each.error_message) for each in responses]


def change(desk, kind, name, *configs, validate_only=False):
    request = IncrementalAlterConfigsRequest
    wanted = request.AlterConfigsResource(kind, name, [request.AlterableConfig(*config) for config in configs])
    (response,) = desk.ask(request([wanted], validate_only), 1).responses
    return response.error_code, response.error_message


def described(desk, kind, name):
    resource = DescribeConfigsRequest.DescribeConfigsResource(kind, name, None)
    (result,) = desk.ask(DescribeConfigsRequest([resource], include_synonyms=True), 4).results
    assert result.error_code == 0, result.error_message
    return {each.name: each for each in result.configs}


def values(desk, kind, name, source):
    return {each.name: each.value for each in described(desk, kind, name).values() if each.config_source == source}


def test_a_setting_that_is_not_durable_yet_returns_to_its_default_too(desk):
    made = AlterConfigsRequest
    requests = [
        made([made.AlterConfigsResource(TOPIC, "t", [made.AlterableConfig(name, "5000")])])
        for name in ("retention.ms", "segment.ms")
    ]
    decided = [desk.decide(request, 2) for request in requests]
    for request, result in zip(requests, decided, strict=True):
        desk.finish(request, 2, result)
    assert values(desk, TOPIC, "t", 1) == {"segment.ms": "5000"}


@pytest.mark.parametrize("version", [0, 1, 2])
def test_a_setting_that_is_not_named_returns_to_its_default(desk, version):
    assert alter(desk, (TOPIC, "t", {"retention.ms": "1000", "segment.ms": "5"}), version=version) == [OK]
    assert alter(desk, (TOPIC, "t", {"retention.ms": "2000"}), version=version) == [OK]
    assert values(desk, TOPIC, "t", 1) == {"retention.ms": "2000"}
    assert alter(desk, (TOPIC, "t", {}), version=version) == [OK]
    assert values(desk, TOPIC, "t", 1) == {}


def test_settings_of_the_broker_are_replaced_too(desk):
    assert alter(desk, (BROKER, "1", {"num.io.threads": "9", "background.threads": "11"})) == [OK]
    assert alter(desk, (BROKER, "1", {"num.io.threads": "10"})) == [OK]
    assert values(desk, BROKER, "1", 2) == {"num.io.threads": "10"}
    assert desk.broker.config.background_threads == 10


def test_validation_changes_nothing(desk):
    assert alter(desk, (TOPIC, "t", {"retention.ms": "1"}), (GROUP, "g", {}), validate_only=True) == [OK, OK]
    assert values(desk, TOPIC, "t", 1) == {}


REQUEST, CONFIG, UNKNOWN = 42, 40, 3


@pytest.mark.parametrize(
    ("resource", "code", "text"),
    [
        ((TOPIC, "t", {"no.such": "1"}), CONFIG, "Unknown topic config name: no.such"),
        ((TOPIC, "t", {"retention.ms": None}), REQUEST, "Null value not supported for : retention.ms"),
        ((TOPIC, "missing", {"retention.ms": "1"}), UNKNOWN, "The topic 'missing' does not exist."),
        ((TOPIC, "missing", {"no.such": "1"}), CONFIG, "Unknown topic config name: no.such"),
        ((TOPIC, "", {}), REQUEST, "Default topic resources are not allowed."),
        ((LOGGER, "1", {"root": "INFO"}), REQUEST, "Unknown resource type 8"),
        ((99, "1", {}), REQUEST, "Unknown resource type 99"),
        ((BROKER, "1", {"node.id": "9"}), REQUEST, "Cannot update these configs dynamically: [node.id]"),
        ((BROKER, "2", {}), REQUEST, "Unexpected broker id, expected 1, but received 2"),
        ((BROKER, "x", {}), REQUEST, "Node id must be an integer, but it is: x"),
        ((CLIENT_METRICS, "", {}), REQUEST, "Subscription name can't be empty"),
        ((CLIENT_METRICS, "s", {"no.such": "1"}), REQUEST, "Unknown client metrics configuration: no.such"),
        ((GROUP, "", {}), REQUEST, "Default group resources are not allowed."),
        ((GROUP, "g", {"no.such": "1"}), CONFIG, "Unknown group config name: no.such"),
        # names before values
        ((TOPIC, "t", {"retention.ms": "x", "no.such": "1"}), CONFIG, "Unknown topic config name: no.such"),
        (
            (CLIENT_METRICS, "s", {"interval.ms": "x", "no.such": "1"}),
            REQUEST,
            "Unknown client metrics configuration: no.such",
        ),
        (
            (GROUP, "g", {"consumer.session.timeout.ms": "x", "no.such": "1"}),
            CONFIG,
            "Unknown group config name: no.such",
        ),
    ],
)
def test_refusals_and_their_messages_are_kafkas(desk, resource, code, text):
    assert alter(desk, resource) == [(code, text)]


def test_a_resource_that_is_named_twice_is_refused_both_times(desk):
    """Apache Kafka never answers this request."""
    twice = (REQUEST, "Each resource must appear at most once.")
    assert alter(desk, (TOPIC, "t", {}), (TOPIC, "t", {}), (GROUP, "g", {})) == [twice, twice, OK]


NOT_A_LIST = "because its type is not LIST."
NO_OFFSET_RESET = (
    "Invalid value never for configuration share.auto.offset.reset: Invalid value `never` for configuration"
    " share.auto.offset.reset. The value must be either 'earliest', 'latest' or of the format"
    " 'by_duration:<PnDTnHnMn.nS>'."
)


@pytest.mark.parametrize(
    ("kind", "config", "code", "text"),
    [
        (
            CLIENT_METRICS,
            ("interval.ms", SET, "99"),
            REQUEST,
            "Invalid value 99 for interval.ms, interval must be between 100 and 3600000 (1 hour)",
        ),
        (
            CLIENT_METRICS,
            ("interval.ms", SET, "x"),
            CONFIG,
            "Invalid value x for configuration interval.ms: Not a number of type INT",
        ),
        (CLIENT_METRICS, ("metrics", APPEND, "a"), CONFIG, f"Can't APPEND to key metrics {NOT_A_LIST}"),
        (CLIENT_METRICS, ("metrics", SUBTRACT, "a"), CONFIG, f"Can't SUBTRACT to key metrics {NOT_A_LIST}"),
        (CLIENT_METRICS, ("match", SET, "client_id=["), CONFIG, "Illegal client matching pattern: client_id=["),
        (CLIENT_METRICS, ("match", SET, "rack=1"), CONFIG, "Illegal client matching pattern: rack=1"),
        (CLIENT_METRICS, ("interval.ms", 9, "1"), -1, None),
        (
            GROUP,
            ("consumer.session.timeout.ms", SET, "1"),
            CONFIG,
            "consumer.session.timeout.ms must be greater than or equal to group.consumer.min.session.timeout.ms",
        ),
        (
            GROUP,
            ("consumer.session.timeout.ms", SET, "60001"),
            CONFIG,
            "consumer.session.timeout.ms must be less than or equal to group.consumer.max.session.timeout.ms",
        ),
        (
            GROUP,
            ("share.record.lock.duration.ms", SET, "1"),
            CONFIG,
            "Invalid value 1 for configuration share.record.lock.duration.ms: Value must be at least 1000",
        ),
        *(
            (
                GROUP,
                (f"share.{name}", SET, value),
                CONFIG,
                f"share.{name} must be less than or equal to group.share.max.{name}",
            )
            for name, value in (
                ("assignment.interval.ms", "15001"),
                ("delivery.count.limit", "11"),
                ("heartbeat.interval.ms", "15001"),
                ("partition.max.record.locks", "10001"),
                ("record.lock.duration.ms", "3600001"),
                ("session.timeout.ms", "60001"),
            )
        ),
        (
            GROUP,
            ("share.session.timeout.ms", SET, "1"),
            CONFIG,
            "share.session.timeout.ms must be greater than or equal to group.share.min.session.timeout.ms",
        ),
        (
            GROUP,
            ("share.auto.offset.reset", SET, "never"),
            CONFIG,
            NO_OFFSET_RESET,
        ),
        (
            GROUP,
            ("errors.deadletterqueue.topic.name", SET, "__g"),
            CONFIG,
            "errors.deadletterqueue.topic.name: DLQ topic name must not start with '__'",
        ),
        (
            GROUP,
            ("errors.deadletterqueue.copy.record.enable", SET, "true"),
            CONFIG,
            "errors.deadletterqueue.copy.record.enable: this broker writes only headers to dead-letter queues",
        ),
    ],
)
def test_invalid_values_of_groups_and_subscriptions_are_refused(desk, kind, config, code, text):
    assert change(desk, kind, "x", config) == (code, text)
    assert not desk.broker.dynamic_settings.names(RESOURCE_KINDS[kind].key)


@pytest.mark.parametrize("value", ["earliest", "latest", "by_duration:PT1H", "by_duration:P1DT2H3M4.5S"])
def test_valid_offset_resets_of_share_groups(desk, value):
    assert change(desk, GROUP, "g", ("share.auto.offset.reset", SET, value)) == OK


def test_settings_of_groups_and_subscriptions_survive_a_restart(desk):
    assert change(desk, GROUP, "g", ("consumer.session.timeout.ms", SET, "50000")) == OK
    assert change(desk, CLIENT_METRICS, "s", ("metrics", SET, "a.b, c")) == OK
    for each in (desk, desk.restart()):
        assert values(each, GROUP, "g", 8) == {"consumer.session.timeout.ms": "50000"}
        assert values(each, CLIENT_METRICS, "s", 7) == {"metrics": "a.b,c"}


def test_a_description_says_where_each_value_comes_from(desk):
    change(desk, GROUP, "g", ("consumer.session.timeout.ms", SET, "50000"))
    shown = described(desk, GROUP, "g")
    assert [(each.name, each.value, each.source) for each in shown["consumer.session.timeout.ms"].synonyms] == [
        ("consumer.session.timeout.ms", "50000", 8),
        ("group.consumer.session.timeout.ms", "45000", 5),
    ]
    assert [each.name for each in shown["share.isolation.level"].synonyms] == ["share.isolation.level"]
    assert described(desk, CLIENT_METRICS, "none")["interval.ms"].synonyms == []


def listed(desk, *kinds):
    answer = desk.ask(ListConfigResourcesRequest(list(kinds)), 1)
    return answer.error_code, [(each.resource_type, each.resource_name) for each in answer.config_resources]


def test_resources_with_settings_are_listed(desk):
    assert listed(desk) == (0, [(TOPIC, "t"), (BROKER, "1"), (LOGGER, "1")])
    change(desk, GROUP, "g", ("consumer.session.timeout.ms", SET, "50000"))
    change(desk, CLIENT_METRICS, "s", ("metrics", SET, "*"))
    assert listed(desk, CLIENT_METRICS, GROUP) == (0, [(CLIENT_METRICS, "s"), (GROUP, "g")])
    change(desk, GROUP, "g", ("consumer.session.timeout.ms", DELETE, None))
    assert listed(desk, GROUP, GROUP) == (0, [])
    assert listed(desk, TOPIC, 99) == (35, [])
    old = desk.ask(ListConfigResourcesRequest(), 0)
    assert [each.resource_name for each in old.config_resources] == ["s"]
