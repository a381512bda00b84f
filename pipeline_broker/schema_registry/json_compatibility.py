"""Compatibility of JSON Schemas: whether one accepts everything that another accepts.

No library decides this. The rules and the names of the differences are those of Confluent's documentation ("JSON Schema
compatibility rules"). Each rule compares one keyword; a change that is not known to widen a schema counts as narrowing.

An object's content model is *open* if it accepts properties that it does not name, and *closed* if it rejects them. It
is *partially open* if a schema decides. A property that is added to an open object narrows it, because the property
could have any value before.

Confluent's rules are lenient in two places. A required property with a default may be added. A branch may be added to
`oneOf`, although two branches may then accept the same instance, which `oneOf` rejects.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from pipeline_broker.schema_registry.json_keywords import (
    accepted_by,
    bounds_narrowed,
    covering_schemas,
    dependencies_of,
    distinct_texts,
    has_bounds,
    is_equivalent,
    is_matched,
    item_difference_of,
    items_of,
    multiple_narrowed,
    named_values_refused,
    pattern_matches,
    pattern_narrowed,
    types_of,
    unevaluated_extended,
    unknown_changed,
    values_narrowed,
)
from pipeline_broker.schema_registry.json_schema import Document

__all__ = ["incompatibilities"]

CRITERIA = ("allOf", "anyOf", "oneOf")
DIFFERENCES_MAX = 100


def incompatibilities(update: Document, original: Document) -> Sequence[str]:
    """Return how one schema is narrower than another, by Confluent's names: `TYPE_CHANGED at #/properties/id`.

    The result is empty if the schema is not narrower, and has at most DIFFERENCES_MAX elements.

    Args:
        update: the reader's schema.
        original: the writer's schema.
    """
    return _Comparison(original, update).narrowings(original.root, update.root, "#")[:DIFFERENCES_MAX]


class _Comparison:
    """The comparison of two documents. `narrowings` compares one pair of their subschemas."""

    def __init__(
        self, original: Document, update: Document, open_pairs: set[tuple[int, int, int]] | None = None
    ) -> None:
        self._original, self._update = original, update
        self._open: set[tuple[int, int, int]] = set() if open_pairs is None else open_pairs
        self._narrowed: dict[tuple[int, int], list[str]] = {}

    def narrowings(self, original: Any, update: Any, path: str) -> list[str]:
        """Return how `update` is narrower than `original`.

        A pair whose comparison is in progress counts as equal, so recursive schemas end. If the schemas differ as they
        are written, they are compared again in simplified form.
        """
        original, update = self._original.resolved(original), self._update.resolved(update)
        found = self._compared(original, update, path)
        if not found:
            return []
        simple = self._original.simplified(original), self._update.simplified(update)
        if (simple[0] is not original or simple[1] is not update) and not self._compared(*simple, path):
            return []
        # A schema is not narrower if it accepts each alternative of the original.
        alternatives = self._original.alternatives(simple[0])
        if alternatives and all(not self.narrowings(each, simple[1], path) for each in alternatives):
            return []
        return found

    def _compared(self, original: Any, update: Any, path: str) -> list[str]:
        pair = id(self._original), id(original), id(update)
        if pair in self._open or original is False or update is True or update == {} or original is None:
            return []
        if update is False:
            return [f"TYPE_CHANGED at {path}"]
        if known := self._narrowed.get(pair[1:]):
            return known
        self._open.add(pair)
        try:
            found = self._compare({} if original is True else original, update or {}, path)
        finally:
            self._open.discard(pair)
        # An empty result may depend on pairs that are still open, so it is not kept.
        if found:
            self._narrowed[pair[1:]] = found  # each branch is compared with each other branch, repeatedly
        return found

    def _compare(self, original: dict[str, Any], update: dict[str, Any], path: str) -> list[str]:
        types = types_of(original)
        if not types <= accepted_by(types_of(update)):
            union = "SUM_TYPE_NARROWED" if isinstance(original.get("type"), list) else "TYPE_CHANGED"
            is_narrower = accepted_by(types) >= types_of(update) and union == "TYPE_CHANGED" and "type" in original
            return [f"{'TYPE_NARROWED' if is_narrower else union} at {path}"]
        found = values_narrowed(original, update, path)
        if "enum" not in original and "const" not in original:
            if "string" in types:
                found += bounds_narrowed(original, update, path, ("maxLength",), ("minLength",)) + pattern_narrowed(
                    original, update, path
                )
            if types & {"integer", "number"}:
                found += bounds_narrowed(
                    original, update, path, ("maximum", "exclusiveMaximum"), ("minimum", "exclusiveMinimum")
                )
                found += multiple_narrowed(original, update, path)
            if "object" in types:
                found += self._object(original, update, path)
            if "array" in types:
                found += self._array(original, update, path)
        elif has_bounds(update):
            found += named_values_refused(original, update, path, self._is_same)
        found += self._combined(original, update, path)
        found += unevaluated_extended(original, update, path, self._is_same)
        return found + unknown_changed(original, update, path, self._is_same)

    def _is_same(self, original: Any, update: Any) -> bool:
        return is_equivalent(original, update, self._original.resolved, self._update.resolved)

    # Objects

    def _object(self, original: dict[str, Any], update: dict[str, Any], path: str) -> list[str]:
        before, after = original.get("properties", {}), update.get("properties", {})
        found = bounds_narrowed(original, update, path, ("maxProperties",), ("minProperties",))
        for name in sorted(after.keys() | before.keys()):
            place = f"{path}/properties/{name}"
            if name not in before:
                found += self._property_added(original, after[name], name, place)
            elif name not in after:
                found += self._property_removed(update, before[name], name, place)
            else:
                found += self.narrowings(before[name], after[name], place)
        found += self._required(original, update, path)
        found += self._additional(original, update, path)
        found += self._patterns(original, update, path)
        return found + self._dependencies(original, update, path)

    def _property_added(self, original: dict[str, Any], schema: Any, name: str, path: str) -> list[str]:
        found: list[str] = []
        is_closed = True
        # The schemas that the object applied to this name before must fit the new one.
        for covering in covering_schemas(original, name):
            is_closed = False
            if covering is True or covering == {}:
                if self.narrowings(True, schema, path):
                    found.append(f"PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL at {path}")
            elif self.narrowings(covering, schema, path):
                found.append(f"PROPERTY_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL at {path}")
        return [] if is_closed else found

    def _property_removed(self, update: dict[str, Any], schema: Any, name: str, path: str) -> list[str]:
        if self._original.resolved(schema) is False:
            return []
        # The schemas that the object applies to this name now must accept the values of the removed one.
        covering = covering_schemas(update, name)
        if not covering:
            return [f"PROPERTY_REMOVED_FROM_CLOSED_CONTENT_MODEL at {path}"]
        for each in covering:
            if self.narrowings(schema, each, path):
                return [f"PROPERTY_REMOVED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL at {path}"]
        return []

    def _required(self, original: dict[str, Any], update: dict[str, Any], path: str) -> list[str]:
        before, properties = original.get("required", []), update.get("properties", {})
        found = []
        for name in update.get("required", []):
            schema = self._update.resolved(properties.get(name, {}))
            # Confluent allows a new required property with a default, although validators do not apply defaults.
            if name in before or (isinstance(schema, dict) and "default" in schema):
                continue
            is_new = name not in original.get("properties", {}) and original.get("additionalProperties", True) is False
            kind = "REQUIRED_PROPERTY_ADDED_TO_UNOPEN_CONTENT_MODEL" if is_new else "REQUIRED_ATTRIBUTE_ADDED"
            found.append(f"{kind} at {path}/required/{name}")
        return found

    def _additional(self, original: dict[str, Any], update: dict[str, Any], path: str) -> list[str]:
        before, after = original.get("additionalProperties", True), update.get("additionalProperties", True)
        place = f"{path}/additionalProperties"
        if not self.narrowings(before, after, place):
            return []
        return [f"ADDITIONAL_PROPERTIES_{'REMOVED' if after is False else 'NARROWED'} at {place}"]

    def _patterns(self, original: dict[str, Any], update: dict[str, Any], path: str) -> list[str]:
        before, after = original.get("patternProperties", {}), update.get("patternProperties", {})
        found = []
        for pattern, schema in after.items():
            place = f"{path}/patternProperties/{pattern}"
            if pattern in before:
                found += self.narrowings(before[pattern], schema, place)
                continue
            covered = [*before.values(), original.get("additionalProperties", True)]
            if any(self.narrowings(each, schema, place) for each in covered):
                found.append(f"PATTERN_PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL at {place}")
            for name, each in original.get("properties", {}).items():
                if pattern_matches(pattern, name) is not False and self.narrowings(each, schema, place):
                    found.append(f"PATTERN_PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL at {place}")
        for pattern, schema in before.items():
            if pattern not in after and self.narrowings(schema, update.get("additionalProperties", True), path):
                found.append(
                    f"PATTERN_PROPERTY_REMOVED_FROM_CLOSED_CONTENT_MODEL at {path}/patternProperties/{pattern}"
                )
        return found

    def _dependencies(self, original: dict[str, Any], update: dict[str, Any], path: str) -> list[str]:
        found, before = [], defaultdict(list)
        for name, given in dependencies_of(original):
            before[name].append(given)
        for name, wanted in dependencies_of(update):
            place, had = f"{path}/dependencies/{name}", before[name]
            names = {each for given in had if isinstance(given, list) for each in given}
            schemas = [each for each in had if not isinstance(each, list)]
            if isinstance(wanted, list):
                if not any(isinstance(each, list) for each in had):
                    found.append(f"DEPENDENCY_ARRAY_ADDED at {place}")
                elif not names.issuperset(wanted):
                    found.append(f"DEPENDENCY_ARRAY_{'EXTENDED' if names < set(wanted) else 'CHANGED'} at {place}")
            elif not schemas:
                if self.narrowings(True, wanted, place):
                    found.append(f"DEPENDENCY_SCHEMA_ADDED at {place}")
            elif all(narrowed := [self.narrowings(each, wanted, place) for each in schemas]):
                found += narrowed[0]
        return found

    # Arrays

    def _array(self, original: dict[str, Any], update: dict[str, Any], path: str) -> list[str]:
        found = bounds_narrowed(original, update, path, ("maxItems",), ("minItems",))
        if update.get("uniqueItems", False) and not original.get("uniqueItems", False):
            found.append(f"UNIQUE_ITEMS_ADDED at {path}/uniqueItems")
        (before, rest_before), (after, rest_after) = items_of(original), items_of(update)
        for position in range(max(len(before), len(after))):
            place = f"{path}/items/{position}"
            is_added, is_removed = position >= len(before), position >= len(after)
            had = rest_before if is_added else before[position]
            has = rest_after if is_removed else after[position]
            narrowed = self.narrowings(had, has, place)
            if narrowed and (is_added or is_removed):
                found.append(f"{item_difference_of(had, has, is_added=is_added)} at {place}")
            else:
                found += narrowed
        has_first = bool(before or after)
        if not has_first and "items" not in original and "items" not in update:
            # Without `items` this keyword has no effect, but Confluent's registry compares it.
            rest_before, rest_after = (it.get("additionalItems", True) for it in (original, update))
            has_first = True
        if rest := self.narrowings(rest_before, rest_after, f"{path}/items"):
            if has_first:
                found.append(
                    f"ADDITIONAL_ITEMS_{'REMOVED' if rest_after is False else 'NARROWED'} at {path}/additionalItems"
                )
            else:
                found += [f"SCHEMA_ADDED at {path}/items"] if rest_before is True else rest
        return found

    # allOf, anyOf, oneOf, not

    def _combined(self, original: dict[str, Any], update: dict[str, Any], path: str) -> list[str]:
        found = []
        if "not" in update:
            # `not` reverses the order: the schema narrows if the schema inside `not` widens.
            reverse = _Comparison(self._update, self._original, self._open)
            if "not" not in original:
                found.append(f"NOT_TYPE_ADDED at {path}/not")
            elif reverse.narrowings(update["not"], original["not"], path):
                found.append(f"NOT_TYPE_EXTENDED at {path}/not")
        for criterion in CRITERIA:
            if criterion in update:
                found += self._criterion(original, update[criterion], criterion, path)
        return found

    def _criterion(self, original: dict[str, Any], wanted: list[Any], criterion: str, path: str) -> list[str]:
        given = original.get(criterion)
        if given is None:
            return self._criterion_added(original, wanted, criterion, path)
        place = f"{path}/{criterion}"
        is_product = criterion == "allOf"
        # allOf (a product): an old branch must imply each new one. anyOf, oneOf (a sum): each old branch must imply a
        # new one.
        if is_product and is_matched(wanted, given, lambda new, old: not self.narrowings(old, new, place)):
            return []
        if not is_product and is_matched(given, wanted, lambda old, new: not self.narrowings(old, new, place)):
            return []
        longer = len(distinct_texts(wanted)) - len(distinct_texts(given))
        if is_product:
            return [f"{'PRODUCT_TYPE_EXTENDED' if longer > 0 else 'COMBINED_TYPE_SUBSCHEMAS_CHANGED'} at {path}"]
        return [f"{'SUM_TYPE_NARROWED' if longer < 0 else 'COMBINED_TYPE_SUBSCHEMAS_CHANGED'} at {path}"]

    def _criterion_added(self, original: dict[str, Any], wanted: list[Any], criterion: str, path: str) -> list[str]:
        other = next((each for each in CRITERIA if each in original), None)
        place = f"{path}/{criterion}"
        if criterion == "allOf" or len(wanted) == 1:
            parts = original[other] if other is not None and len(original[other]) == 1 else [original]
            if all(any(not self.narrowings(part, each, place) for part in parts) for each in wanted):
                return []
        elif other in ("anyOf", "oneOf"):
            if is_matched(original[other], wanted, lambda old, new: not self.narrowings(old, new, place)):
                return []
        else:
            parts = [original] if other is None else [original, *original[other]]
            if any(not self.narrowings(part, each, place) for part in parts for each in wanted):
                return []
        if other is not None:
            return [f"COMBINED_TYPE_CHANGED at {path}"]
        return [f"{'PRODUCT_TYPE_EXTENDED' if criterion == 'allOf' else 'TYPE_CHANGED'} at {path}"]
