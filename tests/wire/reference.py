"""A slow reference encoder that walks the declarations. A test may falsify its lengths and tag sections.

It shares the declarations with the codec, but no code.
"""

from __future__ import annotations

import struct
from typing import Any

from pipeline_broker.wire.schema import Field, fields_of, parse_versions, resolve

CODES = {"bool": "?", "int8": "b", "int16": "h", "uint16": "H", "int32": "i", "int64": "q", "float64": "d"}


def varint(value: int) -> bytes:
    out = b""
    while value >= 0x80:
        out += bytes([value % 0x80 + 0x80])
        value //= 0x80
    return out + bytes([value])


class Reference:
    """An encoder of one message.

    Args:
        false_lengths: replacements of the n-th length or count.
        unknown_tags: added to every tag section.
    """

    def __init__(
        self,
        message: Any,
        version: int,
        *,
        false_lengths: dict[int, int] | None = None,
        unknown_tags: dict[int, bytes] | None = None,
    ) -> None:
        self.message = type(message)
        self.version = version
        self.flexible = version in parse_versions(message.SCHEMA.flexible)
        self.false_lengths = false_lengths or {}
        self.unknown_tags = unknown_tags or {}
        self.lengths: list[bool] = []
        """For each written length and count: True if null was allowed."""
        self.data = self.structure(message)

    def length(self, actual: int, code: str, *, nullable: bool) -> bytes:
        value = self.false_lengths.get(len(self.lengths), actual)
        self.lengths.append(nullable)
        return varint(value + 1) if self.flexible else struct.pack(">" + code, value)

    def structure(self, value: Any) -> bytes:
        fields = [field for field in fields_of(type(value)) if self.version in field.versions]
        data = b"".join(self.value(field, getattr(value, field.name)) for field in fields if field.tag is None)
        if not self.flexible:
            return data
        tags = dict(self.unknown_tags)
        for field in fields:
            inner = getattr(value, field.name)
            default = [] if field.default == () else field.default
            if field.tag is not None and inner != default:
                tags[field.tag] = self.value(field, inner)
        section = b"".join(varint(tag) + varint(len(tags[tag])) + tags[tag] for tag in sorted(tags))
        return data + varint(len(tags)) + section

    def value(self, field: Field, value: Any) -> bytes:
        nullable = self.version in field.nullable
        if field.is_array:
            if value is None:
                return self.length(-1, "i", nullable=nullable)
            head = self.length(len(value), "i", nullable=nullable)
            return head + b"".join(self.single(field, element, nullable=False) for element in value)
        return self.single(field, value, nullable=nullable)

    def single(self, field: Field, value: Any, *, nullable: bool) -> bytes:
        if resolve(self.message, field.type):
            if not nullable:
                return self.structure(value)
            return b"\xff" if value is None else b"\x01" + self.structure(value)
        if field.type == "uuid":
            assert len(value) == 16
            return bytes(value)
        if field.type in CODES:
            return struct.pack(">" + CODES[str(field.type)], value)
        code = "h" if field.type == "string" else "i"
        if value is None:
            return self.length(-1, code, nullable=nullable)
        data = value.encode() if isinstance(value, str) else bytes(value)
        return self.length(len(data), code, nullable=nullable) + data
