"""CreateAcls: adds ACLs, each on its own; they take effect once durable, before the response is sent."""

from __future__ import annotations

from pipeline_broker.apis.authorization import authorize_cluster
from pipeline_broker.apis.call import Call
from pipeline_broker.apis.refusals import REFUSAL_TEXTS
from pipeline_broker.apis.security.acl_messages import has_unknown, kind_of
from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.security.acl import (
    CLUSTER_NAME,
    AclBinding,
    AclOperation,
    PatternType,
    PermissionType,
    ResourceType,
)
from pipeline_broker.wire.messages.security.create_acls import CreateAclsRequest, CreateAclsResponse
from stages.request import Close, Result

Creation = CreateAclsRequest.AclCreation
CreationResult = CreateAclsResponse.AclCreationResult

# Numbers in each field that are valid only in filters.
FOR_FILTERS: dict[str, frozenset[int]] = {
    "resource_type": frozenset({ResourceType.ANY}),
    "resource_pattern_type": frozenset({PatternType.ANY, PatternType.MATCH}),
    "operation": frozenset({AclOperation.ANY}),
    "permission_type": frozenset({PermissionType.ANY}),
}
NAMES = {
    "resource_type": ("resourceType", ResourceType),
    "resource_pattern_type": ("patternType", PatternType),
    "operation": ("operation", AclOperation),
    "permission_type": ("permissionType", PermissionType),
}


class _RefusedError(Exception):
    pass


def handle(call: Call, request: CreateAclsRequest) -> Result:
    for creation in request.creations:
        if has_unknown(*(getattr(creation, field) for field in NAMES)):
            return Close("CreateAcls with an UNKNOWN element")
    if not authorize_cluster(call, AclOperation.ALTER):
        return call.send(error_response(request, call, ErrorCode.CLUSTER_AUTHORIZATION_FAILED))
    if call.broker.authorizer is None:
        disabled = CreationResult(ErrorCode.SECURITY_DISABLED, "No Authorizer is configured.")
        return call.send(CreateAclsResponse(results=[disabled] * len(request.creations)))
    # Apache Kafka fails the whole request for an ANY or MATCH.
    if any(_is_for_filters(creation) for creation in request.creations):
        return call.send(error_response(request, call, ErrorCode.UNKNOWN_SERVER_ERROR))
    bindings = []
    results = []
    for creation in request.creations:
        try:
            bindings.append(_binding(creation))
        except _RefusedError as refused:
            results.append(CreationResult(ErrorCode.INVALID_REQUEST, str(refused)))
        else:
            results.append(CreationResult(0, ""))
    answer = call.send(CreateAclsResponse(results=results))
    if not bindings:
        return answer
    acls = call.broker.acls
    return call.broker.commit_metadata([(acls.add(bindings), call.broker.acls_durable)], call.now_ms, answer)


def _is_for_filters(creation: Creation) -> bool:
    return any(getattr(creation, field) in numbers for field, numbers in FOR_FILTERS.items())


def _binding(creation: Creation) -> AclBinding:
    if creation.resource_type == ResourceType.CLUSTER and creation.resource_name != CLUSTER_NAME:
        message = f"The only valid name for the CLUSTER resource is {CLUSTER_NAME}"
        raise _RefusedError(message)
    if not creation.resource_name:
        raise _RefusedError("Invalid empty resource name")
    for field, (name, kinds) in NAMES.items():
        kind = kind_of(kinds, getattr(creation, field))
        if not kind:
            raise _RefusedError(f"Invalid {name} UNKNOWN")
    if ":" not in creation.principal:
        message = (
            f"Could not parse principal from `{creation.principal}` (no colon is present separating the principal type"
            " from the principal name)"
        )
        raise _RefusedError(message)
    return AclBinding(
        ResourceType(creation.resource_type),
        creation.resource_name,
        PatternType(creation.resource_pattern_type),
        creation.principal,
        creation.host,
        AclOperation(creation.operation),
        PermissionType(creation.permission_type),
    )


def error_response(request: CreateAclsRequest, call: Call, code: ErrorCode) -> CreateAclsResponse:
    message = REFUSAL_TEXTS.get(code)
    return CreateAclsResponse(results=[CreationResult(code, message) for _ in request.creations])
