"""Expected values are those of Apache Kafka."""

import pytest

from pipeline_broker.wire.messages.topics.create_topics import CreateTopicsRequest
from pipeline_broker.wire.messages.topics.describe_topic_partitions import DescribeTopicPartitionsRequest
from tests.apis.desk import Desk

Wanted = DescribeTopicPartitionsRequest.TopicRequest
Cursor = DescribeTopicPartitionsRequest.Cursor


@pytest.fixture
def desk():
    desk = Desk()
    counts = {"a": 3, "b": 1, "c": 4, "__consumer_offsets": 2}
    topics = [CreateTopicsRequest.CreatableTopic(name, count, 1) for name, count in counts.items()]
    desk.ask(CreateTopicsRequest(topics=topics), 7)
    return desk


def describe(desk, *names, limit=2000, cursor=None):
    """Return topics as (error, name, partitions), and the next cursor."""
    request = DescribeTopicPartitionsRequest(
        topics=[Wanted(name) for name in names],
        response_partition_limit=limit,
        cursor=None if cursor is None else Cursor(*cursor),
    )
    response = desk.ask(request, 0)
    after = response.next_cursor
    topics = [
        (topic.error_code, topic.name, [each.partition_index for each in topic.partitions]) for topic in response.topics
    ]
    return topics, None if after is None else (after.topic_name, after.partition_index)


def test_a_partition_is_led_and_kept_by_this_broker(desk):
    (topic,) = desk.ask(DescribeTopicPartitionsRequest(topics=[Wanted("b")]), 0).topics
    (partition,) = topic.partitions
    assert (topic.topic_id, topic.is_internal) == (desk.broker.topics.get("b").topic_id, False)
    assert topic.topic_authorized_operations == 3576
    assert (partition.error_code, partition.leader_id, partition.leader_epoch) == (0, 1, 0)
    assert (partition.replica_nodes, partition.isr_nodes, partition.offline_replicas) == ([1], [1], [])
    assert (partition.eligible_leader_replicas, partition.last_known_elr) == ([], [])


def test_topics_come_in_the_order_of_their_names_and_once(desk):
    assert describe(desk, "c", "a", "c") == ([(0, "a", [0, 1, 2]), (0, "c", [0, 1, 2, 3])], None)


def test_no_names_ask_for_all_topics(desk):
    topics, _ = describe(desk)
    assert [name for _, name, _ in topics] == ["__consumer_offsets", "a", "b", "c"]


def test_unknown_and_invalid_names_have_different_errors(desk):
    assert describe(desk, "z", "a b", "b") == ([(17, "a b", []), (0, "b", [0]), (3, "z", [])], None)


@pytest.mark.parametrize(
    ("limit", "expected", "cursor"),
    [
        (2, [(0, "a", [0, 1])], ("a", 2)),
        (3, [(0, "a", [0, 1, 2])], ("b", 0)),
        (4, [(0, "a", [0, 1, 2]), (0, "b", [0])], ("c", 0)),
        (5, [(0, "a", [0, 1, 2]), (0, "b", [0]), (0, "c", [0])], ("c", 1)),
        (8, [(0, "a", [0, 1, 2]), (0, "b", [0]), (0, "c", [0, 1, 2, 3])], None),
        (0, [(0, "a", [0])], ("a", 1)),
        (-1, [(0, "a", [0])], ("a", 1)),
    ],
)
def test_a_page_ends_at_the_limit(desk, limit, expected, cursor):
    assert describe(desk, "a", "b", "c", limit=limit) == (expected, cursor)


def test_the_brokers_limit_bounds_that_of_the_client():
    desk = Desk("max.request.partition.size.limit=2")
    desk.ask(CreateTopicsRequest(topics=[CreateTopicsRequest.CreatableTopic("a", 3, 1)]), 7)
    assert describe(desk, "a") == ([(0, "a", [0, 1])], ("a", 2))


@pytest.mark.parametrize("limit", range(1, 12))
def test_pages_together_hold_everything_once(desk, limit):
    found, cursor = [], None
    while True:
        topics, cursor = describe(desk, limit=limit, cursor=cursor)
        found += [(name, index) for _, name, indexes in topics for index in indexes]
        if cursor is None:
            break
    every = {"__consumer_offsets": 2, "a": 3, "b": 1, "c": 4}
    assert found == [(name, index) for name, count in every.items() for index in range(count)]


def test_a_cursor_begins_where_it_says(desk):
    assert describe(desk, "a", "c", cursor=("a", 2)) == ([(0, "a", [2]), (0, "c", [0, 1, 2, 3])], None)
    assert describe(desk, "a", "c", cursor=("a", 70)) == ([(0, "a", []), (0, "c", [0, 1, 2, 3])], None)
    assert describe(desk, "a", "z", cursor=("z", 2)) == ([(3, "z", [])], None)


def test_a_cursor_of_a_deleted_topic_continues_after_it(desk):
    assert describe(desk, cursor=("bb", 2)) == ([(0, "c", [0, 1, 2, 3])], None)


@pytest.mark.parametrize("cursor", [("a", -1), ("b", 0), ("aa", 0)])
def test_an_invalid_cursor_refuses_the_request(desk, cursor):
    assert describe(desk, "c", "a", cursor=cursor) == ([(42, "c", []), (42, "a", [])], None)
