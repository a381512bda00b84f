"""Access control rules as records of the metadata partition, with an index by resource.

key   = int16 type 7, then JSON [resource type, name, pattern, principal, host, operation, permission]
value = int16 version 0

Counterpart in Kafka: `AuthHelper`, `StandardAuthorizer`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence

from pipeline_broker.security.acl import (
    WILDCARD,
    AclBinding,
    AclFilter,
    AclOperation,
    PatternType,
    PermissionType,
    ResourceType,
)
from pipeline_broker.state.metadata_records import (
    RecordType,
    body_of,
    json_of,
    reading,
    record_key,
    record_type,
    record_value,
    subject_of,
)
from pipeline_broker.state.outcome import ReplayedWrites, StateRecord, Write

__all__ = ["Acls", "read_binding"]


class Acls(ReplayedWrites):
    """All rules of a cluster. A rule counts once its record is durable."""

    def __init__(self) -> None:
        self._bindings: set[AclBinding] = set()
        self._literal: dict[tuple[ResourceType, str], set[AclBinding]] = {}
        self._prefixed: dict[ResourceType, dict[str, set[AclBinding]]] = {}

    def __iter__(self) -> Iterator[AclBinding]:
        return iter(self._bindings)

    def of_resource(self, resource_type: ResourceType, name: str) -> list[AclBinding]:
        found = [*self._literal.get((resource_type, name), ())]
        if name != WILDCARD:
            found += self._literal.get((resource_type, WILDCARD), ())
        for prefix, bindings in self._prefixed.get(resource_type, {}).items():
            if name.startswith(prefix):
                found += bindings
        return found

    def of_type(self, resource_type: ResourceType) -> list[AclBinding]:
        return [binding for binding in self._bindings if binding.resource_type is resource_type]

    def __len__(self) -> int:
        return len(self._bindings)

    def matching(self, wanted: AclFilter) -> list[AclBinding]:
        return sorted(filter(wanted.matches, self._bindings))

    # Changes

    def add(self, bindings: Iterable[AclBinding]) -> Write:
        """Return the write that adds rules. Adding an existing rule changes nothing."""
        return Write("", tuple(StateRecord(_key(binding), record_value()) for binding in bindings))

    def remove(self, bindings: Sequence[AclBinding]) -> Write:
        # A tombstone removes exactly one rule. Other rules of the resource stay in force (CVE-2024-27309 in Kafka).
        return Write("", tuple(StateRecord(_key(binding), None) for binding in bindings))

    def replay(self, key: bytes, value: bytes | None) -> None:
        if record_type(key) != RecordType.ACL:
            return
        binding = read_binding(key, value)
        if value is None:
            self._forget(binding)
        else:
            self._bindings.add(binding)
            self._index(binding).add(binding)

    def _index(self, binding: AclBinding) -> set[AclBinding]:
        if binding.pattern_type is PatternType.LITERAL:
            return self._literal.setdefault((binding.resource_type, binding.resource_name), set())
        return self._prefixed.setdefault(binding.resource_type, {}).setdefault(binding.resource_name, set())

    def _forget(self, binding: AclBinding) -> None:
        self._bindings.discard(binding)
        index = self._index(binding)
        index.discard(binding)
        # Empty entries would accumulate with names that clients choose.
        if not index and binding.pattern_type is PatternType.LITERAL:
            del self._literal[binding.resource_type, binding.resource_name]
        elif not index:
            del self._prefixed[binding.resource_type][binding.resource_name]


def _key(binding: AclBinding) -> bytes:
    columns = [
        int(binding.resource_type),
        binding.resource_name,
        int(binding.pattern_type),
        binding.principal,
        binding.host,
        int(binding.operation),
        int(binding.permission),
    ]
    return record_key(RecordType.ACL, json.dumps(columns, separators=(",", ":")))


def read_binding(key: bytes, value: bytes | None) -> AclBinding:
    """Return the rule in the key of a record.

    Raises:
        CorruptStateRecordError: the key or the value is malformed, or of an unknown version.
    """
    with reading("access rule"):
        if value is not None:
            body_of(value)  # checks the version
        resource_type, name, pattern, principal, host, operation, permission = json_of(subject_of(key))
        if not isinstance(name, str) or not isinstance(principal, str) or not isinstance(host, str):
            raise TypeError("a name, a principal or a host is not a string")
        return AclBinding(
            ResourceType(resource_type),
            name,
            PatternType(pattern),
            principal,
            host,
            AclOperation(operation),
            PermissionType(permission),
        )
