"""Shared parts of the requests to the share coordinator, which brokers send to each other.

The client needs CLUSTER_ACTION. Each partition has its own result. Checks and messages are Kafka's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs

from pipeline_broker.apis.authorization import authorize_cluster
from pipeline_broker.apis.call import Call
from pipeline_broker.apis.refusals import REFUSAL_TEXTS
from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.broker.appended import Appended
from pipeline_broker.security.acl import AclOperation
from pipeline_broker.state.share_coordinator.records import ShareKey
from pipeline_broker.state.share_coordinator.share_states import UNINITIALIZED, ShareStateError
from stages.request import Pending, Result

__all__ = ["StateApi", "check_known", "check_partition", "check_start"]

UNKNOWN_TEXT = "This server does not host this topic-partition."


def _check_may(call: Call) -> None:
    """Refuse clients that are not brokers, and all clients while the topic of the state does not exist.

    Raises:
        ShareStateError: CLUSTER_AUTHORIZATION_FAILED in the first case, NOT_COORDINATOR in the second.
    """
    if not authorize_cluster(call, AclOperation.CLUSTER_ACTION):
        code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        raise ShareStateError(code, REFUSAL_TEXTS[code])
    if not call.broker.share.topic.exists:
        code = ErrorCode.NOT_COORDINATOR
        raise ShareStateError(code, REFUSAL_TEXTS[code])


def check_partition(key: ShareKey) -> None:
    if key.partition < 0:
        raise ShareStateError(ErrorCode.INVALID_REQUEST, "The partition id cannot be a negative number.")


def check_start(start_offset: int) -> None:
    """Raise ShareStateError unless the start offset is an offset or UNINITIALIZED."""
    if start_offset < UNINITIALIZED:
        raise ShareStateError(ErrorCode.INVALID_REQUEST, "The start offset cannot be a negative number.")


def check_known(call: Call, key: ShareKey) -> None:
    """Raise ShareStateError if the partition is negative, or the topic or the partition does not exist."""
    check_partition(key)
    topic = call.broker.topics.by_id(key.topic_id)
    if topic is None or key.partition >= topic.partitions:
        raise ShareStateError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN_TEXT)


@attrs.frozen
class StateApi:
    """The handler of one API of the share coordinator.

    Args:
        response, topic, partition: the classes of the API's response.
        one: returns the result for one partition; appends its changes, and raises ShareStateError to refuse them.
    """

    _response: Callable[..., Any]
    _topic: Callable[..., Any]
    _partition: Callable[..., Any]
    _one: Callable[[Call, ShareKey, Any, Appended], Any]

    def handle(self, call: Call, request: Any) -> Result:
        if not request.group_id and authorize_cluster(call, AclOperation.CLUSTER_ACTION):
            return call.send(self._response())  # as in Kafka, an empty group id gets an empty response
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
        return self._answer(request, lambda _, wanted: self._partition(wanted.partition, code))

    def _answer(self, request: Any, result: Callable[[bytes, Any], Any]) -> Any:
        topics = [
            self._topic(topic.topic_id, [result(topic.topic_id, wanted) for wanted in topic.partitions])
            for topic in request.topics
        ]
        return self._response(results=topics)
