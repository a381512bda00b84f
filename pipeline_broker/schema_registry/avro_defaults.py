"""The check that defaults in an Avro schema are values of their types.

The rules are those of Avro's specification ("Complex Types, Records"). The default of a union may match any branch.
Apache's Python library does not check defaults, so a wrong one would only fail in the first consumer that needs it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

import avro.schema

__all__ = ["wrong_default"]

INT_BITS = 31
LONG_BITS = 63
BYTE_MAX = 255
SHOWN_CHARACTERS_MAX = 200


def wrong_default(root: avro.schema.Schema, own: Collection[str]) -> str | None:
    """Return an error for the first default that is not a value of its type; None if all are.

    Args:
        root: the schema, with everything that it refers to.
        own: full names of the types that the schema defines itself; others are not checked.
    """
    for field in _fields(root, own):
        if field.has_default and not _is_value(field.type, field.default):
            default, kind = (text[:SHOWN_CHARACTERS_MAX] for text in (json.dumps(field.default), str(field.type)))
            return f"Invalid default for field {field.name}: {default} is not a value of the type {kind}"
    return None


def _fields(root: avro.schema.Schema, own: Collection[str]) -> Iterator[Any]:
    seen: set[int] = set()
    waiting: list[Any] = [root]
    while waiting:
        schema = waiting.pop()
        if id(schema) in seen:
            continue
        seen.add(id(schema))
        if isinstance(schema, avro.schema.RecordSchema) and schema.fullname in own:
            yield from schema.fields
            waiting += [field.type for field in reversed(schema.fields)]
        elif isinstance(schema, avro.schema.UnionSchema):
            waiting += reversed(schema.schemas)
        elif isinstance(schema, avro.schema.ArraySchema):
            waiting.append(schema.items)
        elif isinstance(schema, avro.schema.MapSchema):
            waiting.append(schema.values)


def _is_value(schema: Any, value: Any) -> bool:
    return IS_VALUE[schema.type](schema, value)


def _is_whole(value: Any, bits: int) -> bool:
    return type(value) is int and -(1 << bits) <= value < 1 << bits


def _is_float(value: Any) -> bool:
    return type(value) in (int, float) or (isinstance(value, str) and value.lstrip("+-") in ("NaN", "Infinity"))


def _is_bytes(value: Any) -> bool:
    return isinstance(value, str) and all(ord(letter) <= BYTE_MAX for letter in value)


def _is_record(schema: Any, value: Any) -> bool:
    # A missing field takes its own default, which `wrong_default` checks by itself.
    return isinstance(value, dict) and all(
        _is_value(field.type, value[field.name]) if field.name in value else field.has_default
        for field in schema.fields
    )


IS_VALUE: Mapping[str, Callable[[Any, Any], bool]] = {
    "null": lambda _, value: value is None,
    "boolean": lambda _, value: isinstance(value, bool),
    "int": lambda _, value: _is_whole(value, INT_BITS),
    "long": lambda _, value: _is_whole(value, LONG_BITS),
    "float": lambda _, value: _is_float(value),
    "double": lambda _, value: _is_float(value),
    "string": lambda _, value: isinstance(value, str),
    "bytes": lambda _, value: _is_bytes(value),
    "fixed": lambda schema, value: _is_bytes(value) and len(value) == schema.size,
    "enum": lambda schema, value: value in schema.symbols,
    "array": lambda schema, value: isinstance(value, list) and all(_is_value(schema.items, each) for each in value),
    "map": lambda schema, value: isinstance(value, dict) and all(_is_value(schema.values, it) for it in value.values()),
    "union": lambda schema, value: any(_is_value(branch, value) for branch in schema.schemas),
    "record": _is_record,
    "error": _is_record,
}
