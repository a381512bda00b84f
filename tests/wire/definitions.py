"""Kafka's own definitions of its messages, from the jars of `kafka_process.VERSION`, and a reader that follows them.

The reader shares no code with the codec. It returns structures as dicts, under Kafka's names in snake case.
"""

from __future__ import annotations

import json
import re
import struct
from functools import cache
from typing import Any, NamedTuple
from zipfile import ZipFile

from pipeline_broker.measure.experiment.kafka_process import VERSION, fetch_jars
from pipeline_broker.wire.schema import parse_versions

FOLDER = "common/message/"
COMMENT = re.compile(r"^\s*//.*$", re.MULTILINE)
WORD_START = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
FIXED = {
    "bool": "?",
    "int8": "b",
    "int16": "h",
    "uint16": "H",
    "int32": "i",
    "uint32": "I",
    "int64": "q",
    "float64": "d",
}
IMPLICIT = {"bool": False, "string": "", "bytes": b"", "records": None, "uuid": bytes(16), "float64": 0.0}


def snake_case(name: str) -> str:
    return WORD_START.sub("_", name).lower()


class FieldDefinition(NamedTuple):
    """One field.

    Attributes:
        type: the name of a primitive or of a structure.
        fields: of a structure; None for a primitive.
        flexible: the versions with compact lengths.
    """

    name: str
    type: str
    is_array: bool
    versions: range
    nullable: range
    tagged: range
    tag: int
    flexible: range
    default: Any
    fields: tuple[FieldDefinition, ...] | None


class Definition(NamedTuple):
    """A request, response or header.

    Attributes:
        key: the API key; None for headers.
        stable: the versions that a broker advertises.
    """

    name: str
    key: int | None
    listeners: tuple[str, ...]
    versions: range
    stable: range
    flexible: range
    fields: tuple[FieldDefinition, ...]


@cache
def definitions() -> dict[str, Definition]:
    """Return all messages by name, such as `FetchRequest`. The caller has required Kafka's jars."""
    with ZipFile(fetch_jars() / f"kafka-clients-{VERSION}.jar") as jar:
        names = [name for name in jar.namelist() if name.startswith(FOLDER) and name.endswith(".json")]
        texts = [COMMENT.sub("", jar.read(name).decode()) for name in names]
    parsed = [json.loads(text) for text in texts]
    return {it["name"]: _definition(it) for it in parsed if it["type"] != "data" and it["validVersions"] != "none"}


def _definition(it: dict[str, Any]) -> Definition:
    versions, flexible = parse_versions(it["validVersions"]), parse_versions(it["flexibleVersions"])
    shared = {each["name"]: each["fields"] for each in it.get("commonStructs", ())}
    return Definition(
        it["name"],
        it.get("apiKey"),
        tuple(it.get("listeners", ())),
        versions,
        versions[:-1] if it.get("latestVersionUnstable") else versions,
        flexible,
        _fields(it["fields"], shared, flexible),
    )


def _fields(found: list[dict[str, Any]], shared: dict[str, Any], flexible: range) -> tuple[FieldDefinition, ...]:
    return tuple(_field(it, shared, flexible) for it in found)


def _field(it: dict[str, Any], shared: dict[str, Any], flexible: range) -> FieldDefinition:
    kind = it["type"].removeprefix("[]")
    is_array, nullable = kind != it["type"], parse_versions(it.get("nullableVersions", "none"))
    inner = it.get("fields") or shared.get(kind)
    return FieldDefinition(
        snake_case(it["name"]),
        kind,
        is_array,
        parse_versions(it["versions"]),
        nullable,
        parse_versions(it.get("taggedVersions", "none")),
        it.get("tag", -1),
        parse_versions(it["flexibleVersions"]) if "flexibleVersions" in it else flexible,
        _default(it.get("default"), kind, is_array=is_array, is_structure=inner is not None),
        None if inner is None else _fields(inner, shared, flexible),
    )


def _default(text: Any, kind: str, *, is_array: bool, is_structure: bool) -> Any:
    """Return the value of a field without one; `...` for a structure of defaults."""
    if text == "null":
        return None
    if is_array:
        return ()
    if is_structure:
        return ...
    if text is None or text == "":
        return IMPLICIT.get(kind, 0)
    if kind == "bool":
        return str(text) == "true"
    return text if kind == "string" else int(str(text), 0)


def read(name: str, version: int, data: Any, position: int = 0) -> tuple[dict[str, Any], int]:
    """Read a message; return it with the position after it."""
    found = definitions()[name]
    reader = _Reader(bytes(data), position, version, is_flexible=version in found.flexible)
    return reader.structure(found.fields), reader.position


class _Reader:
    def __init__(self, data: bytes, position: int, version: int, *, is_flexible: bool) -> None:
        self.data, self.position = data, position
        self.version, self.is_flexible = version, is_flexible

    def structure(self, fields: tuple[FieldDefinition, ...]) -> dict[str, Any]:
        present = [field for field in fields if self.version in field.versions]
        found = {}
        for field in present:
            found[field.name] = self._default(field) if self.version in field.tagged else self.value(field)
        if self.is_flexible:
            self._tags({field.tag: field for field in present if self.version in field.tagged}, found)
        return found

    def _default(self, field: FieldDefinition) -> Any:
        if field.default is ... and field.fields is not None:
            return {inner.name: self._default(inner) for inner in field.fields if self.version in inner.versions}
        return [] if field.default == () else field.default

    def _tags(self, fields: dict[int, FieldDefinition], found: dict[str, Any]) -> None:
        last = -1
        for _ in range(self._varint()):
            tag, size = self._varint(), self._varint()
            assert tag > last, "tags ascend"
            last, end = tag, self.position + size
            found[fields[tag].name] = self.value(fields[tag])
            assert self.position == end, fields[tag].name

    def value(self, field: FieldDefinition) -> Any:
        is_nullable = self.version in field.nullable
        if not field.is_array:
            return self._one(field, is_nullable=is_nullable)
        count = self._length("i", field, is_nullable=is_nullable)
        return None if count is None else [self._one(field, is_nullable=False) for _ in range(count)]

    def _one(self, field: FieldDefinition, *, is_nullable: bool) -> Any:
        if field.fields is not None:
            is_null = is_nullable and self._fixed("b") < 0
            return None if is_null else self.structure(field.fields)
        if field.type in FIXED:
            return self._fixed(FIXED[field.type])
        if field.type == "uuid":
            return self._take(16)
        size = self._length("h" if field.type == "string" else "i", field, is_nullable=is_nullable)
        if size is None:
            return None
        taken = self._take(size)
        return taken.decode() if field.type == "string" else taken

    def _length(self, code: str, field: FieldDefinition, *, is_nullable: bool) -> int | None:
        length: int = self._varint() - 1 if self.version in field.flexible else self._fixed(code)
        assert length >= -is_nullable, f"{field.name} has length {length}"
        return None if length < 0 else length

    def _fixed(self, code: str) -> Any:
        (value,) = struct.unpack(f">{code}", self._take(struct.calcsize(f">{code}")))
        return value

    def _varint(self) -> int:
        value = shift = 0
        while (byte := self._take(1)[0]) >= 0x80:
            value |= (byte & 0x7F) << shift
            shift += 7
        return value | byte << shift

    def _take(self, size: int) -> bytes:
        taken = self.data[self.position : self.position + size]
        assert len(taken) == size, "the message ends too early"
        self.position += size
        return taken
