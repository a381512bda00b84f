"""Avro: what is a schema, what form it is kept in, and which schema reads what another has written.

Rules of this file: Apache's own library decides what a schema is and what resolves to what (`avro.compatibility`, which
is Avro's specification, section "Schema Resolution"); this file reads and writes forms. It comes with the extra
`schema-registry` and is imported when it is used, in a thread.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import avro.compatibility
import avro.errors
import avro.name
import avro.schema

from pipeline_broker.schema_registry.avro_defaults import wrong_default
from pipeline_broker.schema_registry.errors import invalid_schema

__all__ = ["canonical", "check_new", "incompatibilities", "parse"]

FIELDS_IN_ORDER = ("type", "name", "namespace", "doc", "aliases", "fields", "symbols", "size", "items", "values")
"""How the attributes of a schema stand when it is normalized; others follow by their names."""


def parse(text: str, dependencies: Mapping[str, str]) -> avro.schema.Schema:
    """A schema; raises RegistryError.

    Args:
        text: the schema.
        dependencies: by name what it refers to, each behind those that it needs itself.
    """
    return _read(text, dependencies)[0]


def _read(text: str, dependencies: Mapping[str, str]) -> tuple[avro.schema.Schema, Collection[avro.schema.NamedSchema]]:
    """A schema, and the named types of those that it refers to."""
    names = avro.name.Names()
    try:
        for dependency in dependencies.values():
            avro.schema.make_avsc_object(_plain(json.loads(dependency)), names)
        known = list(names.names.values())
        return avro.schema.make_avsc_object(_plain(json.loads(text)), names), known
    except (avro.errors.AvroException, ValueError, TypeError, AttributeError, KeyError, RecursionError) as error:
        raise invalid_schema(f"Invalid schema {text[:200]}, details: {type(error).__name__}: {error}") from None


def check_new(text: str, dependencies: Mapping[str, str]) -> None:
    """Check what is asked of a schema that is new: its defaults are values of their types. Raises RegistryError.

    Schemas that are registered are read without it: others may have taken them who do not look.
    """
    if wrong := wrong_default(*_read(text, dependencies)):
        raise invalid_schema(f"Invalid schema {text[:200]}, details: {wrong}")


def _plain(content: Any) -> Any:
    """A schema without logical types, which resolve nothing: the library warns of those that it does not know."""
    if isinstance(content, list):
        return [_plain(each) for each in content]
    if not isinstance(content, dict):
        return content
    return {name: _plain(each) for name, each in content.items() if name != "logicalType"}


def canonical(text: str, *, is_normalized: bool) -> str:
    """The form that a schema is kept in: without spaces, and where that is wanted with its attributes in order."""
    content = json.loads(text)
    return json.dumps(_normalized(content) if is_normalized else content, separators=(",", ":"), ensure_ascii=False)


def _normalized(content: Any) -> Any:
    if isinstance(content, list):
        return [_normalized(each) for each in content]
    if not isinstance(content, dict):
        return content
    if content.keys() == {"type"}:
        return _normalized(content["type"])  # {"type": "string"} is "string"
    rank = {name: position for position, name in enumerate(FIELDS_IN_ORDER)}
    ordered = sorted(content, key=lambda name: (rank.get(name, len(rank)), name))
    nested = {"type", "fields", "items", "values"}
    return {name: _normalized(content[name]) if name in nested else content[name] for name in ordered}


def _checker() -> Any:
    made: Any = avro.compatibility.ReaderWriterCompatibilityChecker  # has no types
    return made()


def incompatibilities(reader: avro.schema.Schema, writer: avro.schema.Schema) -> Sequence[str]:
    """Why a reader with one schema cannot read what was written with another; empty where it can."""
    found = _checker().get_compatibility(reader, writer)
    if found.compatibility is avro.compatibility.SchemaCompatibilityType.compatible:
        return []
    kinds = ", ".join(dict.fromkeys(kind.name.upper() for kind in found.incompatibilities))
    return [f"{kinds} at {', '.join(sorted(found.locations))}: {'; '.join(sorted(found.messages))}"]
