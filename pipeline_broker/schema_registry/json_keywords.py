"""Single keywords of JSON Schema: their values, and whether a change of one narrows a schema.

Serves `json_compatibility`, which compares subschemas. Functions that return how a schema narrows list differences by
Confluent's names; the list is empty if it does not narrow. RE2 matches the patterns, because a pattern of an untrusted
client could keep Python's `re` busy for hours.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Any, TypeAlias

import re2

__all__ = [
    "accepted_by",
    "bounds_narrowed",
    "covering_schemas",
    "dependencies_of",
    "distinct_texts",
    "has_bounds",
    "is_equivalent",
    "is_matched",
    "item_difference_of",
    "items_of",
    "multiple_narrowed",
    "named_values_refused",
    "pattern_matches",
    "pattern_narrowed",
    "types_of",
    "unevaluated_extended",
    "unknown_changed",
    "values_narrowed",
]

Types: TypeAlias = frozenset[str]
ALL_TYPES: Types = frozenset({"array", "boolean", "integer", "null", "number", "object", "string"})
# Keywords that restrict a schema and are compared only as a whole.
UNKNOWN = (
    "contains", "maxContains", "minContains", "propertyNames", "if", "then", "else",
    "unevaluatedItems", "unevaluatedProperties", "$dynamicRef", "$recursiveRef",
)  # fmt: skip
IN_PLACE = ("allOf", "anyOf", "oneOf", "not", "if", "then", "else", "dependencies", "dependentSchemas")
"""Keywords with subschemas that apply to the same value as the schema around them."""


def types_of(schema: Mapping[str, Any]) -> Types:
    """Return the types that a schema accepts by `type`, `enum` or `const`; all types if it has none of them."""
    named = schema.get("type")
    if isinstance(named, str):
        return frozenset({named})
    if isinstance(named, list):
        return frozenset(named)
    if "enum" in schema or "const" in schema:
        return frozenset(_type(value) for value in values_of(schema))
    return ALL_TYPES


def accepted_by(types: Types) -> Types:
    """Return the types that a schema with these types accepts: `number` includes `integer`."""
    return types | {"integer"} if "number" in types else types


def _type(value: Any) -> str:
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int) or (isinstance(value, float) and value.is_integer()):
        return "integer"
    return {float: "number", str: "string", list: "array", dict: "object"}.get(type(value), "null")


def values_of(schema: Mapping[str, Any]) -> list[Any]:
    return [schema["const"]] if "const" in schema else schema.get("enum", [])


def values_narrowed(original: Mapping[str, Any], update: Mapping[str, Any], path: str) -> list[str]:
    if "enum" not in update and "const" not in update:
        return []
    if "enum" not in original and "const" not in original:
        return [f"PRODUCT_TYPE_EXTENDED at {path}"]
    before, after = distinct_texts(values_of(original)), distinct_texts(values_of(update))
    if all(value in after for value in before):
        return []
    is_narrower = all(value in before for value in after)
    return [f"ENUM_ARRAY_{'NARROWED' if is_narrower else 'CHANGED'} at {path}/enum"]


VALUE_KEYWORDS = frozenset({
    "maxLength", "minLength", "pattern",
    "maximum", "exclusiveMaximum", "minimum", "exclusiveMinimum", "multipleOf",
    "properties", "required", "additionalProperties", "patternProperties", "maxProperties", "minProperties",
    "dependencies", "dependentRequired", "dependentSchemas",
    "items", "additionalItems", "prefixItems", "maxItems", "minItems", "uniqueItems",
})  # fmt: skip


def has_bounds(update: Mapping[str, Any]) -> bool:
    return not VALUE_KEYWORDS.isdisjoint(update)


def named_values_refused(
    original: Mapping[str, Any], update: Mapping[str, Any], path: str, is_same: Callable[[Any, Any], bool]
) -> list[str]:
    """Return how new or changed restrictions narrow a schema with values listed by `enum` or `const`."""
    # Restrictions are compared as a whole; the listed values are not tried.
    differs = any(
        name in update and (name not in original or not is_same(original[name], update[name]))
        for name in VALUE_KEYWORDS
    )
    return [f"PRODUCT_TYPE_EXTENDED at {path}"] if differs else []


def distinct_texts(values: Sequence[Any]) -> list[str]:
    """Return the distinct values as texts.

    Two texts are equal if JSON Schema takes the values for equal: 1 and 1.0, but not 1 and `true`.
    """
    return list(dict.fromkeys(map(_text, values)))


def _text(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ",".join(f"{name!r}:{_text(value[name])}" for name in sorted(value)) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(_text, value)) + "]"
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return repr(value)


def bounds_narrowed(
    original: Mapping[str, Any], update: Mapping[str, Any], path: str, upper: Sequence[str], lower: Sequence[str]
) -> list[str]:
    """Return how bounds narrow a schema: those in `upper` must not fall, those in `lower` must not rise."""
    found = []
    for name in (*upper, *lower):
        before, after = original.get(name), update.get(name)
        # In draft 4 `exclusiveMaximum` and `exclusiveMinimum` are booleans.
        if after is None or after is False or (isinstance(after, bool) and before == after):
            continue
        is_upper = name in upper
        kind = _upper_case(name)
        if before is None or isinstance(before, bool) or isinstance(after, bool):
            # `minLength`, `minItems` and `minProperties` of 0 restrict nothing.
            if name.startswith("min") and name != "minimum" and after == 0:
                continue
            found.append(f"{kind}_ADDED at {path}/{name}")
        elif (after < before) if is_upper else (after > before):
            found.append(f"{kind}_{'DECREASED' if is_upper else 'INCREASED'} at {path}/{name}")
    return found


def _upper_case(name: str) -> str:
    return "".join(f"_{letter}" if letter.isupper() else letter.upper() for letter in name)


def pattern_narrowed(original: Mapping[str, Any], update: Mapping[str, Any], path: str) -> list[str]:
    """Return how `pattern` narrows a schema. Any different pattern counts as narrower."""
    before, after = original.get("pattern"), update.get("pattern")
    if after is None or after == before:
        return []
    return [f"PATTERN_{'ADDED' if before is None else 'CHANGED'} at {path}/pattern"]


def multiple_narrowed(original: Mapping[str, Any], update: Mapping[str, Any], path: str) -> list[str]:
    before, after = original.get("multipleOf"), update.get("multipleOf")
    if after is None or after == before:
        return []
    if before is None:
        return [f"MULTIPLE_OF_ADDED at {path}/multipleOf"]
    old, new = Fraction(repr(before)), Fraction(repr(after))  # as decimals: 0.3 is a multiple of 0.1, unlike as floats
    if old % new == 0:
        return []
    return [f"MULTIPLE_OF_{'EXPANDED' if new % old == 0 else 'CHANGED'} at {path}/multipleOf"]


def unknown_changed(
    original: Mapping[str, Any], update: Mapping[str, Any], path: str, is_same: Callable[[Any, Any], bool]
) -> list[str]:
    found = [
        f"{_upper_case(name)}_CHANGED at {path}/{name}"
        for name in UNKNOWN
        if name in update and (name not in original or not is_same(original[name], update[name]))
    ]
    if "contains" in update and "minContains" not in update and original.get("minContains", 1) == 0:
        found.append(f"MIN_CONTAINS_CHANGED at {path}/minContains")  # the default is 1
    return found


def unevaluated_extended(
    original: Mapping[str, Any], update: Mapping[str, Any], path: str, is_same: Callable[[Any, Any], bool]
) -> list[str]:
    """Return how `unevaluatedProperties` or `unevaluatedItems` narrows a schema.

    These keywords apply to everything that adjacent keywords leave unevaluated. So `update` must evaluate at least as
    much as `original`.
    """
    is_kept = all(name in update and is_same(original[name], update[name]) for name in IN_PLACE if name in original)
    found = []
    for name, evaluated in (("unevaluatedProperties", _names_evaluated), ("unevaluatedItems", _items_evaluated)):
        if update.get(name, True) in (True, {}) or name not in original:
            continue
        if not (is_kept and evaluated(original) <= evaluated(update)):
            found.append(f"{_upper_case(name)}_EXTENDED at {path}/{name}")
    return found


def _names_evaluated(schema: Mapping[str, Any]) -> set[tuple[str, str]]:
    found = {(kind, name) for kind in ("properties", "patternProperties") for name in schema.get(kind, {})}
    return found | ({("additionalProperties", "")} if "additionalProperties" in schema else set())


def _items_evaluated(schema: Mapping[str, Any]) -> set[tuple[str, int]]:
    named = items_of(schema)[0]
    rest = "additionalItems" if isinstance(schema.get("items"), list) and "prefixItems" not in schema else "items"
    found = {("named", position) for position in range(len(named))}
    return found | {(name, 0) for name in (rest, "contains") if name in schema}


def is_equivalent(
    original: Any, update: Any, resolved_before: Callable[[Any], Any], resolved_after: Callable[[Any], Any]
) -> bool:
    """Return whether two parts of schemas are equal, including the targets of their references.

    Args:
        resolved_before, resolved_after: resolve a reference of `original` or of `update`.
    """
    waiting, seen = [(original, update)], set()
    while waiting:
        before, after = waiting.pop()
        # References may lead back to a schema around them.
        if (id(before), id(after)) in seen:
            continue
        seen.add((id(before), id(after)))
        if isinstance(before, dict) and isinstance(after, dict):
            if before.keys() != after.keys():
                return False
            waiting += [(before[name], after[name]) for name in before]
            if isinstance(before.get("$ref"), str):
                waiting.append((resolved_before(before), resolved_after(after)))
        elif isinstance(before, list) and isinstance(after, list):
            if len(before) != len(after):
                return False
            waiting += zip(before, after, strict=True)
        elif _text(before) != _text(after):
            return False
    return True


def covering_schemas(schema: Mapping[str, Any], name: str) -> list[Any]:
    """Return the schemas that apply to a property without a schema of its own; empty if the object rejects it."""
    patterns = schema.get("patternProperties", {})
    matched = {pattern: pattern_matches(pattern, name) for pattern in patterns}
    found = [patterns[pattern] for pattern, is_matched in matched.items() if is_matched is not False]
    additional = schema.get("additionalProperties", True)
    # A pattern that RE2 cannot read may or may not match, so `additionalProperties` may or may not apply.
    if not any(matched.values()) and (additional is not False or None in matched.values()):
        found.append(additional)
    return found


def pattern_matches(pattern: str, name: str) -> bool | None:
    """Return whether a pattern matches within a name; None if RE2 cannot read the pattern."""
    options = re2.Options()
    options.log_errors = False  # RE2 would write them to standard error
    try:
        return re2.compile(pattern, options).search(name) is not None
    except re2.error:
        return None


def dependencies_of(schema: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """Return (property, requirement) pairs of a schema.

    A requirement applies if the property is present: names that must be present too, or a schema that must hold. A
    property may have several requirements.
    """
    keywords = ("dependencies", "dependentSchemas", "dependentRequired")
    return [pair for keyword in keywords for pair in schema.get(keyword, {}).items()]


def items_of(schema: Mapping[str, Any]) -> tuple[list[Any], Any]:
    if "prefixItems" in schema:
        return schema["prefixItems"], schema.get("items", True)
    items = schema.get("items", True)
    return (items, schema.get("additionalItems", True)) if isinstance(items, list) else ([], items)


def item_difference_of(had: Any, has: Any, *, is_added: bool) -> str:
    """Return Confluent's name for an added or removed schema of an item.

    Args:
        had: the previous schema of the item.
        has: its schema now.
        is_added: whether the schema was added to the first items, or removed from them.
    """
    if is_added:
        is_open = had is True or had == {}
        return (
            "ITEM_ADDED_TO_OPEN_CONTENT_MODEL" if is_open else "ITEM_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL"
        )
    if has is False:
        return "ITEM_REMOVED_FROM_CLOSED_CONTENT_MODEL"
    return "ITEM_REMOVED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL"


def is_matched(first: Sequence[Any], second: Sequence[Any], fits: Callable[[Any, Any], bool]) -> bool:
    return all(any(fits(each, other) for other in second) for each in first)
