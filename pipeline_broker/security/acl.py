"""Access control rules and filters over them (Kafka's AclBinding and AclBindingFilter, KIP-290).

The numbers of the enums are those on the wire. A rule contains no ANY, MATCH or UNKNOWN. A filter may contain ANY, and
MATCH as its pattern type.
"""

from __future__ import annotations

import enum

import attrs

from pipeline_broker.base.addresses import normal_address

__all__ = [
    "CLUSTER_NAME",
    "SUPPORTED",
    "WILDCARD",
    "AclBinding",
    "AclFilter",
    "AclOperation",
    "PatternType",
    "PermissionType",
    "ResourceType",
    "address_of",
]

CLUSTER_NAME = "kafka-cluster"
"""The name of the only resource of type CLUSTER."""
WILDCARD = "*"


class ResourceType(enum.IntEnum):
    UNKNOWN = 0
    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class PatternType(enum.IntEnum):
    UNKNOWN = 0
    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


class AclOperation(enum.IntEnum):
    UNKNOWN = 0
    ANY = 1
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15


class PermissionType(enum.IntEnum):
    UNKNOWN = 0
    ANY = 1
    DENY = 2
    ALLOW = 3


SUPPORTED: dict[ResourceType, tuple[AclOperation, ...]] = {
    ResourceType.TOPIC: (
        AclOperation.READ,
        AclOperation.WRITE,
        AclOperation.CREATE,
        AclOperation.DELETE,
        AclOperation.ALTER,
        AclOperation.DESCRIBE,
        AclOperation.DESCRIBE_CONFIGS,
        AclOperation.ALTER_CONFIGS,
    ),
    ResourceType.GROUP: (
        AclOperation.READ,
        AclOperation.DELETE,
        AclOperation.DESCRIBE,
        AclOperation.DESCRIBE_CONFIGS,
        AclOperation.ALTER_CONFIGS,
    ),
    ResourceType.CLUSTER: (
        AclOperation.CREATE,
        AclOperation.ALTER,
        AclOperation.DESCRIBE,
        AclOperation.CLUSTER_ACTION,
        AclOperation.DESCRIBE_CONFIGS,
        AclOperation.ALTER_CONFIGS,
        AclOperation.IDEMPOTENT_WRITE,
    ),
    ResourceType.TRANSACTIONAL_ID: (AclOperation.WRITE, AclOperation.DESCRIBE, AclOperation.TWO_PHASE_COMMIT),
    ResourceType.DELEGATION_TOKEN: (AclOperation.DESCRIBE,),
    ResourceType.USER: (AclOperation.CREATE_TOKENS, AclOperation.DESCRIBE_TOKENS),
}
"""Operations that Kafka allows in rules for each type of resource."""


def address_of(host: str) -> str:
    """Return a host for comparisons: the normal form of an address; any other text unchanged."""
    # Rules may contain IPv6 addresses in Java's notation.
    return normal_address(host) or host


@attrs.frozen(order=True)
class AclBinding:
    """A rule that allows or denies a principal an operation on resources.

    Attributes:
        resource_type, resource_name, pattern_type: the resources; the LITERAL name `*` means all of the type.
        principal: such as `User:alice`; `User:*` means every user.
        host: an address as it was entered, or `*`.
        operation, permission: the operation and whether it is allowed or denied.
        address: the normalized host, which comparisons use.
    """

    resource_type: ResourceType
    resource_name: str
    pattern_type: PatternType
    principal: str
    host: str
    operation: AclOperation
    permission: PermissionType
    address: str = attrs.field(init=False, eq=False, repr=False)

    @address.default
    def _address(self) -> str:
        return address_of(self.host)


@attrs.frozen
class AclFilter:
    """A filter over rules. None and ANY match everything.

    The pattern type MATCH selects the rules that cover a resource named `resource_name`.
    """

    resource_type: ResourceType
    resource_name: str | None
    pattern_type: PatternType
    principal: str | None
    host: str | None
    operation: AclOperation
    permission: PermissionType
    address: str | None = attrs.field(init=False, eq=False, repr=False)

    @address.default
    def _address(self) -> str | None:
        return None if self.host is None else address_of(self.host)

    def matches(self, binding: AclBinding) -> bool:
        return (
            self.resource_type in (ResourceType.ANY, binding.resource_type)
            and self.principal in (None, binding.principal)
            and self.address in (None, binding.address)
            and self.operation in (AclOperation.ANY, binding.operation)
            and self.permission in (PermissionType.ANY, binding.permission)
            and self._matches_name(binding)
        )

    def _matches_name(self, binding: AclBinding) -> bool:
        if self.pattern_type not in (PatternType.ANY, PatternType.MATCH, binding.pattern_type):
            return False
        wanted, name = self.resource_name, binding.resource_name
        if wanted is None or self.pattern_type is not PatternType.MATCH:
            return wanted in (None, name)
        if binding.pattern_type is PatternType.PREFIXED:
            return wanted.startswith(name)
        return name in (wanted, WILDCARD)
