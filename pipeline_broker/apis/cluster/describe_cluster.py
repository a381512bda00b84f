"""DescribeCluster: this broker, the only member of the cluster. A request for controllers gets an error."""

from __future__ import annotations

from pipeline_broker.apis.authorization import cluster_authorized_operations
from pipeline_broker.apis.call import Call
from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.wire.messages.cluster.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from stages.request import Send

BROKERS = 1
CONTROLLERS = 2
NO_NODE = -1


def handle(call: Call, request: DescribeClusterRequest) -> Send:
    broker = call.broker
    if request.endpoint_type == CONTROLLERS:
        message = "The request was sent to an endpoint of type BROKER, but we wanted an endpoint of type CONTROLLER"
        return call.send(DescribeClusterResponse(error_code=ErrorCode.MISMATCHED_ENDPOINT_TYPE, error_message=message))
    if request.endpoint_type != BROKERS:
        message = f"Unsupported endpoint type {request.endpoint_type}"
        return call.send(DescribeClusterResponse(error_code=ErrorCode.UNSUPPORTED_ENDPOINT_TYPE, error_message=message))
    response = DescribeClusterResponse(
        cluster_id=broker.cluster_id,
        controller_id=broker.config.node_id if call.address is not None else NO_NODE,
        brokers=[]
        if call.address is None
        else [DescribeClusterResponse.DescribeClusterBroker(broker.config.node_id, *call.address)],
    )
    if request.include_cluster_authorized_operations:
        response.cluster_authorized_operations = cluster_authorized_operations(call)
    return call.send(response)


def error_response(
    request: DescribeClusterRequest,
    call: Call,
    code: ErrorCode,
) -> DescribeClusterResponse:
    return DescribeClusterResponse(error_code=code)
