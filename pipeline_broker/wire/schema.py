"""How a message is declared: attrs classes whose fields say in which versions they exist and how they are written.

Rules of this file: it names types and versions only and writes no bytes; a field is declared once for all versions;
version texts are Kafka's own ("3+", "0-12", "4", "none") and are parsed when a codec is compiled, not at import.
A struct that is itself a field (not an element of an array) is frozen, because every message shares its default.
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
    """What a message class says of itself; `key` is the API key, or the type of a coordinator record."""

    key: int
    versions: str
    flexible: str


class Spec(NamedTuple):
    """How one field is written; `type` is a primitive's name, a struct class or the name of a sibling struct."""

    type: str | type
    is_array: bool
    versions: str
    nullable: str
    default: Any
    tag: int | None
    ignorable: bool


class Field(NamedTuple):
    """A declared field with its name and its version texts parsed."""

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
    """Turn Kafka's version text into a range: "3+", "0-12", "4" or "none"."""
    if text == "none":
        return range(0)
    if text.endswith("+"):
        return range(int(text[:-1]), VERSION_MAX + 1)
    first, _, last = text.partition("-")
    return range(int(first), int(last or first) + 1)


@cache
def fields_of(struct: type) -> tuple[Field, ...]:
    """List the fields of a declared class in the order in which they are written."""
    found = []
    for attribute in attrs.fields(struct):
        spec: Spec = attribute.metadata["spec"]
        versions, nullable = parse_versions(spec.versions), parse_versions(spec.nullable)
        found.append(Field(attribute.name, *spec._replace(versions=versions, nullable=nullable)))  # type: ignore[arg-type]  # mypy loses the types of _replace
    return tuple(found)


def resolve(message: type, name: str | type) -> type | None:
    """Find the struct class behind a type; None for a primitive."""
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
    """Make the attrs field of a declaration."""
    spec = Spec(type_, is_array, versions, nullable, default, tag, ignorable)
    initial = attrs.Factory(list) if is_array and default is not None else default
    return attrs.field(default=initial, metadata={"spec": spec})


def boolean(versions: str, *, default: bool = False, tag: int | None = None, ignorable: bool = False) -> Any:
    """One byte, 0 or 1."""
    return declare("bool", versions, "none", default, tag=tag, ignorable=ignorable)


def int8(versions: str, *, default: int = 0, tag: int | None = None, ignorable: bool = False) -> Any:
    """Declare a signed integer of one byte."""
    return declare("int8", versions, "none", default, tag=tag, ignorable=ignorable)


def int16(versions: str, *, default: int = 0, tag: int | None = None, ignorable: bool = False) -> Any:
    """Declare a signed integer of two bytes."""
    return declare("int16", versions, "none", default, tag=tag, ignorable=ignorable)


def uint16(versions: str, *, default: int = 0, tag: int | None = None, ignorable: bool = False) -> Any:
    """Declare an unsigned integer of two bytes."""
    return declare("uint16", versions, "none", default, tag=tag, ignorable=ignorable)


def int32(versions: str, *, default: int = 0, tag: int | None = None, ignorable: bool = False) -> Any:
    """Declare a signed integer of four bytes."""
    return declare("int32", versions, "none", default, tag=tag, ignorable=ignorable)


def int64(versions: str, *, default: int = 0, tag: int | None = None, ignorable: bool = False) -> Any:
    """Declare a signed integer of eight bytes."""
    return declare("int64", versions, "none", default, tag=tag, ignorable=ignorable)


def float64(versions: str, *, default: float = 0.0, tag: int | None = None, ignorable: bool = False) -> Any:
    """Declare a floating-point number of eight bytes."""
    return declare("float64", versions, "none", default, tag=tag, ignorable=ignorable)


def uuid(versions: str, *, tag: int | None = None, ignorable: bool = False) -> Any:
    """Sixteen raw bytes, all zero for none."""
    return declare("uuid", versions, "none", UUID_ZERO, tag=tag, ignorable=ignorable)


def string(
    versions: str,
    *,
    nullable: str = "none",
    default: str | None = "",
    tag: int | None = None,
    ignorable: bool = False,
) -> Any:
    """Declare a text in UTF-8 of at most 32767 bytes."""
    return declare("string", versions, nullable, default, tag=tag, ignorable=ignorable)


def binary(versions: str, *, nullable: str = "none", default: bytes | None = b"", ignorable: bool = False) -> Any:
    """Bytes of another protocol, copied out of the buffer on reading."""
    return declare("bytes", versions, nullable, default, tag=None, ignorable=ignorable)


def record_set(versions: str, *, nullable: str = "none") -> Any:
    """Record batches: a view of the buffer on reading, a buffer or a sequence of buffers on writing; never copied."""
    return declare("records", versions, nullable, None, tag=None, ignorable=False)


@cache
def shared_default(type_: type) -> Any:
    """Make the one default instance of a struct class; frozen, so sharing it is safe."""
    return type_()


def struct(type_: type[Struct], versions: str, *, tag: int | None = None, ignorable: bool = False) -> Any:
    """Declare a struct whose default is its class's own; the class must be frozen."""
    return declare(type_, versions, "none", shared_default(cast("Any", type_)), tag=tag, ignorable=ignorable)


def optional_struct(type_: type[Struct], versions: str, *, tag: int | None = None, ignorable: bool = False) -> Any:
    """Declare a struct that may be null and is so by default."""
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
    """Declare a list of a primitive, or of a struct that is an attribute of the message class, by name."""
    return declare(type_, versions, nullable, default, tag=tag, ignorable=ignorable, is_array=True)
