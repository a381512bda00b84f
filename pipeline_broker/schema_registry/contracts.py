"""Data contracts: the metadata and rules of schemas, and their defaults and overrides in a configuration.

Merging follows Confluent's registry (`AbstractSchemaRegistry`, `Metadata.mergeMetadata`, `RuleSet.mergeRuleSets`). The
texts come from clients, so these functions run in the worker process.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from pipeline_broker.base.strict_json import RawJson, dump, load

__all__ = ["Contract", "group_values", "merged_metadata", "merged_rules", "reserved_fields"]

RESERVED = "confluent:reserved"
RULES = ("migrationRules", "domainRules", "encodingRules")

Contract: TypeAlias = RawJson | None
"""Metadata or a rule set, as JSON."""


def merged_metadata(contracts: Sequence[Contract]) -> Contract:
    """Merge metadata, without duplicates among sensitive fields; None if the result is empty.

    A later tag or property replaces an earlier one of the same name.
    """
    merged: dict[str, Any] = {}
    for content in _objects(contracts):
        for name in ("tags", "properties"):
            if isinstance(content.get(name), dict):
                merged[name] = {**merged.get(name, {}), **content[name]}
        if isinstance(content.get("sensitive"), list):
            merged["sensitive"] = list(dict.fromkeys([*merged.get("sensitive", []), *content["sensitive"]]))
    return _text(merged)


def merged_rules(contracts: Sequence[Contract]) -> Contract:
    """Merge rule sets; None if the result is empty. A later rule replaces an earlier one of the same name and kind."""
    merged: dict[str, Any] = {}
    for content in _objects(contracts):
        for kind in RULES:
            if isinstance(content.get(kind), list):
                names = {rule.get("name") for rule in content[kind] if isinstance(rule, dict)}
                kept = [rule for rule in merged.get(kind, []) if rule.get("name") not in names]
                merged[kind] = [*kept, *(rule for rule in content[kind] if isinstance(rule, dict))]
    return _text(merged)


def _objects(contracts: Sequence[Contract]) -> list[Mapping[str, Any]]:
    contents = [load(contract) for contract in contracts if contract is not None]
    return [content for content in contents if isinstance(content, dict)]


def _text(content: Mapping[str, Any]) -> Contract:
    return RawJson(dump(content, is_sorted=True)) if content else None


def group_values(metadata: Sequence[Contract], group: str) -> tuple[str | None, ...]:
    """Return the value of the property `group` in the metadata of each schema; None if it is missing."""
    return tuple(_property(each, group) for each in metadata)


def reserved_fields(metadata: Contract) -> frozenset[str]:
    """Return the field names that metadata reserves, which no schema of the subject may use."""
    names = (_property(metadata, RESERVED) or "").split(",")
    return frozenset(name.strip() for name in names if name.strip())


def _property(metadata: Contract, name: str) -> str | None:
    content = load(metadata) if metadata is not None else None
    properties = content.get("properties") if isinstance(content, dict) else None
    value = properties.get(name) if isinstance(properties, dict) else None
    return None if value is None else str(value)
