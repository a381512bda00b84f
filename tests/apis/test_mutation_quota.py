"""Quotas on metadata changes (KIP-599): strict for versions that know the error, permissive for earlier ones."""

import pytest

from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.wire.messages.topics.create_partitions import CreatePartitionsRequest
from pipeline_broker.wire.messages.topics.create_topics import CreateTopicsRequest
from pipeline_broker.wire.messages.topics.delete_topics import DeleteTopicsRequest
from pipeline_broker.wire.messages.topics.metadata import MetadataRequest
from tests.apis.configs.quota_requests import alter
from tests.apis.desk import Desk

EXCEEDED = ErrorCode.THROTTLING_QUOTA_EXCEEDED
STRICT, PERMISSIVE = 7, 5
BURST = 22


@pytest.fixture
def desk():
    """A quota of two changes a second; a full bucket holds 22."""
    desk = Desk()
    alter(desk, [("user", None)], ("controller_mutation_rate", 2.0))
    return desk


def create(desk, *topics, version=STRICT, validate_only=False):
    wanted = [CreateTopicsRequest.CreatableTopic(name, count, 1) for name, count in topics]
    answer = desk.ask(CreateTopicsRequest(wanted, 20_000, validate_only), version)
    return [topic.error_code for topic in answer.topics], answer.throttle_time_ms


def test_in_good_standing_any_number_is_created_at_once(desk):
    assert create(desk, ("a", BURST + 10)) == ([0], 0)


def test_with_a_debt_nothing_is_created_until_it_is_paid(desk):
    """Ten tokens of debt take five seconds."""
    create(desk, ("a", BURST + 10))
    assert create(desk, ("b", 1)) == ([EXCEEDED], 5_000)
    assert desk.connection.throttles == [5]
    assert desk.broker.topics.get("b") is None
    desk.now_ms += 4_999
    assert create(desk, ("b", 1)) == ([EXCEEDED], 1)
    desk.now_ms += 1
    assert create(desk, ("b", 1)) == ([0], 0)


def test_each_topic_of_a_request_is_decided_by_itself(desk):
    assert create(desk, ("a", BURST + 2), ("b", 1)) == ([0, EXCEEDED], 1_000)


def test_an_older_version_creates_and_waits_afterwards(desk):
    assert create(desk, ("a", BURST + 10), version=PERMISSIVE) == ([0], 5_000)
    assert create(desk, ("b", 2), version=PERMISSIVE) == ([0], 6_000)
    assert desk.connection.throttles == [5, 6]


def test_validation_counts_like_a_change(desk):
    """With validate_only too, as in Apache Kafka."""
    create(desk, ("a", BURST + 10), validate_only=True)
    assert create(desk, ("b", 1), validate_only=True)[0] == [EXCEEDED]


def test_changes_refused_for_another_reason_do_not_count(desk):
    create(desk, ("a", 1))
    assert create(desk, ("a", 1_000), ("b", 0))[0] == [
        ErrorCode.TOPIC_ALREADY_EXISTS,
        ErrorCode.INVALID_PARTITIONS,
    ]
    (client,) = desk.broker.quotas.statistics().mutation
    assert client.tokens == BURST - 1
    assert client.per_second == pytest.approx(0.1)


@pytest.mark.parametrize(("version", "strict"), [(6, True), (5, True), (4, False)])
def test_deleted_partitions_count(desk, version, strict):
    create(desk, ("a", BURST), ("b", 4))
    desk.now_ms += 2_000
    named = (
        {"topics": [DeleteTopicsRequest.DeleteTopicState(name) for name in "ba"]}
        if version >= 6
        else {"topic_names": ["b", "a"]}
    )
    answer = desk.ask(DeleteTopicsRequest(**named, timeout_ms=20_000), version)
    assert [topic.error_code for topic in answer.responses] == [0, EXCEEDED if strict else 0]
    assert answer.throttle_time_ms == (2_000 if strict else 13_000)
    assert (desk.broker.topics.get("a") is not None) is strict


@pytest.mark.parametrize(("version", "strict"), [(3, True), (2, False)])
def test_added_partitions_count(desk, version, strict):
    create(desk, ("a", 20), ("b", 1))
    grown = [CreatePartitionsRequest.CreatePartitionsTopic(name, count, None) for name, count in (("a", 23), ("b", 2))]
    answer = desk.ask(CreatePartitionsRequest(grown, 20_000), version)
    assert [topic.error_code for topic in answer.results] == [0, EXCEEDED if strict else 0]
    assert answer.throttle_time_ms == (1_000 if strict else 1_500)


def test_a_topic_is_not_auto_created_during_a_debt(desk):
    """The client receives the usual error and is not throttled, because it has not requested a change."""
    create(desk, ("a", BURST + 10))
    request = MetadataRequest([MetadataRequest.MetadataRequestTopic(name="b")], allow_auto_topic_creation=True)
    for waited_ms, is_created in ((0, False), (5_000, True)):
        desk.now_ms += waited_ms
        answer = desk.ask(request, 9)
        assert (answer.topics[0].error_code, answer.throttle_time_ms) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, 0)
        assert (desk.broker.topics.get("b") is not None) is is_created
    assert not desk.connection.throttles
