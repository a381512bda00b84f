"""JSON Schema: what is a schema, what form it is kept in, and what its references lead to.

Rules of this file: whether a schema is one says the metaschema that it names (`$schema`; draft 7 where it names none),
by the library `jsonschema`. Nothing is fetched: what a `$ref` leads to is in the schema, or in one that it refers to
in the registry. It comes with the extra `schema-registry` and is imported when it is used, in a thread.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import attrs
import jsonschema

from pipeline_broker.base.strict_json import dump, load
from pipeline_broker.schema_registry.errors import invalid_schema
from pipeline_broker.schema_registry.json_references import BY_NAME, References, subschemas
from pipeline_broker.schema_registry.json_simplification import Simplification

__all__ = ["Document", "canonical", "check_new", "parse", "sketch", "top_level_names"]

REFERENCE_DEPTH_MAX = 64
"""Of references that lead to references."""

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
"""What may stand beside a reference and accepts everything."""


@attrs.frozen
class Document:
    """A schema with those that it refers to.

    Attributes:
        root: the schema.
        others: those that it refers to, by the names that it has for them.
        is_modern: whether what stands beside a `$ref` counts, as since draft 2019-09.
    """

    root: Any
    others: Mapping[str, Any] = attrs.field(factory=dict)
    is_modern: bool = False
    _both: dict[int, dict[str, Any]] = attrs.field(factory=dict)  # what a reference and its neighbours are together
    _references: References = attrs.field(init=False)

    @_references.default
    def _made_references(self) -> References:
        return References(self.root, self.others)

    _simplification: Simplification = attrs.field(init=False)

    @_simplification.default
    def _made_simplification(self) -> Simplification:
        return Simplification(self.resolved)

    def simplified(self, schema: Any) -> Any:
        """Return a schema that accepts the same as one, in fewer words; None if its reference leads to nothing."""
        return self._simplification.simplified(schema)

    def alternatives(self, schema: Any) -> list[Any]:
        """Return schemas of which one accepts what a schema accepts; none if it has no alternatives."""
        return self._simplification.alternatives(schema)

    def target(self, schema: Any, reference: str) -> Any:
        """Return what a reference in a schema leads to; None if that is nothing."""
        return self._references.target(schema, reference)

    def resolved(self, schema: Any) -> Any:
        """Return what a schema leads to if it is a reference, itself otherwise; None if that is nothing."""
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
    """A schema; raises RegistryError.

    Args:
        text: the schema.
        dependencies: by name what it refers to.
    """
    try:
        root = json.loads(text)
        others = {name: json.loads(dependency) for name, dependency in dependencies.items()}
        if not isinstance(root, dict | bool):
            raise invalid_schema(f"Invalid schema {text[:200]}, details: it is neither an object nor a boolean")
        named = root.get("$schema") if isinstance(root, dict) else None
        validator = jsonschema.validators.validator_for(
            {"$schema": named} if isinstance(named, str) else {}, default=jsonschema.Draft7Validator
        )
        if validator is jsonschema.Draft3Validator:
            raise invalid_schema("Invalid schema, details: draft 3 is not known here")
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
    """Refuse a reference that leads to nothing also where its property has the name of what holds values.

    Those that are registered already may have one.
    """
    _check_references(document, BY_NAME)


def _check_references(document: Document, by_name: frozenset[str] = frozenset()) -> None:
    """Refuse a schema with a reference that leads to nothing; `by_name` are keywords below which no name is one."""
    for schema in subschemas(document.root, by_name):
        for keyword in ("$ref", "$dynamicRef", "$recursiveRef"):
            reference = schema.get(keyword)
            if isinstance(reference, str) and document.target(schema, reference) is None:
                raise invalid_schema(f"Invalid schema, details: unresolved reference {reference[:200]!r}")
        if document.resolved(schema) is None:
            raise invalid_schema(f"Invalid schema, details: the reference {schema['$ref'][:200]!r} leads to itself")


def canonical(text: str, *, is_normalized: bool) -> str:
    """Return a schema in the form that is kept: without spaces, and if that is wanted with its names in order."""
    return dump(load(text), is_sorted=is_normalized)


def sketch(text: str) -> str:
    """Return a text that schemas have in common if they are the same: the order of names does not matter."""
    return dump(load(text), is_sorted=True)


def top_level_names(document: Document) -> list[str]:
    """Return the names of the properties of an object."""
    properties = document.root.get("properties") if isinstance(document.root, dict) else None
    return list(properties) if isinstance(properties, dict) else []
