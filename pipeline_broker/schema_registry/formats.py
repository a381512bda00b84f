"""Schemas of all three languages: parsing, the stored form, equality and compatibility.

All functions run in the worker process and depend on their arguments alone. The modules of a language and their
libraries are imported with its first schema. Recently parsed schemas are cached, because a schema is compared with the
same ones again and again.
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

from pipeline_broker.base.schema_id import MessagePath
from pipeline_broker.base.strict_json import NESTING_MAX, RawJson, nesting
from pipeline_broker.schema_registry.contracts import reserved_fields
from pipeline_broker.schema_registry.errors import RegistryError, invalid_schema
from pipeline_broker.schema_registry.values import Level, Schema, SchemaType, Version

__all__ = [
    "NAMES_CHARACTERS_MAX",
    "PRELOADED",
    "TEXT_CHARACTERS_MAX",
    "Dependencies",
    "Recognized",
    "ResolvedSchema",
    "canonical",
    "check_new",
    "compare",
    "identity",
    "incompatibilities",
    "parsed",
    "record_names",
    "registered_identity",
    "reserved_differences",
    "serialized",
    "sketches",
]

TEXT_CHARACTERS_MAX = 1 << 20
"""Characters of a schema and everything that it refers to."""
# Texts of all cached schemas. A parsed schema takes up to 40 times the memory of its text.
REMEMBERED_CHARACTERS_MAX = 2 << 20
"""Characters of the parsed schemas in a worker process."""
NAMES_CHARACTERS_MAX = 64 << 10
"""Characters of the record names of one schema. Further records have no name."""
# A schema that does not fit into the cache would be parsed again for each comparison.
assert TEXT_CHARACTERS_MAX <= REMEMBERED_CHARACTERS_MAX
REMEMBERED_MAX = 64
"""Parsed schemas in a worker process."""
# Characters of an old schema, or of one difference, in an error.
SHOWN_CHARACTERS_MAX = 4_000
# Differences in one error.
DIFFERENCES_SHOWN_MAX = 100
DIGEST_BYTES = 16
MODULES = ("avro_schema", "json_schema", "json_compatibility", "protobuf_schema", "protobuf_compatibility")
PRELOADED = (*(f"pipeline_broker.schema_registry.{name}" for name in MODULES), "grpc_tools.protoc")
"""Modules of all languages. A worker process imports them before its first work."""
PACKAGES = {
    "avro": "avro",
    "jsonschema": "jsonschema",
    "google.protobuf": "protobuf",
    "google.type": "googleapis-common-protos",
    "grpc_tools": "grpcio-tools",
}

Dependencies: TypeAlias = tuple[tuple[str, str], ...]
"""(name, text) of each schema that a schema refers to, directly or not. Each follows the schemas that it needs itself.
"""


@attrs.frozen
class ResolvedSchema:
    schema: Schema
    dependencies: Dependencies

    @property
    def text_characters(self) -> int:
        return len(self.schema.text) + sum(len(name) + len(text) for name, text in self.dependencies)


def _module(name: str) -> ModuleType:
    try:
        return importlib.import_module(f"pipeline_broker.schema_registry.{name}")
    except ImportError as error:
        missing = next(
            (package for module, package in PACKAGES.items() if (error.name or "").startswith(module)), error.name
        )
        raise RegistryError(
            501,
            f"The schema cannot be read without the package {missing}. Run"
            " pip install 'pipeline-broker[schema-registry]' on the broker's machine.",
        ) from None


_remembered: OrderedDict[tuple[SchemaType, str, Dependencies], Any] = OrderedDict()  # least recently used first


def parsed(resolved: ResolvedSchema) -> Any:
    """Return a schema as an object of its language's library.

    Raises:
        RegistryError: the schema is invalid, too long or nested too deeply, or the library is not installed.
    """
    key = resolved.schema.type, resolved.schema.text, resolved.dependencies
    if key in _remembered:
        _remembered.move_to_end(key)
        return _remembered[key]
    if resolved.text_characters > TEXT_CHARACTERS_MAX:
        raise RegistryError(
            42209,
            f"The schema and its references have {resolved.text_characters} characters;"
            f" {TEXT_CHARACTERS_MAX} are allowed",
        )
    # The libraries for Avro and JSON Schema recurse into a schema.
    if resolved.schema.type is not SchemaType.PROTOBUF and nesting(resolved.schema.text) > NESTING_MAX:
        raise invalid_schema(f"Invalid schema, details: it is nested deeper than {NESTING_MAX}")
    with _library_errors_refused():
        found = _module(f"{resolved.schema.type.value.lower()}_schema").parse(
            resolved.schema.text, dict(resolved.dependencies)
        )
    _remember(key, found)
    return found


def _remember(key: tuple[SchemaType, str, Dependencies], found: Any) -> None:
    _remembered[key] = found
    while len(_remembered) > REMEMBERED_MAX or sum(map(_characters, _remembered)) > REMEMBERED_CHARACTERS_MAX:
        _remembered.popitem(last=False)


def _characters(key: tuple[SchemaType, str, Dependencies]) -> int:
    return len(key[1]) + sum(len(text) for _, text in key[2])


@contextlib.contextmanager
def _library_errors_refused() -> Iterator[None]:
    """Refuse a schema on which a library fails in any way: clients could not use it either."""
    try:
        yield
    except (RegistryError, MemoryError):
        raise
    except Exception as error:  # noqa: BLE001 - the libraries raise anything
        reason = error.strerror if isinstance(error, OSError) else str(error)  # without paths of the broker's files
        raise invalid_schema(f"Invalid schema, details: {type(error).__name__}: {str(reason)[:200]}") from None


class Recognized(NamedTuple):
    """A schema in its stored form, and two digests that find equal schemas.

    Attributes:
        schema: the stored form.
        sketch: a digest of the text alone, which is fast. Avro or JSON schemas with the same references are equal if
            and only if their sketches are. Different Protobuf schemas may share a sketch.
        identity: a digest of the schema and everything that it refers to. Only equal schemas share it.
    """

    schema: Schema
    sketch: str
    identity: str


def canonical(resolved: ResolvedSchema, is_normalized: bool) -> Recognized:
    """Return a schema in its stored form.

    Args:
        is_normalized: sort everything whose order has no meaning, including references.

    Raises:
        RegistryError: see `parsed`.
    """
    found = parsed(resolved)
    schema = resolved.schema
    language = _module(f"{schema.type.value.lower()}_schema")
    with _library_errors_refused():
        match schema.type:
            case SchemaType.AVRO:
                text = language.canonical(schema.text, dict(resolved.dependencies), is_normalized=is_normalized)
            case SchemaType.JSON:
                text = language.canonical(schema.text, is_normalized=is_normalized)
            case SchemaType.PROTOBUF:
                text = language.canonical(schema.text, found, is_normalized=is_normalized)
    references = tuple(sorted(set(schema.references))) if is_normalized else schema.references
    kept = attrs.evolve(schema, text=text, references=references)
    (made,) = sketches(schema.type, (text,))
    return Recognized(kept, made, identity(resolved))


def sketches(schema_type: SchemaType, texts: Sequence[str]) -> tuple[str, ...]:
    language = _module(f"{schema_type.value.lower()}_schema")
    found = []
    for text in texts:
        try:
            content = language.sketch(text)
        except MemoryError:
            raise
        except Exception:  # noqa: BLE001 - another registry may have registered anything
            content = text
        found.append(_digest(schema_type, content))
    return tuple(found)


def identity(resolved: ResolvedSchema) -> str:
    """Return the identity of a schema; raises RegistryError like `parsed`."""
    schema_type = resolved.schema.type
    language = _module(f"{schema_type.value.lower()}_schema")
    with _library_errors_refused():
        match schema_type:
            case SchemaType.AVRO:
                content = language.identity(resolved.schema.text, dict(resolved.dependencies))
            case SchemaType.JSON:
                content = language.sketch(resolved.schema.text)
            case SchemaType.PROTOBUF:
                content = language.identity(parsed(resolved))
    return _digest(schema_type, content)


def registered_identity(resolved: ResolvedSchema) -> str | None:
    """Return the identity of a registered schema; None if it cannot be parsed."""
    try:
        return identity(resolved)
    except RegistryError:
        return None


def _digest(schema_type: SchemaType, content: str) -> str:
    # The type is part of the digest, because a text may be valid in two languages.
    data = f"{schema_type} {content}".encode(errors="surrogatepass")
    return hashlib.blake2b(data, digest_size=DIGEST_BYTES).hexdigest()


def check_new(resolved: ResolvedSchema, expected: str) -> None:
    """Apply the additional checks of a new schema.

    Args:
        resolved: the schema in its stored form.
        expected: the identity of the schema that the client sent.

    Raises:
        RegistryError: a check failed, or the schema is invalid.
    """
    with _library_errors_refused():
        if resolved.schema.type is SchemaType.AVRO:
            _module("avro_schema").check_new(resolved.schema.text, dict(resolved.dependencies))
        elif resolved.schema.type is SchemaType.JSON:
            _module("json_schema").check_new(parsed(resolved))
    # The registry generates source from a descriptor. It must compile to the same schema.
    if resolved.schema.type is SchemaType.PROTOBUF and identity(resolved) != expected:
        raise invalid_schema("Invalid schema, details: its stored source is another schema")


def reserved_differences(new: ResolvedSchema, before: RawJson | None) -> list[str]:
    """Return how a schema breaks its own reserved fields, or those of the previous version; empty if it does not.

    Args:
        before: the metadata of the previous version; None if it has none.

    Raises:
        RegistryError: the schema is invalid, or the name of a JSON property begins with `$$`.
    """
    reserved = reserved_fields(new.schema.metadata)
    language = _module(f"{new.schema.type.value.lower()}_schema")
    with _library_errors_refused():
        names = language.top_level_names(parsed(new))
    if wrong := sorted(name for name in names if name.startswith("$$") and new.schema.type is SchemaType.JSON):
        raise invalid_schema(f"Invalid schema, details: the field {wrong[0][:200]} must not begin with $$")
    found = [f"RESERVED_FIELD_REMOVED at {name}" for name in sorted(reserved_fields(before) - reserved)]
    found += [f"FIELD_CONFLICTS_WITH_RESERVED_FIELD at {name}" for name in sorted(reserved & set(names))]
    return [_shown(each) for each in found[:DIFFERENCES_SHOWN_MAX]]


def compare(new: ResolvedSchema, others: Sequence[tuple[Version, ResolvedSchema]], level: Level) -> list[str]:
    """Return the differences from the first incompatible version; empty if the schema is compatible with all of them.

    Args:
        others: versions to compare with, in order.
        level: decides whether new readers, old readers or both must be able to read.

    Raises:
        RegistryError: a schema is invalid.
    """
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


def incompatibilities(reader: ResolvedSchema, writer: ResolvedSchema) -> Sequence[str]:
    """Return why a reader with one schema cannot read data of another; empty if it can.

    Raises:
        RegistryError: a schema is invalid.
    """
    if reader.schema.type is not writer.schema.type:
        return [f"the type of the schema changed from {writer.schema.type} to {reader.schema.type}"]
    kind = reader.schema.type.value.lower()
    language = _module("avro_schema" if kind == "avro" else f"{kind}_compatibility")
    with _library_errors_refused():
        found: Sequence[str] = language.incompatibilities(parsed(reader), parsed(writer))
    return found


def record_names(resolved: ResolvedSchema) -> dict[MessagePath, str]:
    """Return the names of the records in a schema, as subject name strategies use them.

    They are the full names of all messages of a Protobuf schema. The path () has the full name of an Avro record, or
    the title of a JSON Schema.

    Raises:
        RegistryError: see `parsed`.
    """
    found, characters = {}, 0
    with _library_errors_refused():
        for path, name in _module(f"{resolved.schema.type.value.lower()}_schema").record_names(parsed(resolved)):
            characters += len(name)
            if characters > NAMES_CHARACTERS_MAX:
                break
            found[path] = name
    return found


def serialized(resolved: ResolvedSchema) -> str:
    """Return the descriptor of a Protobuf schema in base64.

    Raises:
        RegistryError: see `parsed`.
    """
    with _library_errors_refused():
        text: str = _module("protobuf_schema").serialized(parsed(resolved))
    return text
