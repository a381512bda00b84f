"""Rules of access and filters over them, as the three APIs about them carry them.

Rules of this file: a number that stands for UNKNOWN closes the connection, one that nobody knows is UNKNOWN as well but
is answered: both as in Apache Kafka.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Protocol, TypeVar

from pipeline_broker.security.acl import AclFilter, AclOperation, PatternType, PermissionType, ResourceType

__all__ = ["FilterFields", "filter_of", "has_unknown", "kind_of"]

UNKNOWN = 0
Kind = TypeVar("Kind", bound=IntEnum)


class FilterFields(Protocol):
    """The fields of a filter in DescribeAcls and DeleteAcls."""

    resource_type_filter: int
    resource_name_filter: str | None
    pattern_type_filter: int
    principal_filter: str | None
    host_filter: str | None
    operation: int
    permission_type: int


def has_unknown(*numbers: int) -> bool:
    """Whether one of them is the number of UNKNOWN itself."""
    return UNKNOWN in numbers


def kind_of(kinds: type[Kind], number: int) -> Kind:
    """What a number stands for; UNKNOWN where it stands for nothing."""
    try:
        return kinds(number)
    except ValueError:
        return kinds(UNKNOWN)


def filter_of(fields: FilterFields) -> AclFilter:
    """The filter that a request carries."""
    return AclFilter(
        kind_of(ResourceType, fields.resource_type_filter),
        fields.resource_name_filter,
        kind_of(PatternType, fields.pattern_type_filter),
        fields.principal_filter,
        fields.host_filter,
        kind_of(AclOperation, fields.operation),
        kind_of(PermissionType, fields.permission_type),
    )
