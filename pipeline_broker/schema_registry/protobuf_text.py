"""Generation of Protobuf source from a descriptor.

The source compiles to the same descriptor: everything keeps its order, because serializers write the index of a
message, and type names are fully qualified. A descriptor has custom options only as numbers, so a pool provides their
names.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from google.protobuf import message_factory, text_format
from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    EnumDescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
    ServiceDescriptorProto,
)
from google.protobuf.descriptor_pool import DescriptorPool

__all__ = ["json_name", "text_of", "typed_options"]

INDENT = "  "
NUMBER_MAX = 536_870_911
ENUM_NUMBER_MAX = 2**31 - 1
SCALARS = {
    number: name.removeprefix("TYPE_").lower()
    for name, number in FieldDescriptorProto.Type.items()
    if name not in ("TYPE_GROUP", "TYPE_MESSAGE", "TYPE_ENUM")
}
BOTH_QUOTES = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"}


def text_of(file: FileDescriptorProto, pool: DescriptorPool | None = None) -> str:
    """Return the source of a file.

    Args:
        pool: defines the custom options. Without a pool the file must not use any.

    Raises:
        ValueError: no source compiles to this descriptor.
    """
    return _Writer(file.syntax or "proto2", pool).file(file)


def typed_options(options: Any, pool: DescriptorPool | None) -> Any:
    """Return options as a message of the pool; unchanged if `pool` is None.

    Raises:
        ValueError: an option is not defined in the pool.
    """
    if pool is None:
        return options
    try:
        descriptor = pool.FindMessageTypeByName(options.DESCRIPTOR.full_name)
    except KeyError:  # no file imports descriptor.proto, so none defines custom options
        typed = type(options).FromString(options.SerializeToString())
    else:
        typed = message_factory.GetMessageClass(descriptor).FromString(options.SerializeToString())
    known = type(typed).FromString(typed.SerializeToString())
    known.DiscardUnknownFields()
    if known.ByteSize() != typed.ByteSize():
        raise ValueError(f"{options.DESCRIPTOR.name} has options that no imported file defines")
    return typed


def json_name(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(part[:1].upper() + part[1:] for part in others)


class _Writer:
    def __init__(self, syntax: str, pool: DescriptorPool | None) -> None:
        self._pool = pool
        self._syntax = syntax

    def file(self, file: FileDescriptorProto) -> str:
        lines = [f'syntax = "{self._syntax}";']
        if self._syntax == "editions":
            lines = [f'edition = "{_edition(file)}";']
        if file.package:
            lines.append(f"package {file.package};")
        for position, name in enumerate(file.dependency):
            is_public, is_weak = position in file.public_dependency, position in file.weak_dependency
            lines.append(f"import {'public ' if is_public else 'weak ' if is_weak else ''}{_quoted(name)};")
        lines += [f"import option {_quoted(name)};" for name in file.option_dependency]
        lines += [f"option {option};" for option in self._options(file.options)]
        for message in file.message_type:
            lines += self._message(message, "")
        for enumeration in file.enum_type:
            lines += self._enumeration(enumeration, "")
        lines += self._extensions(file.extension, "")
        for service in file.service:
            lines += self._service(service)
        return "\n".join(lines) + "\n"

    def _message(self, message: DescriptorProto, indent: str, *, head: str | None = None) -> list[str]:
        inner = indent + INDENT
        lines = [f"{indent}{head or f'{_visibility(message)}message {message.name}'} {{"]
        lines += [f"{inner}option {option};" for option in self._options(message.options, without=("map_entry",))]
        lines += self._reserved(message, inner, NUMBER_MAX + 1, is_end_included=False)
        lines += [
            f"{inner}extensions {_range(it.start, it.end - 1, NUMBER_MAX)}{_bracketed(self._options(it.options))};"
            for it in message.extension_range
        ]
        lines += [line for enumeration in message.enum_type for line in self._enumeration(enumeration, inner)]
        lines += self._members(message, inner)
        lines += self._extensions(message.extension, inner)
        return [*lines, f"{indent}}}"]

    def _members(self, message: DescriptorProto, indent: str) -> Iterator[str]:
        """Yield fields and nested messages in order. A map or group declares a nested message at its own position."""
        waiting = {nested.name: nested for nested in message.nested_type}
        last_oneof, begun = None, set()
        for field in message.field:
            oneof = field.oneof_index if field.HasField("oneof_index") and not field.proto3_optional else None
            made = _made_by(field, waiting)
            if last_oneof is not None and oneof != last_oneof:
                yield f"{indent}}}"
            if made is not None:
                while (name := next(iter(waiting))) != made.name:
                    yield from self._message(waiting.pop(name), indent)
                del waiting[made.name]
            if oneof is not None and oneof != last_oneof:
                if oneof in begun:
                    raise ValueError(f"the fields of the oneof {message.oneof_decl[oneof].name} are not adjacent")
                begun.add(oneof)
                yield f"{indent}oneof {message.oneof_decl[oneof].name} {{"
                options = self._options(message.oneof_decl[oneof].options)
                yield from (f"{indent}{INDENT}option {option};" for option in options)
            last_oneof = oneof
            yield from self._field(field, made, indent + INDENT if oneof is not None else indent)
        if last_oneof is not None:
            yield f"{indent}}}"
        for nested in waiting.values():
            yield from self._message(nested, indent)

    def _field(self, field: FieldDescriptorProto, made: DescriptorProto | None, indent: str) -> list[str]:
        label = self._label(field)
        if made is not None and field.type == FieldDescriptorProto.TYPE_GROUP:
            brackets = _bracketed(self._options(field.options))
            head = f"{label}group {made.name} = {field.number}{brackets}"
            return self._message(made, indent, head=head)
        kind = _type(field)
        if made is not None:
            kind, label = f"map<{_type(made.field[0])}, {_type(made.field[1])}>", ""
        options = self._options(field.options)
        if field.HasField("default_value"):
            options.insert(0, f"default = {_default(field)}")
        if field.HasField("json_name") and field.json_name != json_name(field.name):
            options.append(f"json_name = {_quoted(field.json_name)}")
        return [f"{indent}{label}{kind} {field.name} = {field.number}{_bracketed(options)};"]

    def _label(self, field: FieldDescriptorProto) -> str:
        if field.label == FieldDescriptorProto.LABEL_REPEATED:
            return "repeated "
        if self._syntax == "editions":
            return ""  # an edition expresses the other labels by features
        if field.label == FieldDescriptorProto.LABEL_REQUIRED:
            return "required "
        if field.proto3_optional:
            return "optional "
        return "" if self._syntax == "proto3" or field.HasField("oneof_index") else "optional "

    def _extensions(self, fields: Sequence[FieldDescriptorProto], indent: str) -> list[str]:
        lines = []
        for field in fields:
            if field.type == FieldDescriptorProto.TYPE_GROUP:
                raise ValueError(f"the extension {field.name} is a group")
            lines += [f"{indent}extend {field.extendee} {{", *self._field(field, None, indent + INDENT), f"{indent}}}"]
        return lines

    def _enumeration(self, enumeration: EnumDescriptorProto, indent: str) -> list[str]:
        inner = indent + INDENT
        lines = [f"{indent}{_visibility(enumeration)}enum {enumeration.name} {{"]
        lines += [f"{inner}option {option};" for option in self._options(enumeration.options)]
        lines += [
            f"{inner}{value.name} = {value.number}{_bracketed(self._options(value.options))};"
            for value in enumeration.value
        ]
        lines += self._reserved(enumeration, inner, ENUM_NUMBER_MAX, is_end_included=True)
        return [*lines, f"{indent}}}"]

    def _reserved(self, owner: Any, indent: str, end_max: int, *, is_end_included: bool) -> list[str]:
        last = NUMBER_MAX if not is_end_included else end_max
        ranges = [_range(it.start, it.end - (not is_end_included), last) for it in owner.reserved_range]
        names = [name if self._syntax == "editions" else _quoted(name) for name in owner.reserved_name]
        return [f"{indent}reserved {', '.join(group)};" for group in (ranges, names) if group]

    def _service(self, service: ServiceDescriptorProto) -> list[str]:
        options = self._options(service.options)
        lines = [f"service {service.name} {{", *(f"{INDENT}option {option};" for option in options)]
        for method in service.method:
            takes = f"{'stream ' if method.client_streaming else ''}{method.input_type}"
            gives = f"{'stream ' if method.server_streaming else ''}{method.output_type}"
            text = "".join(f" option {option};" for option in self._options(method.options))
            lines.append(f"{INDENT}rpc {method.name} ({takes}) returns ({gives}) {{{text} }}")
        return [*lines, "}"]

    def _options(self, options: Any, without: Sequence[str] = ()) -> list[str]:
        found = []
        for field, value in typed_options(options, self._pool).ListFields():
            name = f"({field.full_name})" if field.is_extension else field.name
            if name == "uninterpreted_option":
                raise ValueError("it has uninterpreted options")
            if name == "features":
                found += _features(name, value)
            elif name not in without:
                found += [
                    f"{name} = {_option_value(field, each)}" for each in (value if field.is_repeated else [value])
                ]
        return found


def _edition(file: FileDescriptorProto) -> str:
    field = file.DESCRIPTOR.fields_by_name["edition"]
    return str(field.enum_type.values_by_number[file.edition].name).removeprefix("EDITION_")


def _visibility(owner: Any) -> str:
    name = owner.DESCRIPTOR.fields_by_name["visibility"].enum_type.values_by_number[owner.visibility].name
    return {"VISIBILITY_EXPORT": "export ", "VISIBILITY_LOCAL": "local "}.get(name, "")


def _features(prefix: str, features: Any) -> list[str]:
    """Return features one by one, because the compiler accepts no message of features."""
    found = []
    for field, value in features.ListFields():
        name = f"{prefix}.{f'({field.full_name})' if field.is_extension else field.name}"
        if field.message_type is not None:
            found += _features(name, value)
        else:
            found.append(f"{name} = {_option_value(field, value)}")
    return found


def _made_by(field: FieldDescriptorProto, nested: dict[str, DescriptorProto]) -> DescriptorProto | None:
    found = nested.get(field.type_name.rpartition(".")[2]) if field.type_name else None
    is_map = found is not None and found.options.map_entry
    return found if is_map or (found is not None and field.type == FieldDescriptorProto.TYPE_GROUP) else None


def _type(field: FieldDescriptorProto) -> str:
    return SCALARS.get(field.type) or str(field.type_name)


def _default(field: FieldDescriptorProto) -> str:
    if field.type == FieldDescriptorProto.TYPE_BYTES:
        return f'"{field.default_value}"'  # escaped already
    return _quoted(field.default_value) if field.type == FieldDescriptorProto.TYPE_STRING else str(field.default_value)


def _range(start: int, end: int, largest: int) -> str:
    return str(start) if start == end else f"{start} to {'max' if end >= largest else end}"


def _option_value(field: Any, value: Any) -> str:
    if field.message_type is not None:
        return f"{{ {text_format.MessageToString(value, as_one_line=True)} }}"
    if field.enum_type is not None:
        found = field.enum_type.values_by_number.get(value)
        return str(found.name if found is not None else value)
    if isinstance(value, bytes):
        return '"' + "".join(f"\\{byte:03o}" for byte in value) + '"'
    if isinstance(value, bool):
        return str(value).lower()
    return _quoted(value) if isinstance(value, str) else str(value)


def _bracketed(options: Sequence[str]) -> str:
    return f" [{', '.join(options)}]" if options else ""


def _quoted(text: str) -> str:
    return '"' + "".join(BOTH_QUOTES.get(letter, letter) for letter in text) + '"'
