"""ACL checks for request handlers.

Every check passes if the session is trusted or the broker has no authorizer.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from pipeline_broker.security.acl import CLUSTER_NAME, SUPPORTED, AclOperation, ResourceType

if TYPE_CHECKING:
    from pipeline_broker.apis.call import Call
    from pipeline_broker.security.authorizer import Authorizer

__all__ = [
    "authorized_operations",
    "may",
    "may_of_cluster",
    "may_of_group",
    "may_of_topic",
    "may_somewhere",
    "operations_of_cluster",
    "topics_allowed",
]


def _authorizer_of(call: Call) -> Authorizer | None:
    return None if call.session.is_trusted else call.broker.authorizer


def may(call: Call, operation: AclOperation, resource_type: ResourceType, name: str, *, is_logged: bool = True) -> bool:
    """Return whether the client may perform an operation on a resource.

    Args:
        is_logged: whether a denial is logged as a refusal; False for resources that are only left out of a list.
    """
    authorizer = _authorizer_of(call)
    if authorizer is None:
        return True
    session = call.session
    return authorizer.is_allowed(session.principal, session.host, operation, resource_type, name, is_logged=is_logged)


def may_of_cluster(call: Call, operation: AclOperation, *, is_logged: bool = True) -> bool:
    return may(call, operation, ResourceType.CLUSTER, CLUSTER_NAME, is_logged=is_logged)


def may_of_topic(call: Call, operation: AclOperation, name: str, *, is_logged: bool = True) -> bool:
    return may(call, operation, ResourceType.TOPIC, name, is_logged=is_logged)


def may_of_group(call: Call, operation: AclOperation, name: str, *, is_logged: bool = True) -> bool:
    return may(call, operation, ResourceType.GROUP, name, is_logged=is_logged)


def may_somewhere(call: Call, operation: AclOperation, resource_type: ResourceType) -> bool:
    """Return whether the client may perform the operation on any resource of the type, existing or not."""
    authorizer = _authorizer_of(call)
    if authorizer is None:
        return True
    session = call.session
    return authorizer.is_allowed_somewhere(session.principal, session.host, operation, resource_type)


def topics_allowed(call: Call, operation: AclOperation) -> Callable[[str], bool]:
    """Return a function that checks a topic name, and caches the result for the rest of one request."""
    if _authorizer_of(call) is None:
        return _anything
    known: dict[str, bool] = {}

    def is_allowed(name: str) -> bool:
        if name not in known:
            known[name] = may_of_topic(call, operation, name)
        return known[name]

    return is_allowed


def _anything(name: str) -> bool:
    del name
    return True


def authorized_operations(call: Call, resource_type: ResourceType, name: str) -> int:
    """Return the operations that the client may perform on a resource, as a bit field (KIP-430)."""
    bits = 0
    for operation in SUPPORTED[resource_type]:
        if may(call, operation, resource_type, name, is_logged=False):
            bits |= 1 << operation
    return bits


def operations_of_cluster(call: Call) -> int:
    """Like `authorized_operations` for the cluster; 0 if the client may not describe the cluster."""
    if not may_of_cluster(call, AclOperation.DESCRIBE):
        return 0
    return authorized_operations(call, ResourceType.CLUSTER, CLUSTER_NAME)
