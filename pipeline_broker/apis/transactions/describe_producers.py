"""DescribeProducers: the idempotent and transactional producers of partitions, with their open transactions (KIP-664).

As in Apache Kafka the client needs READ on the topic. The response waits until the described state is durable.
"""

from __future__ import annotations

from collections.abc import Callable

from pipeline_broker.apis.authorization import topics_allowed
from pipeline_broker.apis.call import Call
from pipeline_broker.apis.refusals import REFUSAL_TEXTS
from pipeline_broker.apis.steps import ELEMENT_COST, Stepwise
from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.security.acl import AclOperation
from pipeline_broker.state.topic_rules import TopicError, check_name
from pipeline_broker.wire.messages.transactions.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
)
from stages.request import Pending, Result

PartitionResponse = DescribeProducersResponse.PartitionResponse
ProducerState = DescribeProducersResponse.ProducerState
TopicResponse = DescribeProducersResponse.TopicResponse


# Cost of describing one producer, about microseconds.
PRODUCER_COST = 3


class _Description:
    def __init__(self, call: Call) -> None:
        self._call = call
        self._is_allowed: Callable[[str], bool] = topics_allowed(call, AclOperation.READ)
        self.is_durable = True

    def of_topic(self, topic: DescribeProducersRequest.TopicRequest) -> Stepwise[TopicResponse]:
        if self._call.spend(ELEMENT_COST):
            yield None
        refused = self._refused(topic.name)
        if refused is not None:
            return _refuse_topic(topic, *refused)
        partitions = []
        for index in topic.partition_indexes:
            partitions.append(self._of_partition(topic.name, index))
            if self._call.spend(ELEMENT_COST + PRODUCER_COST * len(partitions[-1].active_producers)):
                yield None
        return TopicResponse(topic.name, partitions)

    def _refused(self, name: str) -> tuple[ErrorCode, str | None] | None:
        if not self._is_allowed(name):
            code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            return code, REFUSAL_TEXTS[code]
        try:
            check_name(name)
        except TopicError as error:
            return error.code, error.message
        return None

    def _of_partition(self, name: str, index: int) -> PartitionResponse:
        log = self._call.broker.find_log(name, b"", index, by_id=False)
        if isinstance(log, ErrorCode):
            return PartitionResponse(index, log)
        self.is_durable = self.is_durable and log.log_end_offset == log.high_watermark
        return PartitionResponse(
            index, active_producers=[ProducerState(*described) for described in log.producers.described()]
        )


def handle(call: Call, request: DescribeProducersRequest) -> Stepwise[Result]:
    description = _Description(call)
    topics = []
    for topic in request.topics:
        topics += [(yield from description.of_topic(topic))]
    answer = yield from call.send_in_steps(DescribeProducersResponse(topics=topics))
    return answer if description.is_durable else Pending((), answer)


def _refuse_topic(
    topic: DescribeProducersRequest.TopicRequest, code: ErrorCode, message: str | None = None
) -> TopicResponse:
    return TopicResponse(topic.name, [PartitionResponse(index, code, message) for index in topic.partition_indexes])


def error_response(request: DescribeProducersRequest, call: Call, code: ErrorCode) -> DescribeProducersResponse:
    del call
    return DescribeProducersResponse(topics=[_refuse_topic(topic, code) for topic in request.topics])
