"""Who may do what: Kafka's StandardAuthorizer over the rules of access.

Rules of this file: super users may do everything. Otherwise a rule that denies wins over every rule that allows; what
nobody mentions is decided by `allow.everyone.if.no.acl.found` when no rule at all is about the resource, and denied
when there are rules that do not fit. To be allowed to read, write, delete or alter implies to describe, and to alter
configs implies to describe them; to be denied implies nothing more. Principals are compared as they are, hosts as
addresses.
Every denial is counted and told to a logger of its own, in Kafka's words; what is allowed costs nothing there.
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
"""The name of the logger of denials."""
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
ANYBODY = f"{USER}:{WILDCARD}"
IMPLYING: dict[AclOperation, frozenset[AclOperation]] = {
    AclOperation.DESCRIBE: frozenset(
        {AclOperation.READ, AclOperation.WRITE, AclOperation.DELETE, AclOperation.ALTER, AclOperation.DESCRIBE}
    ),
    AclOperation.DESCRIBE_CONFIGS: frozenset({AclOperation.ALTER_CONFIGS, AclOperation.DESCRIBE_CONFIGS}),
}
"""What, when it is allowed, allows an operation that is asked for."""


ADDRESSES_MAX = 1_000
"""Of clients, in the form in which rules are compared: to read one takes longer than to apply a rule."""
_client_address = functools.lru_cache(maxsize=ADDRESSES_MAX)(address_of)


class _Finding(enum.Enum):
    NO_RULES = enum.auto()
    NOT_MENTIONED = enum.auto()
    ALLOWED = enum.auto()
    DENIED = enum.auto()


@attrs.frozen
class _Asker:
    """Who asks, from where."""

    principal: str
    host: str
    address: str

    def is_meant(self, binding: AclBinding) -> bool:
        return binding.principal in (self.principal, ANYBODY) and binding.address in (self.address, WILDCARD)


def _fits(binding: AclBinding, operation: AclOperation) -> bool:
    if binding.operation in (AclOperation.ALL, operation):
        return True
    return binding.permission is PermissionType.ALLOW and binding.operation in IMPLYING.get(operation, ())


class Authorizer:
    """See the rules of the file.

    Args:
        super_users: principals in the form `User:name`.
        allow_everyone: `allow.everyone.if.no.acl.found`.
        denials: where they are counted, if anywhere.
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
        """Whether somebody may do something to one resource; `is_logged` is whether a denial is a refusal."""
        asker = _Asker(str(principal), host, _client_address(host))
        if asker.principal in self._super_users:
            return True
        finding = self._find(asker, operation, self.acls.of_resource(resource_type, name))
        if finding is _Finding.ALLOWED or (finding is _Finding.NO_RULES and self._allow_everyone):
            return True
        if is_logged:
            kind_of_resource = RESOURCES[resource_type]
            if self._denials is not None:
                self._denials.add((operation.name, kind_of_resource), (asker.principal, asker.host), name)
            resource = f"{kind_of_resource}:LITERAL:{name}"
            logger.info(DENIED, asker.principal, operation.name, asker.host, resource)
        return False

    @staticmethod
    def _find(asker: _Asker, operation: AclOperation, rules: list[AclBinding]) -> _Finding:
        finding = _Finding.NOT_MENTIONED if rules else _Finding.NO_RULES
        for binding in rules:
            if asker.is_meant(binding) and _fits(binding, operation):
                if binding.permission is PermissionType.DENY:
                    return _Finding.DENIED
                finding = _Finding.ALLOWED
        return finding

    def is_allowed_somewhere(
        self, principal: KafkaPrincipal, host: str, operation: AclOperation, resource_type: ResourceType
    ) -> bool:
        """Whether there may be a resource of the type that somebody may do something to.

        A rule allows it, and none that denies covers all that this one allows (Kafka's authorizeByResourceType).
        """
        asker = _Asker(str(principal), host, _client_address(host))
        if asker.principal in self._super_users:
            return True
        of_type = self.acls.of_type(resource_type)
        if self._allow_everyone and not any(map(_is_about_all, of_type)):
            return True  # there are names that no rule mentions
        rules = [
            binding
            for binding in of_type
            if asker.is_meant(binding) and binding.operation in (AclOperation.ALL, operation)
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
    """Whether rules that deny leave nothing of what one rule allows."""
    if _is_about_all(allowed):
        return False
    return any(
        allowed.resource_name == binding.resource_name and _is_literal(allowed)
        if _is_literal(binding)
        else allowed.resource_name.startswith(binding.resource_name)
        for binding in denied
    )
