"""Creation of a coordinator's topic on the first request that needs it."""

from __future__ import annotations

from collections.abc import Callable

from pipeline_broker.apis.call import Call
from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.broker.coordinator import InternalTopic
from stages.request import PARKED, Result, Send

__all__ = ["answer_with_topic", "refuse_member", "with_share_state_topic"]


def answer_with_topic(call: Call, topic: InternalTopic, answer: Send, busy: Callable[[], Send]) -> Result:
    """Send `answer`, after creating the topic if it is missing.

    Args:
        busy: builds the response while another request creates the topic, or if the broker cannot write now. Not
            before, because observers are shown each response that is built.
    """
    broker = call.broker
    if topic.exists:
        return answer
    if broker.topics.latest(topic.name) is not None or not broker.can_write:
        return busy()
    write = broker.topics.create(broker.new_topic(topic.name))
    return broker.commit_metadata([(write, broker.topic_durable)], call.now_ms, answer)


def refuse_member(call: Call, answer: Send, error: ErrorCode) -> Result:
    """Send a refusal to a member that wants to join. If `__consumer_offsets` is missing, create it for the retry."""
    if error is not ErrorCode.NOT_COORDINATOR or call.broker.groups.topic.exists or call.broker.controller is not None:
        return answer
    return answer_with_topic(call, call.broker.groups.topic, answer, busy=lambda: answer)


def with_share_state_topic(call: Call, busy: Callable[[], Send], then: Callable[[], Result]) -> Result:
    """Call `then` once `__share_group_state` exists.

    If the topic is missing, the request is parked, and completed with the result of `then` once the new topic is
    durable.

    Args:
        busy: builds the response while another request creates the topic; the client retries.
        then: decides the request.
    """
    broker = call.broker
    topic = broker.share.topic
    if topic.exists:
        return then()
    if broker.topics.latest(topic.name) is not None:
        return busy()
    write = broker.topics.create(broker.new_topic(topic.name))

    def created() -> None:
        broker.topic_durable(write)
        call.request.complete(then())

    broker.ports.submit([broker.append_metadata(write, call.now_ms)], created)
    return PARKED
