"""JSON Schema: what is a schema, what form it is kept in, and what its references lead to.

Rules of this file: whether a schema is one says the metaschema that it names (`$schema`; draft 7 where it names none),
by the library `jsonschema`. Nothing is fetched: what a `$ref` leads to is in the schema, or in one that it refers to
in the registry. It comes with the extra `schema-registry` and is imported when it is used, in a thread.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote, urljoin

import attrs
import jsonschema

from pipeline_broker.schema_registry.errors import invalid_schema

__all__ = ["Document", "canonical", "check_new", "parse"]

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
VALUES = frozenset({"const", "default", "enum", "examples"})
"""What holds values, which are no schemas."""
BY_NAME = frozenset({"properties", "patternProperties", "definitions", "$defs", "dependencies", "dependentSchemas"})
"""What holds schemas by names of a user's choice, which may be those of keywords."""


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

    def resolved(self, schema: Any) -> Any:
        """What a schema leads to where it is a reference, itself otherwise; None where that is nothing."""
        for _ in range(REFERENCE_DEPTH_MAX):
            reference = schema.get("$ref") if isinstance(schema, dict) else None
            if not isinstance(reference, str):
                return schema
            target = self._target(reference)
            if self.is_modern and target is not None and not schema.keys() <= ANNOTATIONS:
                beside = {name: value for name, value in schema.items() if name != "$ref"}
                both = {**beside, "allOf": [target, *beside.get("allOf", [])]}
                return self._both.setdefault(id(schema), both)
            schema = target
        return None

    def _target(self, reference: str) -> Any:
        name, _, fragment = reference.partition("#")
        document = self.root
        if name:
            identity = self.root.get("$id", self.root.get("id")) if isinstance(self.root, dict) else None
            base = identity if isinstance(identity, str) else ""
            document = next((self.others[it] for it in (name, urljoin(base, name)) if it in self.others), None)
            if document is None and urljoin(base, name) == base.partition("#")[0]:
                document = self.root
        if fragment and not fragment.startswith("/"):
            return _anchored(document, fragment)
        for part in fragment.split("/")[1:]:
            key = unquote(part).replace("~1", "/").replace("~0", "~")
            if isinstance(document, list) and key.isascii() and key.isdigit() and int(key) < len(document):
                document = document[int(key)]
            else:
                document = document.get(key) if isinstance(document, dict) else None
        return document


def _anchored(document: Any, name: str) -> Any:
    """The schema of an anchor."""
    waiting = [document]
    while waiting:
        each = waiting.pop()
        if isinstance(each, dict):
            if name in (
                each.get("$anchor"),
                each.get("$id", "").removeprefix("#") if isinstance(each.get("$id"), str) else "",
            ):
                return each
            waiting += each.values()
        elif isinstance(each, list):
            waiting += each
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
    """Refuse a schema whose references lead to nothing; `by_name` are keywords below which no name is a keyword."""
    waiting = [(document.root, False)]
    while waiting:
        each, is_by_name = waiting.pop()
        if isinstance(each, dict) and is_by_name:
            waiting += [(inner, False) for inner in each.values()]
        elif isinstance(each, dict):
            if isinstance(each.get("$ref"), str) and document.resolved(each) is None:
                raise invalid_schema(f"Invalid schema, details: unresolved reference {each['$ref'][:200]!r}")
            waiting += [(inner, name in by_name) for name, inner in each.items() if name not in VALUES]
        elif isinstance(each, list):
            waiting += [(inner, False) for inner in each]


def canonical(text: str, *, is_normalized: bool) -> str:
    """The form that a schema is kept in: without spaces, and where that is wanted with its names in order."""
    return json.dumps(json.loads(text), separators=(",", ":"), ensure_ascii=False, sort_keys=is_normalized)
