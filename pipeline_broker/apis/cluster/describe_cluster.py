"""DescribeCluster: this broker, the only member of the cluster. A request for controllers gets an error."""

from __future__ import annotations

from pipeline_broker.apis.authorization import cluster_authorized_operations
from pipeline_broker.apis.call import Call
from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.broker.leadership import NO_BROKER
from pipeline_broker.wire.messages.cluster.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from stages.request import Send

BROKERS = 1
CONTROLLERS = 2


def handle(call: Call, request: DescribeClusterRequest) -> Send:
    if request.endpoint_type == CONTROLLERS:
        message = "The request was sent to an endpoint of type BROKER, but we wanted an endpoint of type CONTROLLER"
        return call.send(DescribeClusterResponse(error_code=ErrorCode.MISMATCHED_ENDPOINT_TYPE, error_message=message))
    if request.endpoint_type != BROKERS:
        message = f"Unsupported endpoint type {request.endpoint_type}"
        return call.send(DescribeClusterResponse(error_code=ErrorCode.UNSUPPORTED_ENDPOINT_TYPE, error_message=message))
    leadership = call.broker.leadership
    brokers = leadership.brokers(call.session.listener)
    controller_id = leadership.controller_id()
    response = DescribeClusterResponse(
        cluster_id=call.broker.cluster_id,
        controller_id=controller_id if any(each.broker_id == controller_id for each in brokers) else NO_BROKER,
        brokers=[DescribeClusterResponse.DescribeClusterBroker(*each) for each in brokers],
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
