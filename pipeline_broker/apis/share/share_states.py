"""What the requests to the share coordinator have in common: they name partitions under topics, and come from brokers.

Rules of this file: a client must be allowed to act as a broker (CLUSTER_ACTION). Each partition is answered by itself.
The checks of what is named, and their texts, are Kafka's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs

from pipeline_broker.apis.authorization import may_of_cluster
from pipeline_broker.apis.call import Call
from pipeline_broker.apis.refusals import REFUSAL_TEXTS
from pipeline_broker.broker.appended import Appended
from pipeline_broker.security.acl import AclOperation
from pipeline_broker.state.share_coordinator.records import ShareKey
from pipeline_broker.state.share_coordinator.share_states import UNINITIALIZED, ShareStateError
from pipeline_broker.wire.error import ErrorCode
from stages.request import Pending, Result

__all__ = ["StateApi", "check_known", "check_partition", "check_start"]

UNKNOWN_TEXT = "This server does not host this topic-partition."


def _check_may(call: Call) -> None:
    """Refuse clients that are no broker, and everyone while there is no place for the state.

    Raises:
        ShareStateError: why.
    """
    if not may_of_cluster(call, AclOperation.CLUSTER_ACTION):
        code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        raise ShareStateError(code, REFUSAL_TEXTS[code])
    if not call.broker.share.topic.exists:
        raise ShareStateError(ErrorCode.NOT_COORDINATOR, "This is not the correct coordinator.")


def check_partition(key: ShareKey) -> None:
    """Refuse what cannot be a partition; raises ShareStateError."""
    if key.partition < 0:
        raise ShareStateError(ErrorCode.INVALID_REQUEST, "The partition id cannot be a negative number.")


def check_start(start_offset: int) -> None:
    """Refuse what is neither an offset nor UNINITIALIZED; raises ShareStateError."""
    if start_offset < UNINITIALIZED:
        raise ShareStateError(ErrorCode.INVALID_REQUEST, "The start offset cannot be a negative number.")


def check_known(call: Call, key: ShareKey) -> None:
    """Refuse what is no partition of any topic; raises ShareStateError."""
    check_partition(key)
    topic = call.broker.topics.by_id(key.topic_id)
    if topic is None or key.partition >= topic.partitions:
        raise ShareStateError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN_TEXT)


@attrs.frozen
class StateApi:
    """One of these APIs: it answers partition by partition, under the topics of the request.

    Args:
        response, topic, partition: what its answers are made of.
        one: the result for one partition, given what names it; appends what it changes, raises ShareStateError.
    """

    _response: Callable[..., Any]
    _topic: Callable[..., Any]
    _partition: Callable[..., Any]
    _one: Callable[[Call, ShareKey, Any, Appended], Any]

    def handle(self, call: Call, request: Any) -> Result:
        """Answer for each partition, when what was appended for them is durable."""
        if not request.group_id and may_of_cluster(call, AclOperation.CLUSTER_ACTION):
            return call.send(self._response())  # as Kafka: nothing is said of anything
        appended = Appended()

        def result(topic_id: bytes, wanted: Any) -> Any:
            try:
                _check_may(call)
                return self._one(call, ShareKey(request.group_id, topic_id, wanted.partition), wanted, appended)
            except ShareStateError as error:
                return self._partition(wanted.partition, error.code, str(error))

        answer = call.send(self._answer(request, result))
        return Pending(appended.entries, answer, appended.durable) if appended.entries else answer

    def error_response(self, request: Any, _call: Call, code: ErrorCode) -> Any:
        """Every partition with the same error."""
        return self._answer(request, lambda _, wanted: self._partition(wanted.partition, code))

    def _answer(self, request: Any, result: Callable[[bytes, Any], Any]) -> Any:
        topics = [
            self._topic(topic.topic_id, [result(topic.topic_id, wanted) for wanted in topic.partitions])
            for topic in request.topics
        ]
        return self._response(results=topics)
