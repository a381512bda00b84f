"""Expected values, including codes and messages, are those of Apache Kafka."""

import pytest

from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.wire.codec import versions_of
from pipeline_broker.wire.messages.topics.create_topics import CreateTopicsRequest
from pipeline_broker.wire.messages.topics.delete_topics import DeleteTopicsRequest
from tests.apis.desk import Desk

State = DeleteTopicsRequest.DeleteTopicState
UNKNOWN_ID = b"\7" * 16
NO_ID = bytes(16)
NOT_HERE = "This server does not host this topic-partition."


def new_desk(*settings):
    desk = Desk(*settings)
    topics = [CreateTopicsRequest.CreatableTopic(name, 2, 1) for name in ("a", "b", "c")]
    desk.ids = {result.name: result.topic_id for result in desk.ask(CreateTopicsRequest(topics=topics), 7).topics}
    return desk


@pytest.fixture
def desk():
    return new_desk()


def delete(desk, *topics, version=6, timeout_ms=1000):
    """Topics are names, or (name, id) pairs."""
    states = [State(topic) if isinstance(topic, str) else State(*topic) for topic in topics]
    if version < 6:
        request = DeleteTopicsRequest(topic_names=[state.name for state in states], timeout_ms=timeout_ms)
    else:
        request = DeleteTopicsRequest(topics=states, timeout_ms=timeout_ms)
    results = desk.ask(request, version).responses
    return [(result.name, result.topic_id, result.error_code, result.error_message) for result in results]


def left(desk):
    return {topic.name for topic in desk.broker.topics.all()}


@pytest.mark.parametrize("version", versions_of(DeleteTopicsRequest))
def test_a_topic_is_deleted_when_its_deletion_is_answered(desk, version):
    topic_id = desk.ids["a"] if version >= 6 else NO_ID
    assert delete(desk, "a", version=version) == [("a", topic_id, 0, None)]
    assert desk.broker.logs.find("a", 0) is None
    assert left(desk) == {"b", "c"}
    assert left(desk.restart()) == {"b", "c"}


@pytest.mark.parametrize("version", versions_of(DeleteTopicsRequest))
def test_an_unknown_name_is_refused(desk, version):
    message = NOT_HERE if version >= 5 else None
    assert delete(desk, "z", version=version) == [("z", NO_ID, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, message)]


def test_a_topic_can_be_named_by_its_id(desk):
    assert delete(desk, (None, desk.ids["a"])) == [("a", desk.ids["a"], 0, None)]
    assert delete(desk, (None, UNKNOWN_ID)) == [
        (None, UNKNOWN_ID, ErrorCode.UNKNOWN_TOPIC_ID, "This server does not host this topic ID.")
    ]


def test_a_topic_needs_either_a_name_or_an_id(desk):
    ids = desk.ids
    assert delete(desk, ("a", ids["a"]), (None, NO_ID)) == [
        ("a", ids["a"], 42, "You may not specify both topic name and topic id."),
        (None, NO_ID, 42, "Neither topic name nor id were specified."),
    ]
    assert left(desk) == {"a", "b", "c"}


def test_a_duplicate_topic_is_not_deleted(desk):
    ids = desk.ids
    results = delete(desk, "a", "a", (None, ids["b"]), (None, ids["b"]), "c", (None, ids["c"]))
    assert results == [
        ("a", NO_ID, 42, "Duplicate topic name."),
        (None, ids["b"], 42, "Duplicate topic id."),
        ("c", ids["c"], 42, "The provided topic name maps to an ID that was already supplied."),
    ]
    assert left(desk) == {"a", "b", "c"}


def test_an_undurable_deletion_cannot_be_requested_again(desk):
    request = DeleteTopicsRequest(topics=[State("a")], timeout_ms=1000)
    pending = desk.decide(request, 6)
    assert delete(desk, "a") == [("a", NO_ID, 3, NOT_HERE)]
    assert delete(desk, (None, desk.ids["a"]))[0][2] == ErrorCode.UNKNOWN_TOPIC_ID
    desk.finish(request, 6, pending)
    assert left(desk) == {"b", "c"}


def test_a_topic_of_the_same_name_is_another_one(desk):
    delete(desk, "a")
    (result,) = desk.ask(CreateTopicsRequest(topics=[CreateTopicsRequest.CreatableTopic("a", 1, 1)]), 7).topics
    assert result.topic_id != desk.ids["a"]
    assert desk.broker.logs.find("a", 1) is None


@pytest.mark.parametrize(("version", "code"), [(2, 42), (3, 73), (6, 73)])
def test_deletion_can_be_disabled(version, code):
    desk = new_desk("delete.topic.enable=false")
    assert [result[2:] for result in delete(desk, "a", "z", version=version)] == [(code, None), (code, None)]
    assert left(desk) == {"a", "b", "c"}


def test_without_a_timeout_nothing_is_deleted(desk):
    assert delete(desk, "a", timeout_ms=0) == [("a", NO_ID, ErrorCode.REQUEST_TIMED_OUT, None)]
    assert left(desk) == {"a", "b", "c"}
