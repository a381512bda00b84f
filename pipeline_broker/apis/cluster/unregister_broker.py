"""UnregisterBroker: refused, because this broker is the only registered one and it is online."""

from __future__ import annotations

from pipeline_broker.apis.authorization import authorize_cluster
from pipeline_broker.apis.call import Call
from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.security.acl import AclOperation
from pipeline_broker.wire.messages.cluster.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse
from stages.request import Send


def handle(call: Call, request: UnregisterBrokerRequest) -> Send:
    if not authorize_cluster(call, AclOperation.ALTER):
        return call.refuse(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    if request.broker_id == call.broker.leadership.broker_id:
        message = f"Broker {request.broker_id} is the only one and serves this request"
        return call.send(UnregisterBrokerResponse(error_code=ErrorCode.INVALID_REQUEST, error_message=message))
    code = ErrorCode.BROKER_ID_NOT_REGISTERED
    message = f"Broker ID {request.broker_id} is not currently registered"
    return call.send(UnregisterBrokerResponse(error_code=code, error_message=message))
