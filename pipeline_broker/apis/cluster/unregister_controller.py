"""UnregisterController: refused, because the only registered controller is this broker, which is online."""

from __future__ import annotations

from pipeline_broker.apis.authorization import authorize_cluster
from pipeline_broker.apis.call import Call
from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.security.acl import AclOperation
from pipeline_broker.wire.messages.cluster.unregister_controller import (
    UnregisterControllerRequest,
    UnregisterControllerResponse,
)
from stages.request import Send


def handle(call: Call, request: UnregisterControllerRequest) -> Send:
    if not authorize_cluster(call, AclOperation.ALTER):
        return call.refuse(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    code = ErrorCode.CONTROLLER_ID_NOT_REGISTERED
    message = f"Controller ID {request.controller_id} is not currently registered"
    return call.send(UnregisterControllerResponse(error_code=code, error_message=message))
