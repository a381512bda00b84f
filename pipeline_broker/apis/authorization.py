"""ACL checks for request handlers.

Every check passes if the session is trusted or the broker has no authorizer.

Counterpart in Kafka: `AuthHelper`, `StandardAuthorizer`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from pipeline_broker.security.acl import CLUSTER_NAME, SUPPORTED, AclOperation, ResourceType

if TYPE_CHECKING:
    from pipeline_broker.apis.call import Call
    from pipeline_broker.security.authorizer import Authorizer

__all__ = [
    "authorize",
    "authorize_by_resource_type",
    "authorize_cluster",
    "authorize_group",
    "authorize_topic",
    "authorized_operations",
    "cluster_authorized_operations",
    "topics_allowed",
]


def _authorizer_of(call: Call) -> Authorizer | None:
    return None if call.session.is_trusted else call.broker.authorizer


def authorize(
    call: Call, operation: AclOperation, resource_type: ResourceType, name: str, *, is_logged: bool = True
) -> bool:
    """Return whether the client may perform an operation on a resource.

    Args:
        is_logged: whether a denial is logged. Pass False if a denial refuses nothing: another right may allow the
            request, or a list only omits the resource.
    """
    authorizer = _authorizer_of(call)
    if authorizer is None:
        return True
    session = call.session
    is_allowed = authorizer.is_allowed(
        session.principal, session.host, operation, resource_type, name, is_logged=is_logged
    )
    if not is_allowed and is_logged and session.denied is None:
        session.denied = operation, resource_type, name
    return is_allowed


def authorize_cluster(call: Call, operation: AclOperation, *, is_logged: bool = True) -> bool:
    return authorize(call, operation, ResourceType.CLUSTER, CLUSTER_NAME, is_logged=is_logged)


def authorize_topic(call: Call, operation: AclOperation, name: str, *, is_logged: bool = True) -> bool:
    return authorize(call, operation, ResourceType.TOPIC, name, is_logged=is_logged)


def authorize_group(call: Call, operation: AclOperation, name: str, *, is_logged: bool = True) -> bool:
    return authorize(call, operation, ResourceType.GROUP, name, is_logged=is_logged)


def authorize_by_resource_type(call: Call, operation: AclOperation, resource_type: ResourceType) -> bool:
    """Return whether the client may perform the operation on at least one resource of the type, existing or not."""
    authorizer = _authorizer_of(call)
    if authorizer is None:
        return True
    session = call.session
    return authorizer.is_allowed_by_resource_type(session.principal, session.host, operation, resource_type)


def topics_allowed(call: Call, operation: AclOperation, *, is_logged: bool = True) -> Callable[[str], bool]:
    """Return a function that returns whether the client may perform an operation on a topic.

    The function caches its results, so it is valid for one request only.
    """
    if _authorizer_of(call) is None:
        return _anything
    known: dict[str, bool] = {}

    def is_allowed(name: str) -> bool:
        if name not in known:
            known[name] = authorize_topic(call, operation, name, is_logged=is_logged)
        return known[name]

    return is_allowed


def _anything(name: str) -> bool:
    del name
    return True


def authorized_operations(call: Call, resource_type: ResourceType, name: str) -> int:
    """Return the operations that the client may perform on a resource (KIP-430).

    The result is a bit field, in which bit n stands for the operation with the number n.
    """
    bits = 0
    for operation in SUPPORTED[resource_type]:
        if authorize(call, operation, resource_type, name, is_logged=False):
            bits |= 1 << operation
    return bits


def cluster_authorized_operations(call: Call) -> int:
    """Return the operations that the client may perform on the cluster, like `authorized_operations`.

    The result is 0 if the client may not describe the cluster.
    """
    if not authorize_cluster(call, AclOperation.DESCRIBE):
        return 0
    return authorized_operations(call, ResourceType.CLUSTER, CLUSTER_NAME)
