"""Fetch sessions: topics known by id, and fetches that a later one of the session has overtaken."""

import pytest

from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.state import fetch_sessions
from pipeline_broker.wire.messages.data.fetch import FetchRequest
from pipeline_broker.wire.messages.topics.delete_topics import DeleteTopicsRequest
from stages.request import PARKED
from tests.apis.desk import Desk

BY_NAME, BY_ID = 12, 13
NO_ID = bytes(16)
GONE, NEVER_WAS = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID


@pytest.fixture
def desk():
    desk = Desk("num.partitions=2")
    for name in ("t", "u"):
        desk.create_topic(name)
    return desk


def id_of(desk, name):
    return desk.broker.topics.get(name).topic_id


def fetch(session, epoch, topics=(), forgotten=(), **more):
    """Topics are names or ids, each with its partitions."""

    def named(topic):
        return ("", topic) if isinstance(topic, bytes) else (topic, NO_ID)

    wanted = [
        FetchRequest.FetchTopic(
            *named(topic), [FetchRequest.FetchPartition(it, partition_max_bytes=1 << 20) for it in partitions]
        )
        for topic, partitions in topics
    ]
    dropped = [
        FetchRequest.ForgottenTopic(*named(topic), partitions=list(partitions)) for topic, partitions in forgotten
    ]
    return FetchRequest(
        session_id=session,
        session_epoch=epoch,
        max_bytes=1 << 20,
        topics=wanted,
        forgotten_topics_data=dropped,
        **{"max_wait_ms": 0} | more,
    )


def told(answer):
    return {
        (topic.topic_id, it.partition_index): ErrorCode(it.error_code)
        for topic in answer.responses
        for it in topic.partitions
    }


def delete(desk, *names):
    states = [DeleteTopicsRequest.DeleteTopicState(name) for name in names]
    answer = desk.ask(DeleteTopicsRequest(topics=states, timeout_ms=1000), 6)
    assert [it.error_code for it in answer.responses] == [0] * len(names)


def test_a_session_that_forgot_all_partitions_of_a_topic_does_not_know_it(desk):
    """A topic with some partitions left is reported as deleted."""
    t, u = id_of(desk, "t"), id_of(desk, "u")
    session = desk.ask(fetch(0, 0, [(t, [0, 1]), (u, [0])]), BY_ID).session_id
    desk.ask(fetch(session, 1, forgotten=[(t, [1]), (u, [0])]), BY_ID)
    delete(desk, "t", "u")
    assert told(desk.ask(fetch(session, 2, [(u, [0])]), BY_ID)) == {(t, 0): GONE, (u, 0): NEVER_WAS}


def test_a_missing_partition_is_not_taken_for_a_deleted_topic(desk):
    t = id_of(desk, "t")
    session = desk.ask(fetch(0, 0, [(t, [0, 2])]), BY_ID).session_id
    assert told(desk.ask(fetch(session, 1), BY_ID)) == {(t, 2): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}


def test_a_waiting_fetch_gets_an_error_if_its_session_has_moved_on(desk):
    """The client has abandoned it, or another one has taken the session id."""
    session = desk.ask(fetch(0, 0, [("t", [0])]), BY_NAME).session_id
    waiting = fetch(session, 1, max_wait_ms=500, min_bytes=1)
    assert desk.decide(waiting, BY_NAME) is PARKED
    desk.ask(fetch(session, 2), BY_NAME)
    desk.now_ms += 500
    desk.broker.advance(desk.now_ms)
    ((_, result),) = desk.connection.completed
    answer = desk.finish(waiting, BY_NAME, result)
    assert (answer.error_code, answer.session_id) == (ErrorCode.INVALID_FETCH_SESSION_EPOCH, session)


@pytest.mark.parametrize("version", [BY_NAME, BY_ID])
def test_the_unknown_partitions_of_a_session_are_limited(desk, version, monkeypatch):
    """Names cost a client nothing to invent; partitions that exist have no such limit."""
    monkeypatch.setattr(fetch_sessions, "UNKNOWN_PARTITIONS_MAX", 1)
    exists, unknown = (id_of(desk, "t"), bytes([7]) * 16) if version == BY_ID else ("t", "v")
    behind_the_end = fetch(0, 0, [(exists, [0, 1]), (unknown, [0])])
    for wanted in behind_the_end.topics[0].partitions:
        wanted.fetch_offset = 99
    assert desk.ask(behind_the_end, version).session_id
    assert not desk.ask(fetch(0, 0, [(exists, [0, 2]), (unknown, [0])]), version).session_id
