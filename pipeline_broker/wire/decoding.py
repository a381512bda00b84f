"""A code generator for decode functions, one per message class and version.

In the generated code, `b` is the buffer, `p` the position and `end` the length of the buffer. For speed, nested structs
are inlined, and adjacent fixed-width fields are one `struct` call, with the first byte of a varint that follows them.
"""

from __future__ import annotations

import struct
from typing import Any, NamedTuple

from pipeline_broker.wire import primitives, text
from pipeline_broker.wire.schema import Field, Schema, fields_of, parse_versions, resolve
from pipeline_broker.wire.source import FORMATS, Source, width

NAMES = {
    "DecodeError": primitives.DecodeError,
    "ELEMENTS_A_TURN": primitives.ELEMENTS_A_TURN,
    "ELEMENTS_MAX": primitives.ELEMENTS_MAX,
    "NotUtf8Error": primitives.NotUtf8Error,
    "bad_length": primitives.bad_length,
    "bad_tag_size": primitives.bad_tag_size,
    "read_tag_count": primitives.read_tag_count,
    "read_uvarint_rest": primitives.read_uvarint_rest,
    "skip_tags": primitives.skip_tags,
    "skip_tags_within": primitives.skip_tags_within,
    "string_too_long": primitives.string_too_long,
    "struct_error": struct.error,
    "text_of": text.text_of,
    "too_many_elements": primitives.too_many_elements,
    "unpack_from": struct.unpack_from,
}


def has_records(message: type, structure: type, version: int) -> bool:
    """Return whether a struct of a message, or a struct nested in it, has records in this version.

    Decoded records are views of the buffer, which outlive the call.
    """
    for field in fields_of(structure):
        if version not in field.versions:
            continue
        nested = resolve(message, field.type)
        if field.type == "records" or (nested and has_records(message, nested, version)):
            return True
    return False


def size_min(message: type, field: Field, version: int, *, flexible: bool) -> int:
    """Return the smallest encoded size of an element of an array field, in bytes."""
    structure = resolve(message, field.type)
    if structure is None:
        assert isinstance(field.type, str)
        return width(FORMATS[field.type]) if field.type in FORMATS else length_size(field.type, flexible=flexible)
    total = 1 if flexible else 0
    for inner in fields_of(structure):
        if version not in inner.versions or inner.tag is not None:
            continue
        if inner.is_array:
            total += 1 if flexible else 4
        elif version in inner.nullable and resolve(message, inner.type):
            total += 1
        else:
            total += size_min(message, inner, version, flexible=flexible)
    return max(total, 1)


def length_size(kind: str, *, flexible: bool) -> int:
    """Return the smallest encoded size of the length of a string, bytes or records, in bytes."""
    if flexible:
        return 1
    return 2 if kind == "string" else 4


class Length(NamedTuple):
    """Expressions of the generated code for a length or count.

    The variable holds the encoded value. A compact length is encoded as the length plus one, or zero for null.
    """

    variable: str
    value: str
    is_null: str
    base: str  # the value of the variable if the length is zero


