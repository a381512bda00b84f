"""Expected values, including codes and messages, are those of Apache Kafka."""

import pytest

from pipeline_broker.apis.call import Call
from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.wire.codec import versions_of
from pipeline_broker.wire.messages.topics.create_topics import CreateTopicsRequest
from pipeline_broker.wire.messages.topics.metadata import MetadataRequest
from pipeline_broker.wire.primitives import STRING_SIZE_MAX, EncodeError
from tests.apis.desk import Desk

Topic = CreateTopicsRequest.CreatableTopic
Placed = CreateTopicsRequest.CreatableReplicaAssignment
Config = CreateTopicsRequest.CreatableTopicConfig


@pytest.fixture
def desk():
    return Desk("num.partitions=4")


def create(desk, *topics, version=7, **more):
    return desk.ask(CreateTopicsRequest(topics=list(topics), **more), version).topics


def cannot_be_written(*_):
    raise EncodeError("a mistake of ours")


def outcome(result):
    return (result.name, result.error_code, result.error_message)


def names(desk):
    return {topic.name: len(topic.partitions) for topic in desk.ask(MetadataRequest(topics=None), 12).topics}


@pytest.mark.parametrize("version", versions_of(CreateTopicsRequest))
def test_a_topic_can_be_used_when_its_creation_is_answered(desk, version):
    (result,) = create(desk, Topic("t", -1, -1), version=version)
    assert outcome(result) == ("t", 0, None)
    assert desk.broker.logs.find("t", 3) is not None
    assert desk.broker.logs.find("t", 4) is None
    topic = desk.broker.topics.get("t")
    assert result.topic_id == (topic.topic_id if version >= 7 else bytes(16))
    assert (result.num_partitions, result.replication_factor) == ((4, 1) if version >= 5 else (-1, -1))
    assert len(result.configs) == (41 if version >= 5 else 0)


def test_nothing_is_shown_before_it_is_durable(desk):
    request = CreateTopicsRequest(topics=[Topic("t", 1, 1)])
    pending = desk.decide(request, 7)
    assert names(desk) == {}
    assert outcome(create(desk, Topic("t", 1, 1))[0]) == ("t", 36, "Topic 't' already exists.")
    desk.finish(request, 7, pending)
    assert names(desk) == {"t": 1}


@pytest.mark.parametrize("version", versions_of(CreateTopicsRequest))
def test_a_name_as_long_as_a_string_may_be_is_refused_alone(desk, version):
    longest = "x" * STRING_SIZE_MAX
    made, refused = create(desk, Topic("t", 1, 1), Topic(longest, 1, 1), version=version)
    assert outcome(made) == ("t", 0, None)
    assert (refused.name, refused.error_code) == (longest, ErrorCode.INVALID_TOPIC_EXCEPTION)
    assert refused.error_message.startswith("Topic name is invalid: the length of 'xxx")
    assert names(desk) == {"t": 1}


def test_a_topic_is_created_although_its_answer_fails(desk, monkeypatch):
    monkeypatch.setattr(Call, "send", cannot_be_written)
    steps = desk.decide(CreateTopicsRequest(topics=[Topic("t", 1, 1)]), 7)
    with pytest.raises(EncodeError):
        desk.do_steps(steps)
    monkeypatch.undo()
    assert names(desk) == {"t": 1}
    assert outcome(create(desk, Topic("t", 1, 1))[0]) == ("t", 36, "Topic 't' already exists.")


def test_topics_and_their_settings_survive_a_restart(desk):
    create(desk, Topic("t", 2, 1, [], [Config("max.message.bytes", "100")]))
    again = desk.restart()
    assert names(again) == {"t": 2}
    assert again.broker.logs.find("t", 1).rules.size_max == 100


def test_validate_only_answers_the_same_and_creates_nothing(desk):
    (result,) = create(desk, Topic("t", 3, 1), validate_only=True)
    assert (result.error_code, result.num_partitions, len(result.configs)) == (0, 3, 41)
    assert names(desk) == {}


def test_a_topic_named_twice_is_refused_once_and_others_are_created(desk):
    results = create(desk, Topic("d", 1, 1), Topic("d", 2, 1), Topic("e", 1, 1), Topic("d", 1, 1))
    assert [outcome(result) for result in results] == [("e", 0, None), ("d", 42, "Duplicate topic name.")]
    assert names(desk) == {"e": 1}


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("", "the empty string is not allowed"),
        (".", "'.' is not allowed"),
        ("..", "'..' is not allowed"),
        ("a b", "'a b' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"),
        ("é", "'é' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"),
        ("x" * 250, f"the length of '{'x' * 250}' is longer than the max allowed length 249"),
    ],
)
def test_a_name_that_no_topic_may_have_is_refused_before_anything_else(desk, name, reason):
    (result,) = create(desk, Topic(name, 0, 5, [], [Config("no.such", "5")]))
    assert outcome(result) == (name, 17, f"Topic name is invalid: {reason}")


def test_names_that_metrics_cannot_tell_apart_collide(desk):
    """Case 65."""
    create(desk, Topic("a.b", 1, 1))
    (result,) = create(desk, Topic("a_b", 1, 1))
    assert outcome(result) == ("a_b", 17, "Topic 'a_b' collides with existing topic: a.b")


@pytest.mark.parametrize("name", ["__consumer_offsets", "__transaction_state", "__share_group_state"])
def test_internal_topics_may_be_created(desk, name):
    assert create(desk, Topic(name, 1, 1))[0].error_code == 0
    assert desk.ask(MetadataRequest(topics=None), 12).topics[0].is_internal


