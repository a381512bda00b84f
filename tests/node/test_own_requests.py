"""Requests of a broker to itself, and the creation of the internal topics of streams groups with them."""

from __future__ import annotations

import logging

import trio
import trio.testing

from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.broker.streams_topics import ERRORS_MAX, StreamsTopics
from pipeline_broker.node.own_requests import WAITING_MAX, OwnRequests
from pipeline_broker.state.groups.streams.topology import TopicInfo
from pipeline_broker.wire.messages.topics.create_topics import CreateTopicsRequest, CreateTopicsResponse
from tests.apis.desk import Desk

CREATED = CreateTopicsRequest([CreateTopicsRequest.CreatableTopic("t", 3, 1)])
BROKEN = CreateTopicsRequest([CreateTopicsRequest.CreatableTopic(None, 3, 1)])


class Committing:
    """A server whose commits are durable at once."""

    def __init__(self, desk: Desk) -> None:
        self.desk = desk

    def submit(self, submission):
        self.desk.submit(submission.entries, submission.on_durable)
        submission.on_ended(submission, None)


async def served(own: OwnRequests, desk: Desk) -> None:
    """Serve until nothing waits."""
    async with trio.open_nursery() as nursery:
        await nursery.start(own.run, Committing(desk), desk.broker)
        await trio.testing.wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()


def test_requests_wait_until_they_are_served_and_are_answered_in_order():
    own, desk, answers = OwnRequests(), Desk(), []
    for _ in range(2):
        own.ask(CREATED, CreateTopicsResponse, answers.append)
    assert answers == []
    trio.run(served, own, desk)
    codes = [topic.error_code for answer in answers for topic in answer.topics]
    assert codes == [ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS]
    assert desk.broker.topics.get("t").partitions == 3


def test_a_request_that_arrives_later_is_served_too():
    own, desk, answers = OwnRequests(), Desk(), []

    async def main():
        async with trio.open_nursery() as nursery:
            await nursery.start(own.run, Committing(desk), desk.broker)
            await trio.testing.wait_all_tasks_blocked()
            own.ask(CREATED, CreateTopicsResponse, answers.append)
            await trio.testing.wait_all_tasks_blocked()
            nursery.cancel_scope.cancel()

    trio.run(main)
    assert len(answers) == 1


def test_a_failed_request_is_answered_with_none_and_logged(caplog):
    own, desk, answers = OwnRequests(), Desk(), []
    own.ask(BROKEN, CreateTopicsResponse, answers.append)
    own.ask(CREATED, CreateTopicsResponse, answers.append)
    with caplog.at_level(logging.ERROR):
        trio.run(served, own, desk)
    assert answers[0] is None
    assert answers[1].topics[0].error_code == ErrorCode.NONE
    assert "request of the broker to itself failed" in caplog.text


def test_a_request_that_finds_too_many_waiting_is_answered_with_none():
    own, answers = OwnRequests(), []
    for _ in range(WAITING_MAX + 1):
        own.ask(CREATED, CreateTopicsResponse, answers.append)
    assert answers == [None]


def test_errors_of_topics_are_kept_up_to_a_number_the_latest_of_each():
    asked = []
    topics = StreamsTopics(lambda request, _, done: asked.append((request, done)))
    names = [TopicInfo(f"t{number}", 1, -1) for number in range(ERRORS_MAX + 1)]
    assert topics.create(names) == {}
    ((request, done),) = asked
    result = CreateTopicsResponse.CreatableTopicResult
    done(
        CreateTopicsResponse(
            topics=[
                result(each.name, error_code=ErrorCode.INVALID_CONFIG, error_message="wrong") for each in request.topics
            ]
        )
    )
    failed = topics.create(names)
    assert len(failed) == ERRORS_MAX
    assert ("t0" in failed, failed["t1"]) == (False, "wrong")
    asked[1][1](CreateTopicsResponse(topics=[result("t1", error_code=ErrorCode.TOPIC_ALREADY_EXISTS)]))
    assert "t1" not in topics.create(names)
