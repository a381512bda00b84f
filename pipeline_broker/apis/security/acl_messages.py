"""Conversion of ACLs and ACL filters in requests.

As in Apache Kafka, the number of UNKNOWN closes the connection. An unassigned number also becomes UNKNOWN, but gets a
response.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Protocol, TypeVar

from pipeline_broker.security.acl import AclFilter, AclOperation, PatternType, PermissionType, ResourceType

__all__ = ["FilterFields", "filter_of", "has_unknown", "kind_of"]

UNKNOWN = 0
Kind = TypeVar("Kind", bound=IntEnum)


class FilterFields(Protocol):
    resource_type_filter: int
    resource_name_filter: str | None
    pattern_type_filter: int
    principal_filter: str | None
    host_filter: str | None
    operation: int
    permission_type: int


def has_unknown(*numbers: int) -> bool:
    return UNKNOWN in numbers


def kind_of(kinds: type[Kind], number: int) -> Kind:
    """Return the enum member of a number; UNKNOWN for an unassigned number."""
    try:
        return kinds(number)
    except ValueError:
        return kinds(UNKNOWN)


def filter_of(fields: FilterFields) -> AclFilter:
    return AclFilter(
        kind_of(ResourceType, fields.resource_type_filter),
        fields.resource_name_filter,
        kind_of(PatternType, fields.pattern_type_filter),
        fields.principal_filter,
        fields.host_filter,
        kind_of(AclOperation, fields.operation),
        kind_of(PermissionType, fields.permission_type),
    )
