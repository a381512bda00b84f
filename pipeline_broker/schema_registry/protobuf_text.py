"""The source of a Protobuf file, made of its descriptor.

Rules of this file: no I/O. Compiled, the source is the same descriptor: the same order of everything, because clients
count messages, and all names of types in full. Options that Protobuf itself does not know are left out: a descriptor
has only their numbers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    EnumDescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
    ServiceDescriptorProto,
)

__all__ = ["text_of"]

INDENT = "  "
NUMBER_MAX = 536_870_911
ENUM_NUMBER_MAX = 2**31 - 1
SCALARS = {
    number: name.removeprefix("TYPE_").lower()
    for name, number in FieldDescriptorProto.Type.items()
    if name not in ("TYPE_GROUP", "TYPE_MESSAGE", "TYPE_ENUM")
}
BOTH_QUOTES = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"}


def text_of(file: FileDescriptorProto) -> str:
    """The source of a file; raises ValueError for a descriptor that no source has."""
    syntax = file.syntax or "proto2"
    lines = [f'syntax = "{syntax}";']
    if syntax == "editions":
        lines = [f'edition = "{_edition(file)}";']
    if file.package:
        lines.append(f"package {file.package};")
    for position, name in enumerate(file.dependency):
        kind = "public " if position in file.public_dependency else "weak " if position in file.weak_dependency else ""
        lines.append(f"import {kind}{_quoted(name)};")
    lines += [f"option {option};" for option in _options(file.options)]
    is_proto3 = syntax == "proto3"
    for message in file.message_type:
        lines += _message(message, "", is_proto3=is_proto3)
    for enumeration in file.enum_type:
        lines += _enumeration(enumeration, "")
    lines += _extensions(file.extension, "", is_proto3=is_proto3)
    for service in file.service:
        lines += _service(service)
    return "\n".join(lines) + "\n"


def _edition(file: FileDescriptorProto) -> str:
    field = file.DESCRIPTOR.fields_by_name["edition"]
    return str(field.enum_type.values_by_number[file.edition].name).removeprefix("EDITION_")


def _message(message: DescriptorProto, indent: str, *, is_proto3: bool, head: str | None = None) -> list[str]:
    inner = indent + INDENT
    lines = [f"{indent}{head or f'message {message.name}'} {{"]
    lines += [f"{inner}option {option};" for option in _options(message.options, without=("map_entry",))]
    lines += _reserved(message, inner, NUMBER_MAX + 1, is_end_included=False)
    lines += [
        f"{inner}extensions {_range(it.start, it.end - 1, NUMBER_MAX)}{_bracketed(_options(it.options))};"
        for it in message.extension_range
    ]
    lines += [line for enumeration in message.enum_type for line in _enumeration(enumeration, inner)]
    lines += _members(message, inner, is_proto3=is_proto3)
    lines += _extensions(message.extension, inner, is_proto3=is_proto3)
    return [*lines, f"{indent}}}"]


def _members(message: DescriptorProto, indent: str, *, is_proto3: bool) -> Iterator[str]:
    """Fields and nested messages, such that the compiler finds both in their order: a map or a group makes one, too."""
    waiting = {nested.name: nested for nested in message.nested_type}
    last_oneof, begun = None, set()
    for field in message.field:
        oneof = field.oneof_index if field.HasField("oneof_index") and not field.proto3_optional else None
        made = _made_by(field, waiting)
        if last_oneof is not None and oneof != last_oneof:
            yield f"{indent}}}"
        if made is not None:
            while (name := next(iter(waiting))) != made.name:
                yield from _message(waiting.pop(name), indent, is_proto3=is_proto3)
            del waiting[made.name]
        if oneof is not None and oneof != last_oneof:
            if oneof in begun:
                raise ValueError(f"the fields of the oneof {message.oneof_decl[oneof].name} lie apart")
            begun.add(oneof)
            yield f"{indent}oneof {message.oneof_decl[oneof].name} {{"
            options = _options(message.oneof_decl[oneof].options)
            yield from (f"{indent}{INDENT}option {option};" for option in options)
        last_oneof = oneof
        yield from _field(field, made, indent + INDENT if oneof is not None else indent, is_proto3=is_proto3)
    if last_oneof is not None:
        yield f"{indent}}}"
    for nested in waiting.values():
        yield from _message(nested, indent, is_proto3=is_proto3)


def _made_by(field: FieldDescriptorProto, nested: dict[str, DescriptorProto]) -> DescriptorProto | None:
    """The nested message that the source of a field makes by itself."""
    found = nested.get(field.type_name.rpartition(".")[2]) if field.type_name else None
    is_map = found is not None and found.options.map_entry
    return found if is_map or (found is not None and field.type == FieldDescriptorProto.TYPE_GROUP) else None


def _field(field: FieldDescriptorProto, made: DescriptorProto | None, indent: str, *, is_proto3: bool) -> list[str]:
    label = _label(field, is_proto3=is_proto3)
    if made is not None and field.type == FieldDescriptorProto.TYPE_GROUP:
        head = f"{label}group {made.name} = {field.number}"
        return _message(made, indent, is_proto3=is_proto3, head=head)
    kind = _type(field)
    if made is not None:
        kind, label = f"map<{_type(made.field[0])}, {_type(made.field[1])}>", ""
    options = _options(field.options)
    if field.HasField("default_value"):
        is_text = field.type in (FieldDescriptorProto.TYPE_STRING, FieldDescriptorProto.TYPE_BYTES)
        is_escaped = field.type == FieldDescriptorProto.TYPE_BYTES
        value = (
            field.default_value
            if not is_text
            else f'"{field.default_value}"'
            if is_escaped
            else _quoted(field.default_value)
        )
        options.insert(0, f"default = {value}")
    if field.HasField("json_name") and field.json_name != _json_name(field.name):
        options.append(f"json_name = {_quoted(field.json_name)}")
    return [f"{indent}{label}{kind} {field.name} = {field.number}{_bracketed(options)};"]


def _label(field: FieldDescriptorProto, *, is_proto3: bool) -> str:
    if field.label == FieldDescriptorProto.LABEL_REPEATED:
        return "repeated "
    if field.label == FieldDescriptorProto.LABEL_REQUIRED:
        return "required "
    if field.proto3_optional:
        return "optional "
    return "" if is_proto3 or field.HasField("oneof_index") else "optional "


def _type(field: FieldDescriptorProto) -> str:
    return SCALARS.get(field.type) or str(field.type_name)


def _json_name(name: str) -> str:
    """That the compiler gives a field."""
    first, *others = name.split("_")
    return first + "".join(part[:1].upper() + part[1:] for part in others)


def _extensions(fields: Sequence[FieldDescriptorProto], indent: str, *, is_proto3: bool) -> list[str]:
    lines = []
    for field in fields:
        lines += [
            f"{indent}extend {field.extendee} {{",
            *_field(field, None, indent + INDENT, is_proto3=is_proto3),
            f"{indent}}}",
        ]
    return lines


def _enumeration(enumeration: EnumDescriptorProto, indent: str) -> list[str]:
    inner = indent + INDENT
    lines = [f"{indent}enum {enumeration.name} {{"]
    lines += [f"{inner}option {option};" for option in _options(enumeration.options)]
    lines += [
        f"{inner}{value.name} = {value.number}{_bracketed(_options(value.options))};" for value in enumeration.value
    ]
    lines += _reserved(enumeration, inner, ENUM_NUMBER_MAX, is_end_included=True)
    return [*lines, f"{indent}}}"]


def _reserved(owner: Any, indent: str, end_max: int, *, is_end_included: bool) -> list[str]:
    last = NUMBER_MAX if not is_end_included else end_max
    ranges = [_range(it.start, it.end - (not is_end_included), last) for it in owner.reserved_range]
    names = [_quoted(name) for name in owner.reserved_name]
    return [f"{indent}reserved {', '.join(group)};" for group in (ranges, names) if group]


def _range(start: int, end: int, largest: int) -> str:
    return str(start) if start == end else f"{start} to {'max' if end >= largest else end}"


def _service(service: ServiceDescriptorProto) -> list[str]:
    lines = [f"service {service.name} {{", *(f"{INDENT}option {option};" for option in _options(service.options))]
    for method in service.method:
        takes = f"{'stream ' if method.client_streaming else ''}{method.input_type}"
        gives = f"{'stream ' if method.server_streaming else ''}{method.output_type}"
        options = "".join(f" option {option};" for option in _options(method.options))
        lines.append(f"{INDENT}rpc {method.name} ({takes}) returns ({gives}) {{{options} }}")
    return [*lines, "}"]


def _options(options: Any, without: Sequence[str] = ()) -> list[str]:
    """The options that Protobuf knows, each as `name = value`."""
    found = []
    for field, value in options.ListFields():
        if field.is_extension or field.name in without:
            continue
        values = value if field.is_repeated else [value]
        found += [f"{field.name} = {_option_value(field, each)}" for each in values]
    return found


def _option_value(field: Any, value: Any) -> str:
    if field.message_type is not None:
        inner = " ".join(f"{name.partition(' = ')[0]}: {name.partition(' = ')[2]}" for name in _options(value))
        return f"{{ {inner} }}"
    if field.enum_type is not None:
        return str(field.enum_type.values_by_number[value].name)
    if isinstance(value, bool):
        return str(value).lower()
    return _quoted(value) if isinstance(value, str) else str(value)


def _bracketed(options: Sequence[str]) -> str:
    return f" [{', '.join(options)}]" if options else ""


def _quoted(text: str) -> str:
    return '"' + "".join(BOTH_QUOTES.get(letter, letter) for letter in text) + '"'
