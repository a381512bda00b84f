"""JSON Schema: the same schema in fewer words, so that authors who say it differently are compared by what they mean.

Rules of this file: a simpler schema accepts exactly what the original does. A branch that stands alone is what it
holds; the parts of an `allOf` are one schema as long as no keyword of one looks at those of another; where nothing is
applied in place, `unevaluated...` is about the same properties or items as `additional...`. The alternatives of a
schema together accept what it accepts. Each result is kept, because comparisons know schemas by their identity.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pipeline_broker.schema_registry.json_keywords import IN_PLACE

__all__ = ["Simplification"]

ALTERNATIVES_MAX = 64
"""Of one schema; one with more is compared as a whole."""
DEPTH_MAX = 64
"""Of branches in branches."""
ANNOTATIONS = frozenset({
    "$schema", "$id", "id", "$anchor", "$dynamicAnchor", "$comment", "$defs", "definitions", "title", "description",
    "default", "examples", "deprecated", "readOnly", "writeOnly",
})  # fmt: skip
"""Keywords that accept everything. That one schema has them says nothing about another."""
GROUPS = (
    frozenset({"properties", "patternProperties", "additionalProperties"}),
    frozenset({"items", "prefixItems", "additionalItems", "contains", "minContains", "maxContains"}),
    frozenset({"if", "then", "else"}),
)
"""Keywords that look at each other."""
CLOSING = frozenset({"patternProperties", "additionalProperties"})
UNEVALUATED = frozenset({"unevaluatedProperties", "unevaluatedItems"})


class Simplification:
    """Simplifies the schemas of a document.

    Args:
        resolved: gives what a reference leads to.
    """

    def __init__(self, resolved: Callable[[Any], Any]) -> None:
        self._resolved = resolved
        self._simplified: dict[int, tuple[Any, Any]] = {}  # by ids of schemas, which are kept alive beside
        self._alternatives: dict[int, tuple[Any, list[Any]]] = {}
        self._depth = 0

    def simplified(self, schema: Any) -> Any:
        """Return a schema that accepts the same, with references resolved and lone branches in place."""
        if id(schema) in self._simplified:
            return self._simplified[id(schema)][1]
        found = self._resolved(schema)
        if isinstance(found, dict) and self._depth < DEPTH_MAX:
            self._simplified[id(schema)] = schema, found  # one that leads to itself is left as it is
            self._depth += 1
            found = self._without_unevaluated(self._flat(found))
            self._depth -= 1
        self._simplified[id(schema)] = schema, found
        self._simplified.setdefault(id(found), (found, found))
        return found

    def _flat(self, schema: dict[str, Any]) -> dict[str, Any]:
        """Put into a schema what its lone branches hold, and the parts of its `allOf`."""
        if not UNEVALUATED.isdisjoint(schema):
            inner = {name: value for name, value in schema.items() if name not in UNEVALUATED}
            flat = self._flat(inner)
            if flat is inner or any(name in flat for name in IN_PLACE):
                return schema
            return {**flat, **{name: schema[name] for name in UNEVALUATED if name in schema}}
        for name in ("allOf", "anyOf", "oneOf"):
            branches = schema.get(name)
            if isinstance(branches, list) and (name == "allOf" or len(branches) == 1):
                merged: dict[str, Any] | None = {key: value for key, value in schema.items() if key != name}
                for branch in branches:
                    part = self.simplified(branch)
                    merged = _both(merged, part) if merged is not None else None
                if merged is not None:
                    return self._flat(merged)
        return schema

    def _without_unevaluated(self, schema: dict[str, Any]) -> dict[str, Any]:
        """Say `unevaluated...` with `additional...` if nothing is applied in place."""
        if UNEVALUATED.isdisjoint(schema) or any(name in schema for name in IN_PLACE):
            return schema
        found = {name: value for name, value in schema.items() if name not in UNEVALUATED}
        if "unevaluatedProperties" in schema:
            found.setdefault("additionalProperties", schema["unevaluatedProperties"])
        if "unevaluatedItems" in schema:
            if "contains" in schema:
                found["unevaluatedItems"] = schema["unevaluatedItems"]
            else:
                rest = "additionalItems" if isinstance(schema.get("items"), list) else "items"
                found.setdefault(rest, schema["unevaluatedItems"])
        return found

    def alternatives(self, schema: Any) -> list[Any]:
        """Return simpler schemas of which one accepts what a schema accepts; none if it has no alternatives."""
        if not isinstance(schema, dict):
            return []
        if id(schema) not in self._alternatives:
            found = self._split(schema)
            self._alternatives[id(schema)] = schema, found if len(found) <= ALTERNATIVES_MAX else []
        return self._alternatives[id(schema)][1]

    def _split(self, schema: dict[str, Any]) -> list[Any]:
        if not UNEVALUATED.isdisjoint(schema):
            return []
        for name in ("anyOf", "oneOf"):
            if isinstance(schema.get(name), list):
                rest = {key: value for key, value in schema.items() if key != name}
                every = [self.simplified(branch) for branch in schema[name]]
                return [merged for it in every if (merged := _merged(rest, it)) is not False]
        for name in ("type", "enum"):
            values = schema.get(name)
            if isinstance(values, list) and len(values) > 1:
                single = [value if name == "type" else [value] for value in values]
                return [self.simplified({**schema, name: value}) for value in single]
        return []


def _merged(rest: dict[str, Any], branch: Any) -> Any:
    found = _both(rest, branch)
    return {"allOf": [rest, branch]} if found is None else found


def _both(one: Mapping[str, Any], other: Any) -> Any:
    """Return the schema that accepts what both of two accept; None if there is no simple one."""
    if other is True or other == {}:
        return dict(one)
    if not isinstance(other, dict):
        return None
    if one.keys() <= ANNOTATIONS:
        return {**one, **other}
    theirs = {name: value for name, value in other.items() if name not in ANNOTATIONS}
    if not UNEVALUATED.isdisjoint({*one, *theirs}) or not all(_is_apart(group, one, theirs) for group in GROUPS):
        return None
    merged = dict(one)
    for name, value in theirs.items():
        joined = value if name not in merged else _joined(name, merged[name], value)
        if joined is None:
            return None
        merged[name] = joined
    return merged


def _is_apart(group: frozenset[str], one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Return whether no keyword of a group looks at what another schema has of it."""
    if group.isdisjoint(one) or group.isdisjoint(other):
        return True
    return group is GROUPS[0] and CLOSING.isdisjoint(one) and CLOSING.isdisjoint(other)


def _joined(name: str, one: Any, other: Any) -> Any:
    """Return the value with which a keyword asks for what two values ask for; None if there is no simple one."""
    if _is_equal(one, other):
        return one
    if name == "required":
        return list(dict.fromkeys([*one, *other]))
    if name == "properties" and one.keys().isdisjoint(other):
        return {**one, **other}
    return [*one, *other] if name == "allOf" else None


def _is_equal(one: Any, other: Any) -> bool:
    return type(one) is type(other) and isinstance(one, str | list) and one == other
