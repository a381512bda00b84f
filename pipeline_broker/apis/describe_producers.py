"""DescribeProducers: the idempotent and transactional producers of partitions, and the transactions they have open.

As in Apache Kafka the right to read the topic is asked for. What is told is durable, as nearly always at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipeline_broker.apis.authorization import REFUSAL_TEXTS, topics_allowed
from pipeline_broker.security.acl import AclOperation
from pipeline_broker.state.topic_rules import TopicError, check_name
from pipeline_broker.wire.error import ErrorCode
from pipeline_broker.wire.messages.describe_producers import DescribeProducersRequest, DescribeProducersResponse
from stages.request import Pending, Result

if TYPE_CHECKING:
    from collections.abc import Callable

    from pipeline_broker.apis.call import Call

__all__ = ["REQUEST", "error_response", "handle"]

REQUEST = DescribeProducersRequest
PartitionResponse = DescribeProducersResponse.PartitionResponse
ProducerState = DescribeProducersResponse.ProducerState
TopicResponse = DescribeProducersResponse.TopicResponse


class _Description:
    """One answer."""

    def __init__(self, call: Call) -> None:
        self._call = call
        self._is_allowed: Callable[[str], bool] = topics_allowed(call, AclOperation.READ)
        self.is_durable = True

    def of_topic(self, topic: DescribeProducersRequest.TopicRequest) -> TopicResponse:
        refused = self._refused(topic.name)
        if refused is not None:
            return _refuse_topic(topic, *refused)
        return TopicResponse(topic.name, [self._of_partition(topic.name, index) for index in topic.partition_indexes])

    def _refused(self, name: str) -> tuple[ErrorCode, str | None] | None:
        try:
            check_name(name)
        except TopicError as error:
            return error.code, error.message
        if not self._is_allowed(name):
            code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            return code, REFUSAL_TEXTS[code]
        return None

    def _of_partition(self, name: str, index: int) -> PartitionResponse:
        log = self._call.broker.find_log(name, b"", index, by_id=False)
        if isinstance(log, ErrorCode):
            return PartitionResponse(index, log)
        self.is_durable = self.is_durable and log.log_end_offset == log.high_watermark
        return PartitionResponse(
            index, active_producers=[ProducerState(*described) for described in log.producers.described()]
        )


def handle(call: Call, request: DescribeProducersRequest) -> Result:
    """Answer, behind what is on its way to the disk."""
    description = _Description(call)
    topics = [description.of_topic(topic) for topic in request.topics]
    answer = call.send(DescribeProducersResponse(topics=topics))
    return answer if description.is_durable else Pending((), answer)


def _refuse_topic(
    topic: DescribeProducersRequest.TopicRequest, code: ErrorCode, message: str | None = None
) -> TopicResponse:
    return TopicResponse(topic.name, [PartitionResponse(index, code, message) for index in topic.partition_indexes])


def error_response(request: DescribeProducersRequest, call: Call, code: ErrorCode) -> DescribeProducersResponse:
    """Every partition with the same error."""
    del call
    return DescribeProducersResponse(topics=[_refuse_topic(topic, code) for topic in request.topics])