class DecoderWriter:
    """A generator of the source of one decode function. Its methods write the code that reads a part of a message.

    Args:
        in_steps: write a generator function for large messages. It counts elements and yields between them.
        utf8_only: let malformed text fail instead of replacing it. Valid text costs nothing more.
    """

    def __init__(self, message: Any, version: int, *, in_steps: bool = False, utf8_only: bool = False) -> None:
        self.message = message
        self.version = version
        self.in_steps = in_steps
        self.utf8_only = utf8_only
        schema: Schema = message.SCHEMA
        self.flexible = version in parse_versions(schema.flexible)
        self.has_views = has_records(message, message, version)
        variant = "_in_steps" * in_steps + "_utf8" * utf8_only
        self.source = Source(f"decode_{message.__name__}_v{version}{variant}", "b, p", NAMES)
        # Fixed-width reads that are not written yet: struct code and variable.
        self.run: list[tuple[str, str]] = []

    def write(self) -> Any:
        source = self.source
        with source.block("try:"):
            # Slices of a memoryview do not copy records. Slices of bytes are copies, which may outlive the frame.
            if self.has_views:
                source.line("if type(b) is not memoryview: b = memoryview(b)")
            else:
                source.line("if type(b) is not bytes: b = bytes(b)")
            source.line("end = len(b)")
            if self.in_steps:
                source.line("left, turn = ELEMENTS_MAX, ELEMENTS_A_TURN")
                source.line("if not turn: yield  # makes this a generator even without arrays")
            result = self.structure(self.message, self.message.__name__)
            source.line(f"return {result}, p{', left' * self.in_steps}")
        with source.block("except (struct_error, IndexError) as error:"):
            source.line(f'raise DecodeError(f"{self.message.__name__} v{self.version}: {{error}}") from error')
        if self.utf8_only:
            with source.block("except UnicodeDecodeError as error:"):
                source.line(f'raise NotUtf8Error(f"{self.message.__name__} v{self.version}: {{error}}") from None')
        return source.compile()

    def fixed(self, code: str, stem: str) -> str:
        """Add a fixed-width read to the pending run; return its variable, which is set after the next `flush`."""
        variable = self.source.variable(stem)
        self.run.append((code, variable))
        return variable

    def flush(self) -> None:
        if not self.run:
            return
        codes = "".join(code for code, _ in self.run)
        targets = ", ".join(variable for _, variable in self.run)
        self.run.clear()
        if codes == "B":
            self.source.line(f"{targets} = b[p]")
        else:
            comma = "" if "," in targets else ","
            self.source.line(f"{targets}{comma} = {self.source.struct_method('unpack_from', codes)}(b, p)")
        self.source.line(f"p += {width(codes)}")

    def uvarint(self, stem: str, *, path_if_string: str = "") -> str:
        """Write the code that reads an unsigned varint; return its variable.

        The first byte is read with the pending run, the second one inline, and further ones by a call.

        Args:
            path_if_string: path of the string whose compact length is read, for the error if it exceeds
                STRING_SIZE_MAX. Empty for other varints.
        """
        source = self.source
        variable = self.fixed("B", stem)
        self.flush()
        with source.block(f"if {variable} > 127:"):
            with source.block("if b[p] < 128:"):
                # The first byte has its continuation bit set, which adds 128 too much.
                source.line(f"{variable} += (b[p] - 1) * 128")
                source.line("p += 1")
            with source.block("else:"):
                source.line(f"{variable}, p = read_uvarint_rest(b, p, {variable})")
                if path_if_string:
                    limit = primitives.STRING_SIZE_MAX + 1
                    source.line(f"if {variable} > {limit}: raise string_too_long({path_if_string!r}, {variable} - 1)")
        return variable

    def length(self, kind: str, stem: str, path: str) -> Length:
        if self.flexible:
            variable = self.uvarint(stem, path_if_string=path if kind == "string" else "")
            return Length(variable, f"{variable} - 1", f"not {variable}", "1")
        variable = self.fixed("h" if kind == "string" else "i", stem)
        self.flush()
        return Length(variable, variable, f"{variable} == -1", "0")

    def value(self, field: Field, path: str, *, in_tag: bool = False) -> str:
        """Read a field; return the variable or expression that holds its value after the next `flush`."""
        nullable = self.version in field.nullable
        if field.is_array:
            return self.array(field, path, nullable=nullable)
        if structure := resolve(self.message, field.type):
            if nullable:
                return self.optional_structure(structure, field.name, path, in_tag=in_tag)
            return self.structure(structure, path)
        return self.primitive(str(field.type), field.name, path, nullable=nullable)

    def primitive(self, kind: str, stem: str, path: str, *, nullable: bool) -> str:
        if kind in FORMATS:
            return self.fixed(FORMATS[kind], stem)
        source = self.source
        length = self.length(kind, f"{stem}_length", path)
        variable = source.variable(stem)
        if not nullable:
            self.sized(kind, length, variable, path)
            return variable
        with source.block(f"if {length.is_null}:"):
            source.line(f"{variable} = None")
        with source.block("else:"):
            self.sized(kind, length, variable, path)
        return variable

    def sized(self, kind: str, length: Length, variable: str, path: str) -> None:
        """Read the content of a string, bytes or records after its length."""
        source = self.source
        source.line(f"stop = p + {length.value}")
        # `p <= stop` refuses negative lengths.
        source.line(f"if not p <= stop <= end: raise bad_length({path!r}, {length.value}, end - p)")
        if kind == "string":
            data = f"b[p:stop]{'.tobytes()' * self.has_views}"
            source.line(f"{variable} = {data}.decode()" if self.utf8_only else f"{variable} = text_of({data})")
            # Replacing malformed text is slow, so long text counts as several elements of a turn.
            if self.in_steps and not self.utf8_only:
                source.line(f"turn -= (stop - p) // {primitives.MALFORMED_UNIT_BYTES}")
        elif kind == "bytes" and self.has_views:
            source.line(f"{variable} = b[p:stop].tobytes()")
        else:
            source.line(f"{variable} = b[p:stop]")
        source.line("p = stop")

    def array(self, field: Field, path: str, *, nullable: bool) -> str:
        source = self.source
        count = self.length("array", f"{field.name}_count", path)
        variable = source.variable(field.name)
        if not nullable:
            self.elements(field, count, variable, path)
            return variable
        with source.block(f"if {count.is_null}:"):
            source.line(f"{variable} = None")
        with source.block("else:"):
            self.elements(field, count, variable, path)
        return variable

    def elements(self, field: Field, count: Length, variable: str, path: str) -> None:
        source = self.source
        size = size_min(self.message, field, self.version, flexible=self.flexible)
        total = f"({count.value}) * {size}"
        # Check before any allocation: a count may claim two billion elements.
        source.line(f"if not 0 <= {total} <= end - p: raise bad_length({path!r}, {count.value}, end - p)")
        if self.in_steps:
            source.line(f"left -= {count.value}")
            source.line(f"if left < 0: raise too_many_elements({path!r})")
        structure = resolve(self.message, field.type)
        if structure is None and field.type in FORMATS:
            code = FORMATS[str(field.type)]
            if field.type == "uuid":
                source.line(f"{variable} = [b[at : at + {size}] for at in range(p, p + {total}, {size})]")
            else:
                source.line(f'{variable} = list(unpack_from(f">{{{count.value}}}{code}", b, p))')
            source.line(f"p += {total}")
            return
        source.line(f"{variable} = []")
        with source.block(f"while {count.variable} > {count.base}:"):
            source.line(f"{count.variable} -= 1")
            if structure is None:
                element = self.primitive(str(field.type), "element", path, nullable=False)
            else:
                element = self.structure(structure, path)
            source.line(f"{variable}.append({element})")
            if self.in_steps:
                source.line("turn -= 1")
                with source.block("if turn < 0:"):
                    source.line("yield")
                    source.line("turn = ELEMENTS_A_TURN")

    def optional_structure(self, structure: type, stem: str, path: str, *, in_tag: bool) -> str:
        """Read a nullable struct. A byte before it, or a varint in a tag section, says whether it is present."""
        source = self.source
        if in_tag:
            marker = self.uvarint(f"{stem}_present")
            absent = f"{marker} == 0"
        else:
            marker = self.fixed("b", f"{stem}_present")
            self.flush()
            absent = f"{marker} < 0"
        variable = source.variable(stem)
        with source.block(f"if {absent}:"):
            source.line(f"{variable} = None")
        with source.block("else:"):
            result = self.structure(structure, path)
            source.line(f"{variable} = {result}")
        return variable

    def structure(self, structure: type, path: str) -> str:
        """Read a struct with its tag section; return the expression that builds it."""
        values: dict[str, str] = {}
        tagged: list[Field] = []
        for field in fields_of(structure):
            if self.version not in field.versions:
                values[field.name] = self.default(field)
            elif field.tag is not None:
                tagged.append(field)
                values[field.name] = ""
            else:
                values[field.name] = self.value(field, f"{path}.{field.name}")
        if self.flexible:
            self.flush()
            self.tags(tagged, values, path)
        self.flush()
        name = self.source.bind(structure.__qualname__.replace(".", "_"), structure)
        return f"{name}({', '.join(values.values())})"

    def default(self, field: Field) -> str:
        """Return the expression of a field's default; each message gets its own lists."""
        if field.is_array:
            return "None" if field.default is None else "[]"
        if isinstance(field.type, type) and field.default is not None:
            return self.source.bind(f"default_{field.type.__name__}", field.default)
        return repr(field.default)

    def tags(self, tagged: list[Field], values: dict[str, str], path: str) -> None:
        """Read a tag section; skip fields that this version does not declare."""
        source = self.source
        for field in tagged:
            values[field.name] = source.variable(field.name)
            source.line(f"{values[field.name]} = {self.default(field)}")
        with source.block("if b[p]:"):
            if tagged:
                count = source.variable("tags")
                source.line(f"{count}, p = read_tag_count(b, p, end)")
                if self.in_steps:
                    source.line(f"left -= {count}")
                    source.line(f"if left < 0: raise too_many_elements({path + ' tags'!r})")
                with source.block(f"for _ in range({count}):"):
                    self.tag(tagged, values, path)
            elif self.in_steps:
                source.line("p, left = skip_tags_within(b, p, end, left)")
            else:
                source.line("p = skip_tags(b, p, end)")
        with source.block("else:"):
            source.line("p += 1")

    def tag(self, tagged: list[Field], values: dict[str, str], path: str) -> None:
        source = self.source
        tag = self.uvarint("tag")
        size = self.uvarint("size")
        stop = source.variable("stop")
        source.line(f"{stop} = p + {size}")
        source.line(f"if {stop} > end: raise bad_length({path + ' tag'!r}, {size}, end - p)")
        for index, field in enumerate(tagged):
            with source.block(f"{'el' if index else ''}if {tag} == {field.tag}:"):
                result = self.value(field, f"{path}.{field.name}", in_tag=True)
                self.flush()
                source.line(f"{values[field.name]} = {result}")
                source.line(f"if p != {stop}: raise bad_tag_size({f'{path}.{field.name}'!r}, p - {stop})")
        with source.block("else:"):
            source.line(f"p = {stop}")
