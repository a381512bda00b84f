"""A unique form of Protobuf descriptors, and a sketch of uncompiled source.

The form ignores everything that `normalize` sorts in Confluent's registry (`ProtobufSchemaUtils`): the order of fields,
constants, options, imports, services and reserved ranges. The order of messages counts, because serializers write the
index of a message.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from google.protobuf.descriptor_pb2 import DescriptorProto, FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool

from pipeline_broker.schema_registry.protobuf_text import json_name, typed_options
from pipeline_broker.schema_registry.source_text import Kind, pieces

__all__ = ["clear_options", "normalized", "sketch_of"]

LEXEME = re.compile(r"[A-Za-z_][\w.]*|[0-9][\w.]*|[-\[\]{}()=;]")
DECLARING = frozenset({"package", "message", "enum", "service", "rpc", "oneof"})
# A statement begins after these lexemes.
BEGINNINGS = frozenset({"", ";", "{", "}"})
NUMBER = re.compile(r"0[xX][0-9a-fA-F]+|[0-9]+")


def normalized(file: FileDescriptorProto, pool: DescriptorPool) -> FileDescriptorProto:
    """Return a copy of a descriptor with everything sorted whose order has no meaning.

    Raises:
        ValueError: an option is not defined in `pool`.
    """
    made = FileDescriptorProto.FromString(file.SerializeToString())
    made.ClearField("name")
    made.ClearField("source_code_info")
    if made.syntax == "proto2":
        made.ClearField("syntax")
    _sort_imports(made)
    made.extension.sort(key=lambda it: (it.extendee, it.number))
    made.service.sort(key=lambda it: it.name)
    for service in made.service:
        service.method.sort(key=lambda it: it.name)
    for message in made.message_type:
        _normalize_message(message)
    for enumeration in made.enum_type:
        _normalize_enumeration(enumeration)
    for owner in _owners(made):
        if owner.DESCRIPTOR.name == "FieldDescriptorProto" and owner.json_name == json_name(owner.name):
            owner.ClearField("json_name")
        if owner.HasField("options"):
            typed = typed_options(owner.options, pool)
            owner.options.ParseFromString(typed.SerializeToString(deterministic=True))
            if not typed.ListFields():
                owner.ClearField("options")
    return made


def clear_options(file: FileDescriptorProto) -> None:
    """Remove all options except `map_entry`, which makes a message the entry of a map."""
    for owner in _owners(file):
        is_entry = owner.DESCRIPTOR.name == "DescriptorProto" and owner.options.map_entry
        owner.ClearField("options")
        if is_entry:
            owner.options.map_entry = True


def _owners(found: Any) -> Iterator[Any]:
    if "options" in found.DESCRIPTOR.fields_by_name:
        yield found
    for field, value in found.ListFields():
        if field.message_type is not None and field.is_repeated:
            for each in value:
                yield from _owners(each)


def _sort_imports(file: FileDescriptorProto) -> None:
    names = list(file.dependency)
    public, weak = ({names[it] for it in positions} for positions in (file.public_dependency, file.weak_dependency))
    for name in ("dependency", "public_dependency", "weak_dependency"):
        file.ClearField(name)
    file.dependency.extend(sorted(names))
    file.public_dependency.extend(it for it, name in enumerate(file.dependency) if name in public)
    file.weak_dependency.extend(it for it, name in enumerate(file.dependency) if name in weak)
    options = sorted(file.option_dependency)
    file.ClearField("option_dependency")
    file.option_dependency.extend(options)


def _normalize_message(message: DescriptorProto) -> None:
    # Source keeps the fields of a oneof together, so they are sorted as a block, by the lowest number in it.
    oneofs: dict[int, int] = {}
    for field in message.field:
        if field.HasField("oneof_index"):
            oneofs[field.oneof_index] = min(field.number, oneofs.get(field.oneof_index, field.number))
    message.field.sort(key=lambda it: (oneofs[it.oneof_index] if it.HasField("oneof_index") else it.number, it.number))
    order = sorted(oneofs, key=lambda it: (_is_synthetic(message, it), oneofs[it]))
    places = {message.oneof_decl[it].name: place for place, it in enumerate(order)}
    message.oneof_decl.sort(key=lambda it: places.get(it.name, len(places)))
    del message.oneof_decl[len(places) :]
    for field in message.field:
        if field.HasField("oneof_index"):
            field.oneof_index = order.index(field.oneof_index)
    numbers = {field.type_name.rpartition(".")[2]: field.number for field in message.field if field.type_name}
    message.nested_type.sort(key=lambda it: (it.options.map_entry, it.options.map_entry * numbers.get(it.name, 0)))
    for it in message.nested_type:
        _normalize_message(it)
    for enumeration in message.enum_type:
        _normalize_enumeration(enumeration)
    message.extension.sort(key=lambda it: (it.extendee, it.number))
    message.extension_range.sort(key=lambda it: it.start)
    _sort_reserved(message)


def _is_synthetic(message: DescriptorProto, index: int) -> bool:
    return any(
        field.proto3_optional for field in message.field if field.HasField("oneof_index") and field.oneof_index == index
    )


def _normalize_enumeration(enumeration: Any) -> None:
    first = enumeration.value[0].number if enumeration.value else 0  # the default value of the enum stays first
    enumeration.value.sort(key=lambda it: (it.number != first, it.number, it.name))
    _sort_reserved(enumeration)


def _sort_reserved(owner: Any) -> None:
    owner.reserved_range.sort(key=lambda it: (it.start, it.end))
    names = sorted(owner.reserved_name)
    owner.ClearField("reserved_name")
    owner.reserved_name.extend(names)


def sketch_of(text: str) -> str:
    """Return the declarations of a source outside of options: names of types and oneofs, and numbered names, sorted."""
    found = []
    brackets = braces = 0
    option_at = -1  # depth of braces at which an option began; -1 outside of options
    last, before, earlier = ";", "", ""  # the three previous lexemes, latest first
    for lexeme in (it for kind, piece in pieces(text) if kind is Kind.CODE for it in LEXEME.findall(piece)):
        brackets += {"[": 1, "]": -1}.get(lexeme, 0)
        braces += {"{": 1, "}": -1}.get(lexeme, 0)
        is_beginning = before in BEGINNINGS
        if option_at >= 0:
            option_at = -1 if option_at == braces and lexeme == ";" else option_at
        elif brackets:
            pass
        elif lexeme == "option" and last in BEGINNINGS:
            option_at = braces
        elif last in DECLARING and is_beginning:
            found.append(f"{last} {lexeme}")
        elif NUMBER.fullmatch(lexeme) and last == "=":
            found.append(f"{before} {_number(lexeme)}")
        elif NUMBER.fullmatch(lexeme) and last == "-" and before == "=":
            found.append(f"{earlier} -{_number(lexeme)}")
        last, before, earlier = lexeme, last, before
    return "\n".join(sorted(found))


def _number(text: str) -> int:
    is_octal = re.fullmatch("0[0-7]+", text)
    return int(text, 8 if is_octal else 16 if text[:2] in ("0x", "0X") else 10)
