"""DescribeAcls: the ACLs that match a filter, grouped by resource."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby

from pipeline_broker.apis.authorization import authorize_cluster
from pipeline_broker.apis.call import Call
from pipeline_broker.apis.security.acl_messages import filter_of, has_unknown
from pipeline_broker.apis.steps import Stepwise
from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.security.acl import AclBinding, AclOperation
from pipeline_broker.wire.messages.security.describe_acls import DescribeAclsRequest, DescribeAclsResponse
from stages.request import Close, Result

Description = DescribeAclsResponse.AclDescription


def handle(call: Call, request: DescribeAclsRequest) -> Stepwise[Result]:
    wanted = filter_of(request)
    if has_unknown(
        request.resource_type_filter, request.pattern_type_filter, request.operation, request.permission_type
    ):
        return Close("DescribeAcls with an UNKNOWN element")
    if not authorize_cluster(call, AclOperation.DESCRIBE):
        return call.refuse(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    if call.broker.authorizer is None:
        return call.send(
            DescribeAclsResponse(
                error_code=ErrorCode.SECURITY_DISABLED, error_message="No Authorizer is configured on the broker"
            )
        )
    found = _by_resource(call.broker.acls.matching(wanted))
    return (yield from call.send_in_steps(DescribeAclsResponse(error_message="", resources=found)))


def _by_resource(bindings: Iterable[AclBinding]) -> list[DescribeAclsResponse.DescribeAclsResource]:
    return [
        DescribeAclsResponse.DescribeAclsResource(
            *resource,
            acls=[
                Description(binding.principal, binding.host, binding.operation, binding.permission) for binding in group
            ],
        )
        for resource, group in groupby(
            bindings, key=lambda binding: (binding.resource_type, binding.resource_name, binding.pattern_type)
        )
    ]
