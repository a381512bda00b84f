"""RemoveRaftVoter: refused, because the quorum is this one broker and its last voter cannot be removed."""

from __future__ import annotations

from pipeline_broker.apis.authorization import authorize_cluster
from pipeline_broker.apis.call import Call
from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.security.acl import AclOperation
from pipeline_broker.wire.messages.cluster.remove_raft_voter import RemoveRaftVoterRequest, RemoveRaftVoterResponse
from pipeline_broker.wire.primitives import UUID_ZERO
from stages.request import Send


def handle(call: Call, request: RemoveRaftVoterRequest) -> Send:
    if not authorize_cluster(call, AclOperation.ALTER):
        return call.refuse(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    if request.cluster_id is not None and request.cluster_id != call.broker.cluster_id:
        return call.send(RemoveRaftVoterResponse(error_code=ErrorCode.INCONSISTENT_CLUSTER_ID, error_message=None))
    if request.voter_id < 0 or request.voter_directory_id == UUID_ZERO:
        message = "Remove voter request didn't include a valid voter"
        return call.send(RemoveRaftVoterResponse(error_code=ErrorCode.INVALID_REQUEST, error_message=message))
    message = f"Cannot remove voter {request.voter_id} from the set of voters"
    return call.send(RemoveRaftVoterResponse(error_code=ErrorCode.VOTER_NOT_FOUND, error_message=message))
