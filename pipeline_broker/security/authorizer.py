"""Authorization by access control rules, like Kafka's StandardAuthorizer.

Counterpart in Kafka: `AuthHelper`, `StandardAuthorizer`.
"""

from __future__ import annotations

import enum
import functools
import logging
from collections.abc import Iterable
from typing import TYPE_CHECKING

import attrs

from pipeline_broker.security.acl import (
    WILDCARD,
    AclBinding,
    AclOperation,
    PatternType,
    PermissionType,
    ResourceType,
    address_of,
)
from pipeline_broker.security.principal import USER

if TYPE_CHECKING:
    from pipeline_broker.security.acls import Acls
    from pipeline_broker.security.principal import KafkaPrincipal
    from pipeline_broker.security.refusals import Refusals

__all__ = ["LOGGER", "Authorizer"]

LOGGER = "pipeline_broker.authorizer"
"""Name of the logger of denials."""
logger = logging.getLogger(LOGGER)

DENIED = "Principal = %s is Denied operation = %s from host = %s on resource = %s"
RESOURCES = {
    ResourceType.TOPIC: "Topic",
    ResourceType.GROUP: "Group",
    ResourceType.CLUSTER: "Cluster",
    ResourceType.TRANSACTIONAL_ID: "TransactionalId",
    ResourceType.DELEGATION_TOKEN: "DelegationToken",
    ResourceType.USER: "User",
}
EVERY_USER = f"{USER}:{WILDCARD}"
# Operations that imply an operation if they are allowed.
IMPLIED_BY: dict[AclOperation, frozenset[AclOperation]] = {
    AclOperation.DESCRIBE: frozenset(
        {AclOperation.READ, AclOperation.WRITE, AclOperation.DELETE, AclOperation.ALTER, AclOperation.DESCRIBE}
    ),
    AclOperation.DESCRIBE_CONFIGS: frozenset({AclOperation.ALTER_CONFIGS, AclOperation.DESCRIBE_CONFIGS}),
}


# Cached client addresses. Parsing one takes longer than comparing it with a rule.
ADDRESSES_MAX = 1_000
"""Parsed client addresses that are remembered."""
_client_address = functools.lru_cache(maxsize=ADDRESSES_MAX)(address_of)


class _Finding(enum.Enum):
    NO_RULES = enum.auto()
    NOT_MENTIONED = enum.auto()
    ALLOWED = enum.auto()
    DENIED = enum.auto()


@attrs.frozen
class _Client:
    principal: str
    host: str
    address: str

    def is_subject_of(self, binding: AclBinding) -> bool:
        return binding.principal in (self.principal, EVERY_USER) and binding.address in (self.address, WILDCARD)


def _fits(binding: AclBinding, operation: AclOperation) -> bool:
    if binding.operation in (AclOperation.ALL, operation):
        return True
    return binding.permission is PermissionType.ALLOW and binding.operation in IMPLIED_BY.get(operation, ())


class Authorizer:
    """The decisions whether principals may perform operations on resources.

    * Super users may do everything.
    * A matching rule that denies wins over all rules that allow.
    * Without a matching rule, the operation is denied. If the resource has no rules at all, `allow_everyone` decides.
    * An allowed READ, WRITE, DELETE or ALTER implies DESCRIBE, and ALTER_CONFIGS implies DESCRIBE_CONFIGS. A denied
      operation implies nothing.

    Each denial is counted, and logged with Kafka's text on a logger of its own. Permitted operations are not logged.

    Args:
        acls: the rules.
        super_users: principals in the form `User:name`.
        allow_everyone: Kafka's `allow.everyone.if.no.acl.found`.
        denials: counts the denials; None to count none.
    """

    def __init__(
        self,
        acls: Acls,
        super_users: Iterable[str] = (),
        *,
        allow_everyone: bool = False,
        denials: Refusals | None = None,
    ) -> None:
        self.acls = acls
        self._denials = denials
        self._super_users = frozenset(super_users)
        self._allow_everyone = allow_everyone

    def is_allowed(
        self,
        principal: KafkaPrincipal,
        host: str,
        operation: AclOperation,
        resource_type: ResourceType,
        name: str,
        *,
        is_logged: bool = True,
    ) -> bool:
        """Return whether a principal may perform an operation on a resource.

        Args:
            principal: compared exactly, including case.
            host: the client's address.
            is_logged: whether to count and log a denial. False if a denial does not refuse the request.
        """
        client = _Client(str(principal), host, _client_address(host))
        if client.principal in self._super_users:
            return True
        finding = self._find(client, operation, self.acls.of_resource(resource_type, name))
        if finding is _Finding.ALLOWED or (finding is _Finding.NO_RULES and self._allow_everyone):
            return True
        if is_logged:
            kind_of_resource = RESOURCES[resource_type]
            if self._denials is not None:
                self._denials.add((operation.name, kind_of_resource), (client.principal, client.host), name)
            resource = f"{kind_of_resource}:LITERAL:{name}"
            logger.info(DENIED, client.principal, operation.name, client.host, resource)
        return False

    @staticmethod
    def _find(client: _Client, operation: AclOperation, rules: list[AclBinding]) -> _Finding:
        finding = _Finding.NOT_MENTIONED if rules else _Finding.NO_RULES
        for binding in rules:
            if client.is_subject_of(binding) and _fits(binding, operation):
                if binding.permission is PermissionType.DENY:
                    return _Finding.DENIED
                # Not final: a later rule may deny.
                finding = _Finding.ALLOWED
        return finding

    def is_allowed_by_resource_type(
        self, principal: KafkaPrincipal, host: str, operation: AclOperation, resource_type: ResourceType
    ) -> bool:
        """Return whether a principal may perform an operation on some resource of a type.

        As in Kafka's authorizeByResourceType, an allowing rule suffices unless denying rules cover all of its
        resources. A denial is neither counted nor logged.
        """
        client = _Client(str(principal), host, _client_address(host))
        if client.principal in self._super_users:
            return True
        of_type = self.acls.of_type(resource_type)
        if self._allow_everyone and not any(map(_is_about_all, of_type)):
            return True  # names without rules exist
        rules = [
            binding
            for binding in of_type
            # Implied operations do not count here, as in Kafka.
            if client.is_subject_of(binding) and binding.operation in (AclOperation.ALL, operation)
        ]
        denied = [binding for binding in rules if binding.permission is PermissionType.DENY]
        if any(map(_is_about_all, denied)):
            return False
        return any(binding.permission is PermissionType.ALLOW and not _is_covered(binding, denied) for binding in rules)


def _is_literal(binding: AclBinding) -> bool:
    return binding.pattern_type is PatternType.LITERAL


def _is_about_all(binding: AclBinding) -> bool:
    return binding.resource_name == WILDCARD and _is_literal(binding)


def _is_covered(allowed: AclBinding, denied: list[AclBinding]) -> bool:
    # The caller has checked that no denying rule is about all resources.
    if _is_about_all(allowed):
        return False
    return any(
        allowed.resource_name == binding.resource_name and _is_literal(allowed)
        if _is_literal(binding)
        else allowed.resource_name.startswith(binding.resource_name)
        for binding in denied
    )
