"""JSON Schemas: parsing, the stored form, and references.

The library `jsonschema` validates a schema against the metaschema that it names in `$schema`, by default draft 7.
Nothing is fetched: a `$ref` leads into the schema or into one that it refers to in the registry.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import attrs
import jsonschema

from pipeline_broker.base.schema_id import MessagePath
from pipeline_broker.base.strict_json import dump, load
from pipeline_broker.schema_registry.errors import invalid_schema
from pipeline_broker.schema_registry.json_references import BY_NAME, References, subschemas
from pipeline_broker.schema_registry.json_simplification import Simplification

__all__ = ["Document", "canonical", "check_new", "parse", "record_names", "sketch", "top_level_names"]

# Limit of references that lead to references, which also ends a cycle.
REFERENCE_DEPTH_MAX = 64

# Keywords beside a `$ref` that restrict nothing.
ANNOTATIONS = frozenset(
    {
        "$ref",
        "$schema",
        "$id",
        "$anchor",
        "$comment",
        "$defs",
        "definitions",
        "title",
        "description",
        "default",
        "examples",
    }
)


@attrs.frozen
class Document:
    """A schema and those that it refers to.

    Attributes:
        root: the schema.
        others: the schemas that it refers to, by the names that it uses for them.
        is_modern: whether keywords beside a `$ref` count, as they do since draft 2019-09.
    """

    root: Any
    others: Mapping[str, Any] = attrs.field(factory=dict)
    is_modern: bool = False
    # Schemas that combine a `$ref` with the keywords beside it. They are kept, because comparisons use their id().
    _both: dict[int, dict[str, Any]] = attrs.field(factory=dict)
    _references: References = attrs.field(init=False)

    @_references.default
    def _made_references(self) -> References:
        return References(self.root, self.others)

    _simplification: Simplification = attrs.field(init=False)

    @_simplification.default
    def _made_simplification(self) -> Simplification:
        return Simplification(self.resolved)

    def simplified(self, schema: Any) -> Any:
        """Return a simpler schema that accepts the same instances; None if `schema` is a reference without a target."""
        return self._simplification.simplified(schema)

    def alternatives(self, schema: Any) -> list[Any]:
        return self._simplification.alternatives(schema)

    def target(self, schema: Any, reference: str) -> Any:
        return self._references.target(schema, reference)

    def resolved(self, schema: Any) -> Any:
        """Return the target if a schema is a reference, else the schema itself.

        Since draft 2019-09, the result combines the target with other keywords beside the reference. Returns None if
        the target is missing, or after REFERENCE_DEPTH_MAX references that lead to references.
        """
        for _ in range(REFERENCE_DEPTH_MAX):
            reference = schema.get("$ref") if isinstance(schema, dict) else None
            if not isinstance(reference, str):
                return schema
            target = self.target(schema, reference)
            if self.is_modern and target is not None and not schema.keys() <= ANNOTATIONS:
                beside = {name: value for name, value in schema.items() if name != "$ref"}
                both = {**beside, "allOf": [target, *beside.get("allOf", [])]}
                both = self._both.setdefault(id(schema), both)
                self._references.keep_base(both, schema)
                return both
            schema = target
        return None


def parse(text: str, dependencies: Mapping[str, str]) -> Document:
    """Parse a schema.

    Args:
        text: JSON.
        dependencies: the schemas that it refers to, by name.

    Raises:
        RegistryError: a text is not JSON, the schema is invalid or of draft 3, or a reference cannot be resolved.
    """
    try:
        root = json.loads(text)
        others = {name: json.loads(dependency) for name, dependency in dependencies.items()}
        if not isinstance(root, dict | bool):
            raise invalid_schema(f"Invalid schema {text[:200]}, details: it must be an object or a boolean")
        named = root.get("$schema") if isinstance(root, dict) else None
        validator = jsonschema.validators.validator_for(
            {"$schema": named} if isinstance(named, str) else {}, default=jsonschema.Draft7Validator
        )
        if validator is jsonschema.Draft3Validator:
            raise invalid_schema("Invalid schema, details: draft 3 is not supported. Use draft 4 or later.")
        validator.check_schema(root)
    except jsonschema.SchemaError as error:
        where = "/".join(map(str, error.path))
        raise invalid_schema(f"Invalid schema {text[:200]}, details: {error.message[:500]} at #/{where}") from None
    except (ValueError, RecursionError) as error:
        raise invalid_schema(f"Invalid schema {text[:200]}, details: {type(error).__name__}: {error}") from None
    is_modern = validator in (jsonschema.Draft201909Validator, jsonschema.Draft202012Validator)
    document = Document(root, others, is_modern)
    _check_references(document)
    return document


def check_new(document: Document) -> None:
    """Refuse an unresolved reference also below a property that is named like a keyword with values, such as `default`.

    Registered schemas may contain one, because earlier versions accepted it.

    Raises:
        RegistryError: a reference is unresolved or leads to itself.
    """
    _check_references(document, BY_NAME)


def _check_references(document: Document, by_name: frozenset[str] = frozenset()) -> None:
    """Raise RegistryError if a reference is unresolved or leads to itself; `by_name` as in `subschemas`."""
    for schema in subschemas(document.root, by_name):
        for keyword in ("$ref", "$dynamicRef", "$recursiveRef"):
            reference = schema.get(keyword)
            if isinstance(reference, str) and document.target(schema, reference) is None:
                raise invalid_schema(f"Invalid schema, details: unresolved reference {reference[:200]!r}")
        if document.resolved(schema) is None:
            raise invalid_schema(f"Invalid schema, details: the reference {schema['$ref'][:200]!r} leads to itself")


def canonical(text: str, *, is_normalized: bool) -> str:
    """Return the stored form of a schema: without whitespace, and with sorted names if `is_normalized` is True."""
    return dump(load(text), is_sorted=is_normalized)


def sketch(text: str) -> str:
    """Return a text that equal schemas share, in which names are sorted."""
    return dump(load(text), is_sorted=True)


def top_level_names(document: Document) -> list[str]:
    properties = document.root.get("properties") if isinstance(document.root, dict) else None
    return list(properties) if isinstance(properties, dict) else []


def record_names(document: Document) -> Iterator[tuple[MessagePath, str]]:
    title = document.root.get("title") if isinstance(document.root, dict) else None
    if isinstance(title, str):
        yield (), title
