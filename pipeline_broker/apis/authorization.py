"""What a client may do: asked by every handler, answered by the authorizer, or with yes where there is none.

Rules of this room: a handler asks for the operation that Kafka's asks for, and answers with that API's own refusal;
what somebody may not see is left out of lists, and said to be forbidden, not missing, where it was named.
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
    """Whether the client may do something to one resource; `is_logged` is whether a denial is a refusal."""
    authorizer = _authorizer_of(call)
    if authorizer is None:
        return True
    session = call.session
    return authorizer.is_allowed(session.principal, session.host, operation, resource_type, name, is_logged=is_logged)


def may_of_cluster(call: Call, operation: AclOperation, *, is_logged: bool = True) -> bool:
    """The same of the cluster."""
    return may(call, operation, ResourceType.CLUSTER, CLUSTER_NAME, is_logged=is_logged)


def may_of_topic(call: Call, operation: AclOperation, name: str, *, is_logged: bool = True) -> bool:
    """The same of a topic."""
    return may(call, operation, ResourceType.TOPIC, name, is_logged=is_logged)


def may_of_group(call: Call, operation: AclOperation, name: str, *, is_logged: bool = True) -> bool:
    """The same of a group."""
    return may(call, operation, ResourceType.GROUP, name, is_logged=is_logged)


def may_somewhere(call: Call, operation: AclOperation, resource_type: ResourceType) -> bool:
    """Whether there may be a resource of the type that the client may do something to."""
    authorizer = _authorizer_of(call)
    if authorizer is None:
        return True
    session = call.session
    return authorizer.is_allowed_somewhere(session.principal, session.host, operation, resource_type)


def topics_allowed(call: Call, operation: AclOperation) -> Callable[[str], bool]:
    """Whether the client may do something to a topic, for one request that names topics many times."""
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
    """What the client may do to a resource, one bit per operation (KIP-430)."""
    bits = 0
    for operation in SUPPORTED[resource_type]:
        if may(call, operation, resource_type, name, is_logged=False):
            bits |= 1 << operation
    return bits


def operations_of_cluster(call: Call) -> int:
    """The same of the cluster; nothing for those who may not even describe it."""
    if not may_of_cluster(call, AclOperation.DESCRIBE):
        return 0
    return authorized_operations(call, ResourceType.CLUSTER, CLUSTER_NAME)
