"""Creation of the `__share_group_state` topic on the first request that needs it."""

from __future__ import annotations

from collections.abc import Callable

from pipeline_broker.apis.call import Call
from stages.request import PARKED, Result, Send

__all__ = ["with_share_state_topic"]


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
