"""Declarations of messages: attrs classes with the type and the versions of each field.

A field is declared once for all versions. Version ranges are texts in Kafka's notation ("3+", "0-12", "4", "none");
they are parsed when a codec is compiled, so imports stay fast.
"""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple, TypeVar, cast

import attrs

from pipeline_broker.wire.primitives import UUID_ZERO

VERSION_MAX = 0x7FFF
INT32_MIN = -(2**31)
INT32_MAX = 2**31 - 1
INT64_MAX = 2**63 - 1

Struct = TypeVar("Struct")


class Schema(NamedTuple):
    """The schema of a message class; `key` is its API key, or the type of a coordinator record."""

    key: int
    versions: str
    flexible: str


class Spec(NamedTuple):
    """The declaration of one field.

    Attributes:
        type: the name of a primitive, a struct class, or the name of a sibling struct.
    """

    type: str | type
    is_array: bool
    versions: str
    nullable: str
    default: Any
    tag: int | None
    ignorable: bool


class Field(NamedTuple):
    """A declared field with its name and parsed version ranges."""

    name: str
    type: str | type
    is_array: bool
    versions: range
    nullable: range
    default: Any
    tag: int | None
    ignorable: bool


@cache
def parse_versions(text: str) -> range:
    """Parse a version range in Kafka's notation: "3+", "0-12", "4" or "none"."""
    if text == "none":
        return range(0)
    if text.endswith("+"):
        return range(int(text[:-1]), VERSION_MAX + 1)
    first, _, last = text.partition("-")
    return range(int(first), int(last or first) + 1)


@cache
def fields_of(struct: type) -> tuple[Field, ...]:
    found = []
    for attribute in attrs.fields(struct):
        spec: Spec = attribute.metadata["spec"]
        versions, nullable = parse_versions(spec.versions), parse_versions(spec.nullable)
        found.append(Field(attribute.name, *spec._replace(versions=versions, nullable=nullable)))  # type: ignore[arg-type]  # mypy loses the types of _replace
    return tuple(found)


def resolve(message: type, name: str | type) -> type | None:
    """Return the struct class that a type refers to; None for a primitive."""
    if isinstance(name, type):
        return name
    struct = getattr(message, name, None)
    return struct if isinstance(struct, type) else None


def declare(
    type_: str | type,
    versions: str,
    nullable: str,
    default: Any,
    *,
    tag: int | None,
    ignorable: bool,
    is_array: bool = False,
) -> Any:
    spec = Spec(type_, is_array, versions, nullable, default, tag, ignorable)
    initial = attrs.Factory(list) if is_array and default is not None else default
    return attrs.field(default=initial, metadata={"spec": spec})


def boolean(versions: str, *, default: bool = False, tag: int | None = None, ignorable: bool = False) -> Any:
    return declare("bool", versions, "none", default, tag=tag, ignorable=ignorable)


def int8(versions: str, *, default: int = 0, tag: int | None = None, ignorable: bool = False) -> Any:
    return declare("int8", versions, "none", default, tag=tag, ignorable=ignorable)


def int16(versions: str, *, default: int = 0, tag: int | None = None, ignorable: bool = False) -> Any:
    return declare("int16", versions, "none", default, tag=tag, ignorable=ignorable)


def uint16(versions: str, *, default: int = 0, tag: int | None = None, ignorable: bool = False) -> Any:
    return declare("uint16", versions, "none", default, tag=tag, ignorable=ignorable)


def int32(versions: str, *, default: int = 0, tag: int | None = None, ignorable: bool = False) -> Any:
    return declare("int32", versions, "none", default, tag=tag, ignorable=ignorable)


def int64(versions: str, *, default: int = 0, tag: int | None = None, ignorable: bool = False) -> Any:
    return declare("int64", versions, "none", default, tag=tag, ignorable=ignorable)


def float64(versions: str, *, default: float = 0.0, tag: int | None = None, ignorable: bool = False) -> Any:
    return declare("float64", versions, "none", default, tag=tag, ignorable=ignorable)


def uuid(versions: str, *, tag: int | None = None, ignorable: bool = False) -> Any:
    """Declare a UUID of 16 bytes; the default is all zero, Kafka's null UUID."""
    return declare("uuid", versions, "none", UUID_ZERO, tag=tag, ignorable=ignorable)


def string(
    versions: str,
    *,
    nullable: str = "none",
    default: str | None = "",
    tag: int | None = None,
    ignorable: bool = False,
) -> Any:
    return declare("string", versions, nullable, default, tag=tag, ignorable=ignorable)


def binary(versions: str, *, nullable: str = "none", default: bytes | None = b"", ignorable: bool = False) -> Any:
    """Declare bytes, which are copied out of the buffer on decoding."""
    return declare("bytes", versions, nullable, default, tag=None, ignorable=ignorable)


def record_set(versions: str, *, nullable: str = "none") -> Any:
    """Declare record batches, which are never copied.

    Decoding returns a view of the buffer. Encoding takes a buffer or a sequence of buffers.
    """
    return declare("records", versions, nullable, None, tag=None, ignorable=False)


@cache
def shared_default(type_: type) -> Any:
    """Return the default instance of a struct class. All messages share it, so the class must be frozen."""
    return type_()


def struct(type_: type[Struct], versions: str, *, tag: int | None = None, ignorable: bool = False) -> Any:
    """Declare a struct with the default instance of its class. The class must be frozen."""
    return declare(type_, versions, "none", shared_default(cast("Any", type_)), tag=tag, ignorable=ignorable)


def optional_struct(type_: type[Struct], versions: str, *, tag: int | None = None, ignorable: bool = False) -> Any:
    return declare(type_, versions, versions, None, tag=tag, ignorable=ignorable)


def array(
    type_: str,
    versions: str,
    *,
    nullable: str = "none",
    default: tuple[()] | None = (),
    tag: int | None = None,
    ignorable: bool = False,
) -> Any:
    """Declare an array of a primitive, or of a struct that is an attribute of the message class."""
    return declare(type_, versions, nullable, default, tag=tag, ignorable=ignorable, is_array=True)
