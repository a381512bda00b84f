"""ListPartitionReassignments: always empty, because a single broker has no reassignments."""

from __future__ import annotations

from pipeline_broker.apis.authorization import authorize_cluster
from pipeline_broker.apis.call import Call
from pipeline_broker.apis.refusals import REFUSAL_TEXTS
from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.security.acl import AclOperation
from pipeline_broker.wire.messages.cluster.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)
from stages.request import Send

Ongoing = ListPartitionReassignmentsResponse.OngoingTopicReassignment
OngoingPartition = ListPartitionReassignmentsResponse.OngoingPartitionReassignment


def handle(call: Call, request: ListPartitionReassignmentsRequest) -> Send:
    if not authorize_cluster(call, AclOperation.DESCRIBE):
        return call.send(error_response(request, call, ErrorCode.CLUSTER_AUTHORIZATION_FAILED))
    return call.send(ListPartitionReassignmentsResponse(error_message=None))


def error_response(
    request: ListPartitionReassignmentsRequest, call: Call, code: ErrorCode
) -> ListPartitionReassignmentsResponse:
    """Build the error response; as in Apache Kafka, it lists the partitions of the request."""
    return ListPartitionReassignmentsResponse(
        error_code=code,
        error_message=REFUSAL_TEXTS.get(code, code.name),
        topics=[
            Ongoing(topic.name, [OngoingPartition(index) for index in topic.partition_indexes])
            for topic in request.topics or ()
        ],
    )
