"""Every declared message in every version, compared with Kafka's own definitions."""

from __future__ import annotations

from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline_broker.wire.codec import decode, encode
from pipeline_broker.wire.schema import Field, fields_of, resolve
from tests.kafka_tools import require_the_followed_kafka
from tests.wire.definitions import FieldDefinition, definitions, read
from tests.wire.generated import API_MESSAGES, each_message, each_version, objects, plain, quick, sample


@pytest.fixture(autouse=True, scope="module")
def _jars():
    require_the_followed_kafka()


def as_dict(value: Any, version: int) -> Any:
    if isinstance(value, list):
        return [as_dict(each, version) for each in value]
    if not attrs.has(type(value)):
        return value
    fields = (field for field in fields_of(type(value)) if version in field.versions)
    return {field.name: as_dict(getattr(value, field.name), version) for field in fields}


def check(message: type, version: int, built: Any) -> None:
    """Kafka's definition reads the same values from our bytes, and our codec reads the message again."""
    data = b"".join(encode(built, version))
    assert read(message.__name__, version, data) == (as_dict(built, version), len(data))
    decoded, position = decode(message, version, memoryview(data))
    assert position == len(data)
    assert plain(decoded) == built


@each_version(API_MESSAGES, parts=4)
@quick
@given(data=st.data())
def test_kafkas_definition_reads_what_the_codec_writes(message, version, data):
    check(message, version, data.draw(objects(message, version)))


@each_version(API_MESSAGES)
def test_kafkas_definition_reads_defaults_and_filled_messages(message, version):
    """Covers a message of defaults, and one with content in every field."""
    check(message, version, message())
    check(message, version, sample(message, version, elements=2))


@each_message(API_MESSAGES)
def test_fields_are_declared_as_kafka_defines_them(message):
    found = definitions()[message.__name__]
    assert list(declared(message, message, found.versions)) == list(defined(found.fields, found.versions))


Described = tuple[str, Any, bool, list[int], list[int], int, Any]
"""Name, primitive type, array or not, versions, nullable versions, tag and default."""


def declared(message: type, structure: type, valid: range, path: str = "") -> list[Described]:
    found: list[Described] = []
    for field in fields_of(structure):
        versions = [version for version in valid if version in field.versions]
        if not versions:
            continue
        inner = resolve(message, field.type)
        name = f"{path}.{field.name}"
        nullable = [version for version in versions if version in field.nullable]
        tag = -1 if field.tag is None else field.tag
        found.append((name, None if inner else field.type, field.is_array, versions, nullable, tag, default_of(field)))
        if inner:
            found += declared(message, inner, valid, name)
    return found


def default_of(field: Field) -> Any:
    return (
        field.default if field.default is None or isinstance(field.default, str | bytes | int | float | tuple) else ...
    )


def defined(fields: tuple[FieldDefinition, ...], valid: range, path: str = "") -> list[Described]:
    found: list[Described] = []
    for field in fields:
        versions = [version for version in valid if version in field.versions]
        if not versions:
            continue
        name, kind = f"{path}.{field.name}", None if field.fields is not None else field.type
        nullable = [version for version in versions if version in field.nullable]
        found.append((name, kind, field.is_array, versions, nullable, field.tag, field.default))
        if field.fields is not None:
            found += defined(field.fields, valid, name)
    return found
