"""ACLs of a cluster: list, create and delete them, as values of `security.acl`."""

from __future__ import annotations

from collections.abc import Sequence

from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.client.answers import answer_to, answers_to
from pipeline_broker.client.cluster_client import ClusterClient
from pipeline_broker.client.errors import BrokerRefused, check
from pipeline_broker.security.acl import AclBinding, AclFilter, AclOperation, PatternType, PermissionType, ResourceType
from pipeline_broker.wire.messages.security.create_acls import CreateAclsRequest, CreateAclsResponse
from pipeline_broker.wire.messages.security.delete_acls import DeleteAclsRequest, DeleteAclsResponse
from pipeline_broker.wire.messages.security.describe_acls import DescribeAclsRequest, DescribeAclsResponse

__all__ = ["create_acls", "delete_acls", "list_acls"]


async def list_acls(cluster: ClusterClient, wanted: AclFilter) -> list[AclBinding]:
    """Return the ACLs that match a filter, sorted.

    Raises:
        BrokerRefused: the client may not list ACLs, or the broker has no authorizer (SECURITY_DISABLED).
        ClientError: no broker can be reached.
    """
    request = DescribeAclsRequest(*_fields(wanted))

    async def attempt() -> list[AclBinding]:
        answer = await cluster.ask(request, DescribeAclsResponse)
        _check(answer.error_code, "access rules", answer.error_message)
        return sorted(
            _binding(found.resource_type, found.resource_name, found.pattern_type, rule)
            for found in answer.resources
            for rule in found.acls
        )

    return await cluster.retrying(attempt)


async def create_acls(cluster: ClusterClient, bindings: Sequence[AclBinding]) -> None:
    """Create ACLs; existing ones stay unchanged.

    Raises:
        BrokerRefused: an ACL is invalid, or the broker has no authorizer. Other ACLs of the call may exist already.
        ClientError: no broker can be reached.
    """
    request = CreateAclsRequest(
        [
            CreateAclsRequest.AclCreation(
                it.resource_type,
                it.resource_name,
                it.pattern_type,
                it.principal,
                it.host,
                it.operation,
                it.permission,
            )
            for it in bindings
        ]
    )

    async def attempt() -> None:
        answer = await cluster.ask(request, CreateAclsResponse)
        numbers = range(len(bindings))
        for at, it in answers_to(numbers, enumerate(answer.results), lambda at: _words(bindings[at])).items():
            _check(it.error_code, _words(bindings[at]), it.error_message)

    await cluster.retrying(attempt)


async def delete_acls(cluster: ClusterClient, wanted: AclFilter) -> list[AclBinding]:
    """Delete the ACLs that match a filter, and return them sorted.

    Raises:
        BrokerRefused: the client may not delete ACLs, or the broker has no authorizer.
        ClientError: no broker can be reached.
    """
    request = DeleteAclsRequest([DeleteAclsRequest.DeleteAclsFilter(*_fields(wanted))])
    # A retry no longer finds what an earlier attempt deleted, so all attempts add to one set.
    deleted: set[AclBinding] = set()

    async def attempt() -> None:
        answer = await cluster.ask(request, DeleteAclsResponse)
        result = answer_to(0, enumerate(answer.filter_results), "access rules")
        _check(result.error_code, "access rules", result.error_message)
        for rule in result.matching_acls:
            check(rule.error_code, f"the rule for {rule.principal}", rule.error_message)
            deleted.add(_binding(rule.resource_type, rule.resource_name, rule.pattern_type, rule))

    await cluster.retrying(attempt)
    return sorted(deleted)


def _words(binding: AclBinding) -> str:
    return f"a rule for {binding.principal}"


def _fields(wanted: AclFilter) -> tuple[int, str | None, int, str | None, str | None, int, int]:
    return (
        wanted.resource_type,
        wanted.resource_name,
        wanted.pattern_type,
        wanted.principal,
        wanted.host,
        wanted.operation,
        wanted.permission,
    )


def _binding(
    resource_type: int,
    resource_name: str,
    pattern_type: int,
    rule: DescribeAclsResponse.AclDescription | DeleteAclsResponse.DeleteAclsMatchingAcl,
) -> AclBinding:
    return AclBinding(
        ResourceType(resource_type),
        resource_name,
        PatternType(pattern_type),
        rule.principal,
        rule.host,
        AclOperation(rule.operation),
        PermissionType(rule.permission_type),
    )


def _check(code: int, what: str, message: str | None) -> None:
    if code == ErrorCode.SECURITY_DISABLED:
        words = "the broker has no authorizer, so it has no access rules: set authorizer.class.name and restart it"
        raise BrokerRefused(f"{words} (SECURITY_DISABLED)", code)
    check(code, what, message)
