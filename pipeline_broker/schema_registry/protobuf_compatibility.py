"""Compatibility of Protobuf schemas: whether a reader with one can read data of another.

No library decides this. The rules are those of Protobuf's guide ("Updating A Message Type") as Confluent's
documentation lists them, with Confluent's names of the differences. Fields match by number, messages by their names
without the package. Scalar types that can be decoded as each other form one kind.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import attrs
from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto, FileDescriptorProto

from pipeline_broker.schema_registry.protobuf_schema import ProtobufFile

__all__ = ["incompatibilities"]

DIFFERENCES_MAX = 100
GENERAL, SIGNED, TEXT, FIXED32, FIXED64 = "general number", "signed number", "string or bytes", "fixed32", "fixed64"
# Types of one kind are compatible on the wire. Messages have no kind.
KINDS = {
    FieldDescriptorProto.TYPE_INT32: GENERAL,
    FieldDescriptorProto.TYPE_INT64: GENERAL,
    FieldDescriptorProto.TYPE_UINT32: GENERAL,
    FieldDescriptorProto.TYPE_UINT64: GENERAL,
    FieldDescriptorProto.TYPE_BOOL: GENERAL,
    FieldDescriptorProto.TYPE_ENUM: GENERAL,
    FieldDescriptorProto.TYPE_SINT32: SIGNED,
    FieldDescriptorProto.TYPE_SINT64: SIGNED,
    FieldDescriptorProto.TYPE_STRING: TEXT,
    FieldDescriptorProto.TYPE_BYTES: TEXT,
    FieldDescriptorProto.TYPE_FIXED32: FIXED32,
    FieldDescriptorProto.TYPE_SFIXED32: FIXED32,
    FieldDescriptorProto.TYPE_FIXED64: FIXED64,
    FieldDescriptorProto.TYPE_SFIXED64: FIXED64,
    FieldDescriptorProto.TYPE_FLOAT: "float",
    FieldDescriptorProto.TYPE_DOUBLE: "double",
}


def incompatibilities(update: ProtobufFile, original: ProtobufFile) -> Sequence[str]:
    """Return how a reader with one schema misreads data of another; empty if it does not.

    Args:
        update: the reader's schema.
        original: the writer's schema.
    """
    comparison = _Comparison(_types_of(original), _types_of(update))
    if original.root.package != update.root.package:
        comparison.found.append("PACKAGE_CHANGED at #/")
    comparison.messages(original.root.message_type, update.root.message_type, "#")
    return comparison.found[:DIFFERENCES_MAX]


@attrs.frozen
class _Type:
    message: DescriptorProto
    local_name: str  # without the package
    is_imported: bool


def _types_of(file: ProtobufFile) -> Mapping[str, _Type]:
    types: dict[str, _Type] = {}

    def add(messages: Sequence[DescriptorProto], package: str, outer: str, *, is_imported: bool) -> None:
        for message in messages:
            local = f"{outer}{message.name}"
            types[f"{package}.{local}"] = _Type(message, local, is_imported)
            add(message.nested_type, package, f"{local}.", is_imported=is_imported)

    def add_file(each: FileDescriptorProto, *, is_imported: bool) -> None:
        add(each.message_type, f".{each.package}" if each.package else "", "", is_imported=is_imported)

    for each in file.imported.values():
        add_file(each, is_imported=True)
    add_file(file.root, is_imported=False)
    return types


class _Comparison:
    def __init__(self, original: Mapping[str, _Type], update: Mapping[str, _Type]) -> None:
        self._original, self._update = original, update
        self._compared: set[tuple[int, int]] = set()
        self.found: list[str] = []

    def messages(self, original: Sequence[DescriptorProto], update: Sequence[DescriptorProto], path: str) -> None:
        after = {message.name: message for message in update}
        for message in original:
            if message.options.map_entry:
                continue
            place = f"{path}/{message.name}"
            if message.name not in after:
                self.found.append(f"MESSAGE_REMOVED at {place}")
            else:
                self._message(message, after[message.name], place)

    def _message(self, original: DescriptorProto, update: DescriptorProto, path: str) -> None:
        pair = id(original), id(update)
        if pair in self._compared:
            return
        self._compared.add(pair)
        before = {field.number: field for field in original.field}
        after = {field.number: field for field in update.field}
        self._oneofs(original, update, path)
        for number in sorted(before.keys() | after.keys()):
            place = f"{path}/{number}"
            if number not in after:
                if _is_required(before[number]):
                    self.found.append(f"REQUIRED_FIELD_REMOVED at {place}")
            elif number not in before:
                if _is_required(after[number]):
                    self.found.append(f"REQUIRED_FIELD_ADDED at {place}")
            else:
                self._field(before[number], after[number], place)
        self.messages(original.nested_type, update.nested_type, path)

    def _oneofs(self, original: DescriptorProto, update: DescriptorProto, path: str) -> None:
        before, after = _oneof_of(original), _oneof_of(update)
        numbers = {field.number for field in original.field}
        kept = set(after.values())
        for number, name in before.items():
            if name in kept and after.get(number) != name:  # removed, or moved out of the oneof
                self.found.append(f"ONEOF_FIELD_REMOVED at {path}/{name}/{number}")
        for name in dict.fromkeys(after.values()):
            members = [number for number, oneof in after.items() if oneof == name and number in numbers]
            moved = [number for number in members if number not in before]
            if len(moved) > 1:
                self.found.append(f"MULTIPLE_FIELDS_MOVED_TO_ONEOF at {path}/{name}")
            elif len({before.get(number, number) for number in members}) > 1:  # moved from outside or another oneof
                self.found.append(f"FIELD_MOVED_TO_EXISTING_ONEOF at {path}/{name}")

    def _field(self, original: FieldDescriptorProto, update: FieldDescriptorProto, path: str) -> None:
        if _is_required(update) and not _is_required(original):
            self.found.append(f"REQUIRED_FIELD_ADDED at {path}")
        before, after = self._entry(original, self._original), self._entry(update, self._update)
        if (before is None) != (after is None):
            self.found.append(f"FIELD_KIND_CHANGED at {path}")
        elif before is not None and after is not None:
            for had, has in zip(before.field, after.field, strict=True):
                self._type(had, has, path)
        else:
            self._type(original, update, path)
            is_number = KINDS.get(original.type, TEXT) is not TEXT
            if is_number and _is_repeated(original) != _is_repeated(update):
                self.found.append(f"FIELD_NUMERIC_LABEL_CHANGED at {path}")

    @staticmethod
    def _entry(field: FieldDescriptorProto, types: Mapping[str, _Type]) -> DescriptorProto | None:
        found = types.get(field.type_name)
        return found.message if found is not None and found.message.options.map_entry else None

    def _type(self, original: FieldDescriptorProto, update: FieldDescriptorProto, path: str) -> None:
        before, after = KINDS.get(original.type), KINDS.get(update.type)
        if (before is None) != (after is None):
            self.found.append(f"FIELD_KIND_CHANGED at {path}")
        elif before != after:
            self.found.append(f"FIELD_SCALAR_KIND_CHANGED at {path}")
        elif before is None:
            self._named(original, update, path)

    def _named(self, original: FieldDescriptorProto, update: FieldDescriptorProto, path: str) -> None:
        had, has = self._original.get(original.type_name), self._update.get(update.type_name)
        is_group = original.type == FieldDescriptorProto.TYPE_GROUP
        if is_group != (update.type == FieldDescriptorProto.TYPE_GROUP):
            self.found.append(f"FIELD_KIND_CHANGED at {path}")
        elif had is None or has is None:  # a type that comes with Protobuf
            if original.type_name != update.type_name:
                self.found.append(f"FIELD_NAMED_TYPE_CHANGED at {path}")
        elif had.local_name != has.local_name:
            self.found.append(f"FIELD_NAMED_TYPE_CHANGED at {path}")
        # Messages of the file itself are compared by `messages`.
        elif had.is_imported or has.is_imported:
            found_before = len(self.found)
            self._message(had.message, has.message, f"#/{had.local_name.replace('.', '/')}")
            if len(self.found) > found_before:
                self.found.append(f"FIELD_NAMED_TYPE_CHANGED at {path}")


def _oneof_of(message: DescriptorProto) -> dict[int, str]:
    """Return the name of the oneof of each field in one, by number. A proto3 `optional` makes no oneof."""
    return {
        field.number: message.oneof_decl[field.oneof_index].name
        for field in message.field
        if field.HasField("oneof_index") and not field.proto3_optional
    }


def _is_required(field: FieldDescriptorProto) -> bool:
    return bool(field.label == FieldDescriptorProto.LABEL_REQUIRED)


def _is_repeated(field: FieldDescriptorProto) -> bool:
    return bool(field.label == FieldDescriptorProto.LABEL_REPEATED)
