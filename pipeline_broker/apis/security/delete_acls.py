"""DeleteAcls: deletes the ACLs that match any of the filters."""

from __future__ import annotations

from pipeline_broker.apis.authorization import authorize_cluster
from pipeline_broker.apis.call import Call
from pipeline_broker.apis.refusals import REFUSAL_TEXTS
from pipeline_broker.apis.security.acl_messages import filter_of, has_unknown
from pipeline_broker.apis.steps import ELEMENT_COST, Stepwise, commit_changes
from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.broker.metadata_log import Change
from pipeline_broker.security.acl import AclBinding, AclFilter, AclOperation
from pipeline_broker.wire.messages.security.delete_acls import DeleteAclsRequest, DeleteAclsResponse
from stages.request import Close, Result

FilterResult = DeleteAclsResponse.DeleteAclsFilterResult


# Cost of one matching ACL, about microseconds.
MATCH_COST = 15


def handle(call: Call, request: DeleteAclsRequest) -> Stepwise[Result]:
    for each in request.filters:
        if has_unknown(each.resource_type_filter, each.pattern_type_filter, each.operation, each.permission_type):
            return Close("DeleteAcls with an UNKNOWN element")
    if not authorize_cluster(call, AclOperation.ALTER):
        return call.send(error_response(request, call, ErrorCode.CLUSTER_AUTHORIZATION_FAILED))
    if call.broker.authorizer is None:
        disabled = FilterResult(ErrorCode.SECURITY_DISABLED, "No Authorizer is configured.")
        return call.send(DeleteAclsResponse(filter_results=[disabled] * len(request.filters)))
    acls = call.broker.acls
    removed: set[AclBinding] = set()
    results = []
    for wanted in map(filter_of, request.filters):
        found = acls.matching(wanted)
        if call.spend(ELEMENT_COST + len(acls) + MATCH_COST * len(found)):
            yield None
        removed.update(found)
        unknown = _unknown_part(wanted)
        if unknown is not None:
            results.append(FilterResult(ErrorCode.INVALID_REQUEST, f"Unknown {unknown}."))
        else:
            results.append(FilterResult(0, None, [_matching(binding) for binding in found]))
    changes: list[Change] = [(acls.remove(sorted(removed)), call.broker.acls_durable)] if removed else []
    return (yield from commit_changes(call, changes, DeleteAclsResponse(filter_results=results)))


def _unknown_part(wanted: AclFilter) -> str | None:
    # The names are those of Apache Kafka's AclBindingFilter.
    if not wanted.resource_type or not wanted.pattern_type:
        return "patternFilter"
    return "entryFilter" if not wanted.operation or not wanted.permission else None


def _matching(binding: AclBinding) -> DeleteAclsResponse.DeleteAclsMatchingAcl:
    return DeleteAclsResponse.DeleteAclsMatchingAcl(
        0,
        None,
        binding.resource_type,
        binding.resource_name,
        binding.pattern_type,
        binding.principal,
        binding.host,
        binding.operation,
        binding.permission,
    )


def error_response(request: DeleteAclsRequest, call: Call, code: ErrorCode) -> DeleteAclsResponse:
    message = REFUSAL_TEXTS.get(code, code.name)
    return DeleteAclsResponse(filter_results=[FilterResult(code, message) for _ in request.filters])
