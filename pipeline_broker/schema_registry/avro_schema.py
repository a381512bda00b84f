"""Avro schemas: parsing, the stored form, and schema resolution.

`avro_form` reads a schema, and Apache's library decides compatibility (`avro.compatibility`, which implements "Schema
Resolution" of Avro's specification). The library receives the form, in which names and aliases are full.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import avro.compatibility
import avro.errors
import avro.name
import avro.schema

from pipeline_broker.base.schema_id import MessagePath
from pipeline_broker.base.strict_json import InvalidJsonError, dump
from pipeline_broker.schema_registry.avro_defaults import wrong_default
from pipeline_broker.schema_registry.avro_form import (
    AvroFormError,
    Definitions,
    definitions_of,
    read,
    read_json,
    written,
)
from pipeline_broker.schema_registry.errors import RegistryError, invalid_schema

__all__ = [
    "canonical",
    "check_new",
    "identity",
    "incompatibilities",
    "parse",
    "record_names",
    "sketch",
    "top_level_names",
]


class _FullNames(avro.name.Names):
    # All names in the form are full. The library would add the namespace of the type around a name.

    @property
    def default_namespace(self) -> str | None:
        return None

    @default_namespace.setter
    def default_namespace(self, _: str | None) -> None:
        pass


def parse(text: str, dependencies: Mapping[str, str]) -> avro.schema.Schema:
    """Parse a schema.

    Args:
        text: JSON, with comments as in Java.
        dependencies: the schemas that it refers to, by name. Each follows the schemas that it needs itself.

    Raises:
        RegistryError: the schema or one of its dependencies is invalid.
    """
    return _made(_form(text, dependencies, is_strict=False)[0], text)


def _form(text: str, dependencies: Mapping[str, str], *, is_strict: bool) -> tuple[Any, Definitions]:
    """Return the form of a schema with everything that it refers to, and the types that it defines itself."""
    try:
        known = definitions_of([read_json(dependency) for dependency in dependencies.values()])
        node, own = read(read_json(text), known, is_strict=is_strict)
        return written(node, {**known, **own}), own
    except (AvroFormError, InvalidJsonError) as error:
        raise _invalid(text, error) from None


def _made(form: Any, text: str) -> avro.schema.Schema:
    names = _FullNames(validate_names=False)
    try:
        return avro.schema.make_avsc_object(_plain(form), names, validate_names=False)
    except (avro.errors.AvroException, ValueError, TypeError, AttributeError, KeyError, RecursionError) as error:
        raise _invalid(text, error) from None


def _invalid(text: str, error: Exception) -> RegistryError:
    return invalid_schema(f"Invalid schema {text[:200]}, details: {type(error).__name__}: {str(error)[:500]}")


def check_new(text: str, dependencies: Mapping[str, str]) -> None:
    """Apply the strict checks of `avro_form` to a new schema, and check its defaults.

    Registered schemas are read without these checks, because other registries may have accepted them.

    Raises:
        RegistryError: a check fails, such as that of a name, or a default is not a value of its type.
    """
    form, own = _form(text, dependencies, is_strict=True)
    if wrong := wrong_default(_made(form, text), own):
        raise invalid_schema(f"Invalid schema {text[:200]}, details: {wrong}")


def _plain(content: Any) -> Any:
    # Schema resolution ignores logical types, and that a record is an error. The library does not.
    if isinstance(content, list):
        return [_plain(each) for each in content]
    if not isinstance(content, dict):
        return content
    plain = {name: _plain(each) for name, each in content.items() if name != "logicalType"}
    return {**plain, "type": "record"} if content.get("type") == "error" and "fields" in content else plain


def canonical(text: str, dependencies: Mapping[str, str], *, is_normalized: bool) -> str:
    """Return the stored form of a schema: without whitespace, and with `is_normalized` in the form of `avro_form`."""
    content = read_json(text)
    if is_normalized:
        known = definitions_of([read_json(dependency) for dependency in dependencies.values()])
        node, own = read(content, known, is_strict=False)
        content = written(node, {**known, **own}, known)
    return dump(content)


def sketch(text: str) -> str:
    """Return a text that equal schemas share, without resolving their references.

    Raises:
        AvroFormError, InvalidJsonError: the text is not a schema.
    """
    node, own = read(read_json(text), {}, is_strict=False)
    return dump(written(node, own), is_sorted=True)


def identity(text: str, dependencies: Mapping[str, str]) -> str:
    """Return a text that only equal schemas share, including everything that they refer to.

    Raises:
        RegistryError: the schema or one of its dependencies is invalid.
    """
    return dump(_form(text, dependencies, is_strict=False)[0], is_sorted=True)


def top_level_names(schema: avro.schema.Schema) -> list[str]:
    return [field.name for field in schema.fields] if isinstance(schema, avro.schema.RecordSchema) else []


def record_names(schema: avro.schema.Schema) -> Iterator[tuple[MessagePath, str]]:
    if isinstance(schema, avro.schema.RecordSchema):
        yield (), schema.fullname


def incompatibilities(reader: avro.schema.Schema, writer: avro.schema.Schema) -> Sequence[str]:
    """Return why a reader with one schema cannot read data of another; empty if it can."""
    made: Any = avro.compatibility.ReaderWriterCompatibilityChecker  # has no types
    found = made().get_compatibility(reader, writer)
    if found.compatibility is avro.compatibility.SchemaCompatibilityType.compatible:
        return []
    kinds = ", ".join(dict.fromkeys(kind.name.upper() for kind in found.incompatibilities))
    return [f"{kinds} at {', '.join(sorted(found.locations))}: {'; '.join(sorted(found.messages))}"]
