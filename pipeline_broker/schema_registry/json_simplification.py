"""Simplification of JSON Schemas, so that schemas in different words are compared by their meaning.

A simplified schema accepts exactly the same instances:

* A single branch of `anyOf` or `oneOf` replaces the keyword.
* The parts of an `allOf` become one schema, unless a keyword of one part depends on a keyword of another.
* `unevaluated...` becomes `additional...` if no keyword applies a subschema to the same value.

Results are kept, because comparisons identify schemas by id().
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pipeline_broker.schema_registry.json_keywords import IN_PLACE

__all__ = ["Simplification"]

# Alternatives of one schema. A schema with more is compared as a whole.
ALTERNATIVES_MAX = 64
# Nesting of branches within branches.
DEPTH_MAX = 64
# Keywords that restrict nothing, so they are not merged into another schema.
ANNOTATIONS = frozenset({
    "$schema", "$id", "id", "$anchor", "$dynamicAnchor", "$comment", "$defs", "definitions", "title", "description",
    "default", "examples", "deprecated", "readOnly", "writeOnly",
})  # fmt: skip
# Keywords of one group depend on each other: `additionalProperties` means all properties that `properties` does not
# name.
GROUPS = (
    frozenset({"properties", "patternProperties", "additionalProperties"}),
    frozenset({"items", "prefixItems", "additionalItems", "contains", "minContains", "maxContains"}),
    frozenset({"if", "then", "else"}),
)
CLOSING = frozenset({"patternProperties", "additionalProperties"})
UNEVALUATED = frozenset({"unevaluatedProperties", "unevaluatedItems"})


class Simplification:
    """The simplification of a document's schemas.

    Args:
        resolved: resolves a reference; returns any other schema itself.
    """

    def __init__(self, resolved: Callable[[Any], Any]) -> None:
        self._resolved = resolved
        self._simplified: dict[int, tuple[Any, Any]] = {}  # by id() of the schema, which the value keeps alive
        self._alternatives: dict[int, tuple[Any, list[Any]]] = {}
        self._depth = 0

    def simplified(self, schema: Any) -> Any:
        """Return a schema that accepts the same instances, with references resolved and single branches inlined."""
        if id(schema) in self._simplified:
            return self._simplified[id(schema)][1]
        found = self._resolved(schema)
        if isinstance(found, dict) and self._depth < DEPTH_MAX:
            self._simplified[id(schema)] = schema, found  # ends the recursion of a schema that contains itself
            self._depth += 1
            found = self._without_unevaluated(self._flat(found))
            self._depth -= 1
        self._simplified[id(schema)] = schema, found
        self._simplified.setdefault(id(found), (found, found))
        return found

    def _flat(self, schema: dict[str, Any]) -> dict[str, Any]:
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
        # If no keyword applies a subschema to the same value, `unevaluated...` means the same as `additional...`.
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
        """Return simpler schemas that together accept the same instances as `schema`.

        The result is empty if `schema` cannot be split, or only into more than ALTERNATIVES_MAX.
        """
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
    """Return the schema for instances that both schemas accept; None if no simple one exists."""
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
    if group.isdisjoint(one) or group.isdisjoint(other):
        return True
    return group is GROUPS[0] and CLOSING.isdisjoint(one) and CLOSING.isdisjoint(other)


def _joined(name: str, one: Any, other: Any) -> Any:
    """Return one value of a keyword that restricts like both values together; None if no simple one exists."""
    if _is_equal(one, other):
        return one
    if name == "required":
        return list(dict.fromkeys([*one, *other]))
    if name == "properties" and one.keys().isdisjoint(other):
        return {**one, **other}
    return [*one, *other] if name == "allOf" else None


def _is_equal(one: Any, other: Any) -> bool:
    return type(one) is type(other) and isinstance(one, str | list) and one == other
