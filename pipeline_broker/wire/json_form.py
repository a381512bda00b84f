"""Messages as JSON, in the form of Kafka's generated JSON converters.

Names are camelCase. Fields that the version does not have are left out, and so are tagged fields with their default.
UUIDs are URL-safe base64, and bytes standard base64. Records appear only by their size.
"""

from __future__ import annotations

import base64
from functools import cache
from typing import Any, NamedTuple

from pipeline_broker.wire.schema import fields_of, resolve
from pipeline_broker.wire.uuid_text import uuid_text

__all__ = ["json_form"]

RECORDS = "records"
RECORDS_SIZE = "recordsSizeInBytes"
UUID = "uuid"


class _Field(NamedTuple):
    attribute: str
    name: str
    kind: str | type
    struct: type | None
    is_array: bool
    is_tagged: bool
    default: Any


@cache
def _fields(message: type, struct: type, version: int) -> tuple[_Field, ...]:
    found = []
    for field in fields_of(struct):
        if version in field.versions:
            first, *others = field.name.split("_")
            name = first + "".join(map(str.capitalize, others))
            below = resolve(message, field.type)
            is_tagged = field.tag is not None
            default = [] if field.is_array and field.default is not None else field.default
            found.append(_Field(field.name, name, field.type, below, field.is_array, is_tagged, default))
    return tuple(found)


def _size_of(records: Any) -> int:
    return sum(map(len, records)) if isinstance(records, list | tuple) else len(records)


def _value(value: Any, field: _Field, message: type, version: int) -> Any:
    if value is None:
        return None
    if field.struct is not None:
        return _struct(value, message, field.struct, version)
    if field.kind == UUID:
        return uuid_text(value)
    if isinstance(value, bytes | bytearray | memoryview):
        return base64.b64encode(value).decode()
    return value


def _struct(value: Any, message: type, struct: type, version: int) -> dict[str, Any]:
    form: dict[str, Any] = {}
    for field in _fields(message, struct, version):
        content = getattr(value, field.attribute)
        if field.is_tagged and content == field.default:
            continue
        if field.kind == RECORDS and content is not None:
            form[RECORDS_SIZE] = _size_of(content)
        elif field.is_array and content is not None:
            form[field.name] = [_value(element, field, message, version) for element in content]
        else:
            form[field.name] = _value(content, field, message, version)
    return form


def json_form(message: Any, version: int) -> dict[str, Any]:
    """Return a message as a value for `json.dumps`, like Kafka's converter of that version."""
    kind: Any = type(message)
    return _struct(message, kind, kind, version)
