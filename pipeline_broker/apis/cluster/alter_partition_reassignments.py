"""AlterPartitionReassignments: checks each assignment; this broker is the only possible replica, so nothing moves."""

from __future__ import annotations

from functools import partial

from pipeline_broker.apis.authorization import authorize_cluster
from pipeline_broker.apis.call import Call
from pipeline_broker.apis.refusals import REFUSAL_TEXTS
from pipeline_broker.apis.steps import ELEMENT_COST, Stepwise, in_steps
from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.security.acl import AclOperation
from pipeline_broker.state.topic_rules import TopicError, check_replicas
from pipeline_broker.wire.messages.cluster.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
)
from stages.request import Send

Wanted = AlterPartitionReassignmentsRequest.ReassignablePartition
TopicResult = AlterPartitionReassignmentsResponse.ReassignableTopicResponse
PartitionResult = AlterPartitionReassignmentsResponse.ReassignablePartitionResponse


def handle(call: Call, request: AlterPartitionReassignmentsRequest) -> Stepwise[Send]:
    if not authorize_cluster(call, AclOperation.ALTER):
        return call.send(error_response(request, call, ErrorCode.CLUSTER_AUTHORIZATION_FAILED))
    if not request.topics:
        return call.send(AlterPartitionReassignmentsResponse())
    if request.timeout_ms <= 0:
        return call.send(error_response(request, call, ErrorCode.REQUEST_TIMED_OUT))
    response = AlterPartitionReassignmentsResponse(
        allow_replication_factor_change=request.allow_replication_factor_change, error_message=None
    )
    for topic in request.topics:
        results = yield from in_steps(call, topic.partitions, partial(_result, call, topic.name))
        response.responses.append(TopicResult(topic.name, results))
        if call.spend(ELEMENT_COST):
            yield None
    return (yield from call.send_in_steps(response))


def _result(call: Call, name: str, wanted: Wanted) -> PartitionResult:
    index = wanted.partition_index
    try:
        _check(call, name, wanted)
    except TopicError as error:
        return PartitionResult(index, error.code, error.message)
    return PartitionResult(index, error_message=None)


def _check(call: Call, name: str, wanted: Wanted) -> None:
    topic = call.broker.topics.get(name)
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if topic is None:
        raise TopicError(unknown, f"Unable to find a topic named {name}.")
    if not 0 <= wanted.partition_index < topic.partitions:
        raise TopicError(unknown, f"Unable to find partition {name}:{wanted.partition_index}.")
    if wanted.replicas is None:
        raise TopicError(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, "No partition reassignment is in progress.")
    check_replicas(wanted.replicas, (call.broker.leadership.broker_id,))


def error_response(
    request: AlterPartitionReassignmentsRequest, call: Call, code: ErrorCode
) -> AlterPartitionReassignmentsResponse:
    text = REFUSAL_TEXTS.get(code, code.name)
    return AlterPartitionReassignmentsResponse(
        error_code=code,
        error_message=text,
        responses=[
            TopicResult(topic.name, [PartitionResult(each.partition_index, code, text) for each in topic.partitions])
            for topic in request.topics
        ],
    )
