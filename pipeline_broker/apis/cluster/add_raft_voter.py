"""AddRaftVoter: refused, because the quorum is this one broker and no other controller can replicate it.

Refusals come in Kafka's order: a wrong cluster id, an invalid voter, a missing controller endpoint, a duplicate voter.
Kafka would then wait for the candidate to catch up; here that times out at once.
"""

from __future__ import annotations

from pipeline_broker.apis.authorization import authorize_cluster
from pipeline_broker.apis.call import Call
from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.security.acl import AclOperation
from pipeline_broker.wire.messages.cluster.add_raft_voter import AddRaftVoterRequest, AddRaftVoterResponse
from pipeline_broker.wire.primitives import UUID_ZERO
from stages.request import Send

CONTROLLER_LISTENER = "CONTROLLER"


def handle(call: Call, request: AddRaftVoterRequest) -> Send:
    if not authorize_cluster(call, AclOperation.ALTER):
        return call.refuse(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    code, message = _refusal(call, request)
    return call.send(AddRaftVoterResponse(error_code=code, error_message=message))


def _refusal(call: Call, request: AddRaftVoterRequest) -> tuple[ErrorCode, str | None]:
    if request.cluster_id is not None and request.cluster_id != call.broker.cluster_id:
        return ErrorCode.INCONSISTENT_CLUSTER_ID, None
    if request.voter_id < 0 or request.voter_directory_id == UUID_ZERO:
        return ErrorCode.INVALID_REQUEST, "Add voter request didn't include a valid voter"
    if all(each.name != CONTROLLER_LISTENER for each in request.listeners):
        message = f"Add voter request didn't include the endpoint (null) for the default listener {CONTROLLER_LISTENER}"
        return ErrorCode.INVALID_REQUEST, message
    if request.voter_id == call.broker.leadership.controller_id():
        return ErrorCode.DUPLICATE_VOTER, f"The voter id for {request.voter_id} is already part of the set of voters."
    return ErrorCode.REQUEST_TIMED_OUT, "The quorum is this one broker, so no other voter can catch up with it."
