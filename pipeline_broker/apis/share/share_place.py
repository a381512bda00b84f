"""Makes the topic of the share coordinator for the first request that needs it, which goes on when it is there."""

from __future__ import annotations

from collections.abc import Callable

from pipeline_broker.apis.call import Call
from stages.request import PARKED, Result, Send

__all__ = ["when_there_is_a_place"]


def when_there_is_a_place(call: Call, busy: Callable[[], Send], then: Callable[[], Result]) -> Result:
    """Go on when `__share_group_state` exists.

    Args:
        busy: the answer where somebody else's request makes it at the moment; the client comes back.
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
