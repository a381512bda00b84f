"""StreamsGroupTopologyDescriptionUpdate (KIP-1331): refused, because descriptions need a plugin class."""

from __future__ import annotations

from pipeline_broker.apis.authorization import authorize_group
from pipeline_broker.apis.call import Call
from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.security.acl import AclOperation
from pipeline_broker.state.groups.streams.topology_description import NO_PLUGIN
from pipeline_broker.wire.messages.groups.streams_group_topology_description_update import (
    StreamsGroupTopologyDescriptionUpdateRequest,
    StreamsGroupTopologyDescriptionUpdateResponse,
)
from stages.request import Result


def handle(call: Call, request: StreamsGroupTopologyDescriptionUpdateRequest) -> Result:
    if not authorize_group(call, AclOperation.READ, request.group_id):
        return call.send(error_response(request, call, ErrorCode.GROUP_AUTHORIZATION_FAILED))
    return call.send(
        StreamsGroupTopologyDescriptionUpdateResponse(
            error_code=ErrorCode.UNSUPPORTED_VERSION,
            error_message=NO_PLUGIN,
        )
    )


def error_response(
    request: StreamsGroupTopologyDescriptionUpdateRequest, call: Call, code: ErrorCode
) -> StreamsGroupTopologyDescriptionUpdateResponse:
    return StreamsGroupTopologyDescriptionUpdateResponse(error_code=code)
