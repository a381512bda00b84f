"""UnregisterController: refused, because the only registered controller is active (KIP-1312)."""

from __future__ import annotations

from pipeline_broker.apis.authorization import authorize_cluster
from pipeline_broker.apis.call import Call
from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.security.acl import AclOperation
from pipeline_broker.state.features import METADATA_VERSION
from pipeline_broker.wire.messages.cluster.unregister_controller import (
    UnregisterControllerRequest,
    UnregisterControllerResponse,
)
from stages.request import Send

METADATA_VERSION_MIN = 33
"""The level of 4.4-IV2, which introduced the record of an unregistered controller."""


def handle(call: Call, request: UnregisterControllerRequest) -> Send:
    if not authorize_cluster(call, AclOperation.ALTER):
        return call.refuse(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    code, message = _refusal(call, request.controller_id)
    return call.send(UnregisterControllerResponse(error_code=code, error_message=message))


def _refusal(call: Call, controller_id: int) -> tuple[ErrorCode, str]:
    if controller_id == call.broker.leadership.controller_id():
        return ErrorCode.INVALID_REQUEST, "Controller cannot unregister itself while it is active."
    if call.broker.features.level(METADATA_VERSION) < METADATA_VERSION_MIN:
        message = "The current MetadataVersion is too old to support controller unregistration."
        return ErrorCode.UNSUPPORTED_VERSION, message
    return ErrorCode.CONTROLLER_ID_NOT_REGISTERED, f"Controller ID {controller_id} is not currently registered."