def test_the_brokers_own_partition_is_no_topic(desk):
    (result,) = create(desk, Topic("__cluster_metadata", 1, 1))
    assert outcome(result)[1:] == (42, "Creation of internal topic __cluster_metadata is prohibited.")


@pytest.mark.parametrize(
    ("partitions", "factor", "code", "start"),
    [
        (0, 1, ErrorCode.INVALID_PARTITIONS, "Number of partitions was set to an invalid non-positive value."),
        (-2, 1, ErrorCode.INVALID_PARTITIONS, "Number of partitions was set to an invalid non-positive value."),
        (1, 0, ErrorCode.INVALID_REPLICATION_FACTOR, "Replication factor must be larger than 0, or -1 to use the"),
        (1, 2, ErrorCode.INVALID_REPLICATION_FACTOR, "Unable to replicate the partition 2 time(s): The target"),
    ],
)
def test_invalid_counts_are_refused(desk, partitions, factor, code, start):
    (result,) = create(desk, Topic("t", partitions, factor))
    assert result.error_code == code
    assert result.error_message.startswith(start)
    assert (result.num_partitions, result.replication_factor, result.configs) == (-1, -1, [])


@pytest.mark.parametrize(
    ("partitions", "factor", "placed", "code", "message"),
    [
        (-1, -1, [(0, [1]), (1, [1])], 0, None),
        (2, -1, [(0, [1])], 42, "A manual partition assignment was specified, but numPartitions was not set to -1."),
        (
            -1,
            1,
            [(0, [1])],
            42,
            "A manual partition assignment was specified, but replication factor was not set to -1.",
        ),
        (-1, -1, [(1, [1])], 39, "partitions should be a consecutive 0-based integer sequence"),
        (
            -1,
            -1,
            [(0, [2])],
            39,
            "The manual partition assignment includes broker 2, but no such broker is registered.",
        ),
        (-1, -1, [(0, [])], 39, "The manual partition assignment includes an empty replica list."),
        (-1, -1, [(0, [1, 1])], 39, "The manual partition assignment includes the broker 1 more than once."),
        (-1, -1, [(0, [1]), (0, [1])], 39, "Found multiple manual partition assignments for partition 0"),
    ],
)
def test_manual_assignments_must_be_complete_and_name_this_broker(desk, partitions, factor, placed, code, message):
    (result,) = create(desk, Topic("t", partitions, factor, [Placed(index, brokers) for index, brokers in placed]))
    assert outcome(result) == ("t", code, message)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("no.such", "5", "Unknown topic config name: no.such"),
        ("", "5", "Unknown topic config name: "),
        ("retention.ms", "soon", "Invalid value soon for configuration retention.ms: Not a number of type LONG"),
        ("retention.ms", None, "Null value not supported for topic configs: retention.ms"),
        (
            "cleanup.policy",
            "x",
            "Invalid value x for configuration cleanup.policy: String must be one of: compact, delete",
        ),
        ("max.message.bytes", "-1", "Invalid value -1 for configuration max.message.bytes: Value must be at least 0"),
    ],
)
def test_wrong_settings_are_refused_before_wrong_counts(desk, name, value, message):
    (result,) = create(desk, Topic("t", 0, 5, [], [Config(name, value)]))
    assert outcome(result) == ("t", 40, message)


def test_settings_are_answered_as_given_with_their_source_and_act_at_once(desk):
    given = [Config("cleanup.policy", " compact "), Config("retention.ms", "5"), Config("retention.ms", "6")]
    (result,) = create(desk, Topic("t", 1, 1, [], given))
    own = {config.name: config.value for config in result.configs if config.config_source == 1}
    assert own == {"cleanup.policy": " compact ", "retention.ms": "6"}
    assert {config.config_source for config in result.configs} == {1, 4, 5}  # 4: flush.messages, of --flush
    assert desk.broker.logs.find("t", 0).rules.keys_required


def test_a_setting_without_effect_is_logged_once(desk, caplog):
    for name in ("t", "u"):
        create(desk, Topic(name, 1, 1, [], [Config("preallocate", "true"), Config("max.message.bytes", "5")]))
    expected = "the topic setting preallocate is accepted, but this broker does not act on it"
    assert [record.getMessage() for record in caplog.records] == [expected]


def test_too_many_partitions_in_one_request_refuse_all_of_it(desk):
    results = create(desk, Topic("t", 9_999, 1), Topic("u", -1, -1))
    assert {(result.error_code, result.error_message) for result in results} == {
        (ErrorCode.POLICY_VIOLATION, "Excessively large number of partitions per request.")
    }


def test_without_a_timeout_nothing_is_created(desk):
    assert outcome(create(desk, Topic("t", 1, 1), timeout_ms=0)[0]) == ("t", ErrorCode.REQUEST_TIMED_OUT, None)
    assert names(desk) == {}


def test_an_empty_request_has_an_empty_answer(desk):
    assert create(desk) == []


def test_the_partitions_of_all_topics_are_limited():
    desk = Desk("pipeline.partitions=5")
    (first, second, third) = create(desk, Topic("a", 3, 1), Topic("b", 3, 1), Topic("c", 2, 1))
    message = "This broker has 3 partitions; with 3 more it would have more than 5."
    assert outcome(second) == ("b", ErrorCode.POLICY_VIOLATION, message)
    assert (first.error_code, third.error_code, names(desk)) == (0, 0, {"a": 3, "c": 2})
    assert desk.restart().broker.topics.partitions == 5
