"""Schemas of three languages: reading, the form that is kept, comparison.

All of it is work for the worker process, and depends on its arguments alone. The modules of a language and their
libraries are imported with the first schema of their type. The schemas that were read last are remembered, because a
schema is compared with the same ones again and again.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from types import ModuleType
from typing import Any, NamedTuple, TypeAlias

import attrs

from pipeline_broker.base.strict_json import NESTING_MAX, RawJson, nesting
from pipeline_broker.schema_registry.contracts import reserved_fields
from pipeline_broker.schema_registry.errors import RegistryError, invalid_schema
from pipeline_broker.schema_registry.values import Level, Schema, SchemaType, Version

__all__ = [
    "PRELOADED",
    "TEXT_CHARACTERS_MAX",
    "Dependencies",
    "Given",
    "Recognized",
    "canonical",
    "check_new",
    "compare",
    "identity",
    "incompatibilities",
    "parsed",
    "registered_identity",
    "reserved_differences",
    "serialized",
    "sketches",
]

TEXT_CHARACTERS_MAX = 1 << 20
"""Of a schema with all that it refers to."""
REMEMBERED_CHARACTERS_MAX = 2 << 20
"""Of the texts of remembered schemas: parsed, they take up to 40 times as much."""
REMEMBERED_MAX = 64
SHOWN_CHARACTERS_MAX = 4_000
"""Of an old schema, or of a difference, in an error."""
DIFFERENCES_SHOWN_MAX = 100
"""In an error."""
DIGEST_BYTES = 16
MODULES = ("avro_schema", "json_schema", "json_compatibility", "protobuf_schema", "protobuf_compatibility")
PRELOADED = (*(f"pipeline_broker.schema_registry.{name}" for name in MODULES), "grpc_tools.protoc")
"""Modules of all languages, for a worker process to import before it has work."""
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

    @property
    def text_characters(self) -> int:
        """Of the schema and its dependencies."""
        return len(self.schema.text) + sum(len(name) + len(text) for name, text in self.dependencies)


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


_remembered: OrderedDict[tuple[SchemaType, str, Dependencies], Any] = OrderedDict()  # the oldest use first


def parsed(given: Given) -> Any:
    """Return the object that the library of a language has for a schema; raises RegistryError."""
    key = given.schema.type, given.schema.text, given.dependencies
    if key in _remembered:
        _remembered.move_to_end(key)
        return _remembered[key]
    if given.text_characters > TEXT_CHARACTERS_MAX:
        raise RegistryError(42209, f"A schema with all that it refers to has at most {TEXT_CHARACTERS_MAX} characters")
    if given.schema.type is not SchemaType.PROTOBUF and nesting(given.schema.text) > NESTING_MAX:
        raise invalid_schema(f"Invalid schema, details: it is nested deeper than {NESTING_MAX}")
    with _strange_schemas():
        found = _room(f"{given.schema.type.value.lower()}_schema").parse(given.schema.text, dict(given.dependencies))
    _remember(key, found)
    return found


def _remember(key: tuple[SchemaType, str, Dependencies], found: Any) -> None:
    _remembered[key] = found
    while len(_remembered) > REMEMBERED_MAX or sum(map(_characters, _remembered)) > REMEMBERED_CHARACTERS_MAX:
        _remembered.popitem(last=False)


def _characters(key: tuple[SchemaType, str, Dependencies]) -> int:
    return len(key[1]) + sum(len(text) for _, text in key[2])


@contextlib.contextmanager
def _strange_schemas() -> Iterator[None]:
    """Refuse a schema at which a library fails, in whatever way: it cannot be served to other clients."""
    try:
        yield
    except (RegistryError, MemoryError):
        raise
    except Exception as error:  # noqa: BLE001 - libraries raise anything
        reason = error.strerror if isinstance(error, OSError) else str(error)  # never the path of a file of ours
        raise invalid_schema(f"Invalid schema, details: {type(error).__name__}: {str(reason)[:200]}") from None


class Recognized(NamedTuple):
    """A schema, and what it has in common with the same schema in other words.

    Attributes:
        schema: in the form that is kept.
        sketch: depends on the text alone, and is made quickly. The same Avro or JSON schemas have the same sketch, and
            others have not; other Protobuf schemas may have it, too.
        identity: depends on the schemas that it refers to as well. Only the same schemas have it.
    """

    schema: Schema
    sketch: str
    identity: str


def canonical(given: Given, is_normalized: bool) -> Recognized:
    """Return a schema in the form that is kept; raises RegistryError if it is invalid."""
    found = parsed(given)
    schema = given.schema
    room = _room(f"{schema.type.value.lower()}_schema")
    with _strange_schemas():
        match schema.type:
            case SchemaType.AVRO:
                text = room.canonical(schema.text, dict(given.dependencies), is_normalized=is_normalized)
            case SchemaType.JSON:
                text = room.canonical(schema.text, is_normalized=is_normalized)
            case SchemaType.PROTOBUF:
                text = room.canonical(schema.text, found, is_normalized=is_normalized)
    references = tuple(sorted(set(schema.references))) if is_normalized else schema.references
    kept = attrs.evolve(schema, text=text, references=references)
    (made,) = sketches(schema.type, (text,))
    return Recognized(kept, made, identity(given))


def sketches(schema_type: SchemaType, texts: Sequence[str]) -> tuple[str, ...]:
    """Return the sketch of each text, which need not be a schema."""
    room = _room(f"{schema_type.value.lower()}_schema")
    found = []
    for text in texts:
        try:
            content = room.sketch(text)
        except MemoryError:
            raise
        except Exception:  # noqa: BLE001 - other registries may have registered anything
            content = text
        found.append(_digest(schema_type, content))
    return tuple(found)


def identity(given: Given) -> str:
    """Return the identity of a schema; raises RegistryError if it is invalid."""
    schema_type = given.schema.type
    room = _room(f"{schema_type.value.lower()}_schema")
    with _strange_schemas():
        match schema_type:
            case SchemaType.AVRO:
                content = room.identity(given.schema.text, dict(given.dependencies))
            case SchemaType.JSON:
                content = room.sketch(given.schema.text)
            case SchemaType.PROTOBUF:
                content = room.identity(parsed(given))
    return _digest(schema_type, content)


def registered_identity(given: Given) -> str | None:
    """Return the identity of a registered schema; None if it cannot be read."""
    try:
        return identity(given)
    except RegistryError:
        return None


def _digest(schema_type: SchemaType, content: str) -> str:
    data = f"{schema_type} {content}".encode(errors="surrogatepass")
    return hashlib.blake2b(data, digest_size=DIGEST_BYTES).hexdigest()


def check_new(given: Given, expected: str) -> None:
    """Check the further rules for a schema that is new; raises RegistryError.

    Args:
        given: the schema in the form that is kept.
        expected: the identity of what the client sent.
    """
    with _strange_schemas():
        if given.schema.type is SchemaType.AVRO:
            _room("avro_schema").check_new(given.schema.text, dict(given.dependencies))
        elif given.schema.type is SchemaType.JSON:
            _room("json_schema").check_new(parsed(given))
    if given.schema.type is SchemaType.PROTOBUF and identity(given) != expected:
        raise invalid_schema("Invalid schema, details: the source that this registry makes of it is another schema")


def reserved_differences(new: Given, before: RawJson | None) -> list[str]:
    """Return how a schema breaks its own reservations of fields, or those of the version before.

    Args:
        new: the schema.
        before: the metadata of the version before it.
    """
    reserved = reserved_fields(new.schema.metadata)
    room = _room(f"{new.schema.type.value.lower()}_schema")
    with _strange_schemas():
        names = room.top_level_names(parsed(new))
    if wrong := sorted(name for name in names if name.startswith("$$") and new.schema.type is SchemaType.JSON):
        raise invalid_schema(f"Invalid schema, details: the name of a field cannot begin with $$: {wrong[0][:200]}")
    found = [f"RESERVED_FIELD_REMOVED at {name}" for name in sorted(reserved_fields(before) - reserved)]
    found += [f"FIELD_CONFLICTS_WITH_RESERVED_FIELD at {name}" for name in sorted(reserved & set(names))]
    return [_shown(each) for each in found[:DIFFERENCES_SHOWN_MAX]]


def compare(new: Given, others: Sequence[tuple[Version, Given]], level: Level) -> list[str]:
    """Return why a schema is incompatible with the first of some versions with which it is; empty if with none."""
    for version, old in others:
        found: list[str] = []
        if level.is_backward:
            found += incompatibilities(new, old)
        if level.is_forward:
            found += incompatibilities(old, new)
        if found:
            return [
                *(_shown(each) for each in found[:DIFFERENCES_SHOWN_MAX]),
                f"{{oldSchemaVersion: {version.number}}}",
                f"{{oldSchema: '{version.schema.text[:SHOWN_CHARACTERS_MAX]}'}}",
                f"{{compatibility: '{level.value}'}}",
            ]
    return []


def _shown(difference: str) -> str:
    description = difference[:SHOWN_CHARACTERS_MAX]
    return f"{{errorType: '{description.partition(' at ')[0]}', description: '{description}'}}"


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
    with _strange_schemas():
        text: str = _room("protobuf_schema").serialized(parsed(given))
    return text
