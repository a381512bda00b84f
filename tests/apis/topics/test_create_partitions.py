"""Expected values, including codes and messages, are those of Apache Kafka."""

import pytest

from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.wire.codec import versions_of
from pipeline_broker.wire.messages.topics.create_partitions import CreatePartitionsRequest
from pipeline_broker.wire.messages.topics.create_topics import CreateTopicsRequest
from tests.apis.desk import Desk

Topic = CreatePartitionsRequest.CreatePartitionsTopic
Placed = CreatePartitionsRequest.CreatePartitionsAssignment


@pytest.fixture
def desk():
    desk = Desk()
    desk.ask(CreateTopicsRequest(topics=[CreateTopicsRequest.CreatableTopic(name, 2, 1) for name in ("t", "u")]), 7)
    return desk


def add(desk, *topics, version=3, timeout_ms=1000, validate_only=False):
    """Topics are (name, count) or (name, count, broker ids of each partition)."""
    wanted = [
        Topic(name, count, None if not placed else [Placed(brokers) for brokers in placed[0]])
        for name, count, *placed in topics
    ]
    request = CreatePartitionsRequest(topics=wanted, timeout_ms=timeout_ms, validate_only=validate_only)
    results = desk.ask(request, version).results
    return [(result.name, result.error_code, result.error_message) for result in results]


def count(desk, name="t"):
    return len(desk.broker.logs.partitions(name))


@pytest.mark.parametrize("version", versions_of(CreatePartitionsRequest))
def test_partitions_exist_when_they_are_answered(desk, version):
    log = desk.broker.logs.find("t", 1)
    assert add(desk, ("t", 5), version=version) == [("t", 0, None)]
    assert count(desk) == desk.broker.topics.get("t").partitions == 5
    assert desk.broker.logs.find("t", 1) is log
    assert count(desk.restart()) == 5


@pytest.mark.parametrize(
    ("topic", "code", "message"),
    [
        (("z", 3), 3, None),
        (("a b", 3), 3, None),
        (("t", 2), 37, "Topic already has 2 partition(s)."),
        (("t", 1), 37, "The topic t currently has 2 partition(s); 1 would not be an increase."),
        (("t", -1), 37, "The topic t currently has 2 partition(s); -1 would not be an increase."),
        (("t", 20_000), 37, "Number of partitions 20000 is above the limit of this broker, 10000."),
        (
            ("t", 4, [[1]]),
            39,
            "Attempted to add 2 additional partition(s), but only 1 assignment(s) were specified.",
        ),
        (
            ("t", 4, [[1], [2]]),
            39,
            "The manual partition assignment includes broker 2, but no such broker is registered.",
        ),
        (("t", 4, [[1], []]), 39, "The manual partition assignment includes an empty replica list."),
        (("t", 4, [[1], [1, 1]]), 39, "The manual partition assignment includes the broker 1 more than once."),
    ],
)
def test_invalid_counts_and_assignments_are_refused(desk, topic, code, message):
    assert add(desk, topic, ("u", 3)) == [(topic[0], code, message), ("u", 0, None)]
    assert (count(desk), count(desk, "u")) == (2, 3)


def test_partitions_may_be_placed_on_this_broker(desk):
    assert add(desk, ("t", 4, [[1], [1]])) == [("t", 0, None)]
    assert count(desk) == 4


def test_a_topic_named_twice_is_not_changed(desk):
    assert add(desk, ("t", 4), ("u", 4), ("t", 5)) == [("t", 42, "Duplicate topic name."), ("u", 0, None)]
    assert (count(desk), count(desk, "u")) == (2, 4)


def test_validate_only_adds_nothing(desk):
    assert add(desk, ("t", 4), validate_only=True) == [("t", 0, None)]
    assert count(desk) == 2


def test_without_a_timeout_nothing_is_added(desk):
    assert add(desk, ("t", 4), timeout_ms=0) == [("t", 7, None)]
    assert count(desk) == 2


def test_a_topic_does_not_grow_beyond_the_partitions_of_all_topics():
    desk = Desk("pipeline.partitions=5")
    desk.ask(CreateTopicsRequest(topics=[CreateTopicsRequest.CreatableTopic("t", 2, 1)]), 7)
    code, message = ErrorCode.POLICY_VIOLATION, "This broker has 2 partitions; with 4 more it would have more than 5."
    assert add(desk, ("t", 6)) == [("t", code, message)]
    assert add(desk, ("t", 5)) == [("t", 0, None)]


@pytest.mark.parametrize("name", ["__consumer_offsets", "__transaction_state", "__share_group_state"])
def test_the_partitions_of_coordinators_are_fixed(desk, name):
    """Kafka accepts more of them, and groups then hash to partitions without their records."""
    desk.create_topic(name)
    ((_, code, message),) = add(desk, (name, 100))
    assert code == ErrorCode.INVALID_REQUEST
    assert (
        message == f"The partitions of {name} are fixed: with more of them, coordinators would not find their records."
    )
    assert count(desk, name) == desk.restart().broker.topics.get(name).partitions < 100
