"""The three languages of schemas behind one face: read, put into the form that is kept, compared.

Rules of this file: what is here takes time, so it is work for a thread: it depends on its arguments alone. The rooms
behind it and their libraries are imported with the first schema of their type. What was read last is kept, because a
schema is compared with the same ones again and again.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
from collections.abc import Iterator, Sequence
from types import ModuleType
from typing import Any, TypeAlias

import attrs

from pipeline_broker.schema_registry.errors import RegistryError, invalid_schema
from pipeline_broker.schema_registry.values import Schema, SchemaType

__all__ = ["Dependencies", "Given", "canonical", "check_new", "incompatibilities", "parsed", "serialized"]

PARSED_KEPT_MAX = 64
TEXT_CHARACTERS_MAX = 1 << 20
"""Of a schema with all that it refers to."""
NESTING_MAX = 200
PACKAGES = {
    "avro": "avro",
    "jsonschema": "jsonschema",
    "google.protobuf": "protobuf",
    "google.type": "googleapis-common-protos",
    "grpc_tools": "grpcio-tools",
}

Dependencies: TypeAlias = tuple[tuple[str, str], ...]
"""What a schema refers to: names and texts, each behind what it refers to itself."""


@attrs.frozen
class Given:
    """A schema with what is needed to read it."""

    schema: Schema
    dependencies: Dependencies


def _room(name: str) -> ModuleType:
    try:
        return importlib.import_module(f"pipeline_broker.schema_registry.{name}")
    except ImportError as error:
        missing = next(
            (package for module, package in PACKAGES.items() if (error.name or "").startswith(module)), error.name
        )
        raise RegistryError(
            501, f"this needs the package {missing}: pip install 'pipeline-broker[schema-registry]'"
        ) from None


def parsed(given: Given) -> Any:
    """What its language has for a schema; raises RegistryError."""
    return _parsed(given.schema.type, given.schema.text, given.dependencies)


@functools.lru_cache(PARSED_KEPT_MAX)
def _parsed(kind: SchemaType, text: str, dependencies: Dependencies) -> Any:
    if len(text) + sum(len(each) for _, each in dependencies) > TEXT_CHARACTERS_MAX:
        raise RegistryError(42209, f"A schema with all that it refers to has at most {TEXT_CHARACTERS_MAX} characters")
    if kind is not SchemaType.PROTOBUF and _nesting(text) > NESTING_MAX:
        raise invalid_schema(f"Invalid schema, details: it is nested deeper than {NESTING_MAX}")
    with _strange_schemas():
        return _room(f"{kind.value.lower()}_schema").parse(text, dict(dependencies))


@contextlib.contextmanager
def _strange_schemas() -> Iterator[None]:
    """Refuse what trips those who read it: a reference may lead to what is no schema, a number be too large."""
    try:
        yield
    except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError) as error:
        raise invalid_schema(f"Invalid schema, details: {type(error).__name__}: {str(error)[:200]}") from None


def _nesting(text: str) -> int:
    """How deep brackets are nested at most; those in texts count too, which only makes it more."""
    depth = deepest = 0
    for letter in text:
        if letter in "[{":
            depth += 1
            deepest = max(deepest, depth)
        elif letter in "]}":
            depth -= 1
    return deepest


def canonical(given: Given, *, is_normalized: bool) -> Schema:
    """The form that a schema is kept in; raises RegistryError where it is none."""
    found = parsed(given)
    schema = given.schema
    room = _room(f"{schema.type.value.lower()}_schema")
    if schema.type is SchemaType.PROTOBUF:
        return attrs.evolve(schema, text=room.canonical(schema.text, found, is_normalized=is_normalized))
    return attrs.evolve(schema, text=room.canonical(schema.text, is_normalized=is_normalized))


def check_new(given: Given) -> None:
    """Check what is asked of a schema that is new, beyond what makes it one; raises RegistryError."""
    if given.schema.type is SchemaType.AVRO:
        with _strange_schemas():
            _room("avro_schema").check_new(given.schema.text, dict(given.dependencies))
    elif given.schema.type is SchemaType.JSON:
        with _strange_schemas():
            _room("json_schema").check_new(parsed(given))


def incompatibilities(reader: Given, writer: Given) -> Sequence[str]:
    """Why a reader with one schema cannot read what was written with another; empty where it can."""
    if reader.schema.type is not writer.schema.type:
        return [f"the type of the schema changed from {writer.schema.type} to {reader.schema.type}"]
    kind = reader.schema.type.value.lower()
    room = _room("avro_schema" if kind == "avro" else f"{kind}_compatibility")
    with _strange_schemas():
        found: Sequence[str] = room.incompatibilities(parsed(reader), parsed(writer))
    return found


def serialized(given: Given) -> str:
    """A schema of Protobuf as its descriptor in base64; raises RegistryError."""
    text: str = _room("protobuf_schema").serialized(parsed(given))
    return text
