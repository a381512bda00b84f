"""A code generator for encode functions, one per message class and version.

In the generated code, `w` collects the bytes of the current part. Adjacent fixed-width fields are one `struct` call,
with the varint that follows them. Records are separate parts, which are never copied. Large bytes are separate parts
too, if the function works in steps.

A tagged field with its default value is left out. A value that the version cannot carry is an error, unless the schema
declares the field ignorable.
"""

from __future__ import annotations

import struct
from typing import Any

from pipeline_broker.wire import primitives
from pipeline_broker.wire.decoding import has_records
from pipeline_broker.wire.schema import Field, Schema, fields_of, parse_versions, resolve
from pipeline_broker.wire.source import FORMATS, Source

NAMES = {
    "BUFFERS": (bytes, bytearray, memoryview),
    "CHUNK_UNIT_BYTES": primitives.CHUNK_UNIT_BYTES,
    "ELEMENTS_A_TURN": primitives.ELEMENTS_A_TURN,
    "EncodeError": primitives.EncodeError,
    "OWN_PART_BYTES_MIN": primitives.OWN_PART_BYTES_MIN,
    "RESPONSE_BYTES_MAX": primitives.RESPONSE_BYTES_MAX,
    "SINGLE_BYTES": primitives.SINGLE_BYTES,
    "cut_text": primitives.cut_text,
    "join": b"".join,
    "pack": struct.pack,
    "response_too_large": primitives.response_too_large,
    "struct_error": struct.error,
    "tag_section": primitives.tag_section,
    "tagged_field": primitives.tagged_field,
    "write_string_length": primitives.write_string_length,
    "write_uvarint": primitives.write_uvarint,
}

NULL_LENGTHS = {"string": ("h", "-1"), "bytes": ("i", "-1"), "records": ("i", "-1"), "array": ("i", "-1")}


class EncoderWriter:
    """A generator of the source of one encode function. Its methods write the code that encodes a part of a message.

    Args:
        in_steps: write a generator function for large messages. The function yields between elements, and raises
            ResponseTooLargeError above RESPONSE_BYTES_MAX.
    """

    def __init__(self, message: Any, version: int, *, in_steps: bool = False) -> None:
        self.message = message
        self.version = version
        self.in_steps = in_steps
        schema: Schema = message.SCHEMA
        self.flexible = version in parse_versions(schema.flexible)
        self.has_views = has_records(message, message, version)
        self.source = Source(f"encode_{message.__name__}_v{version}{'_in_steps' * in_steps}", "m", NAMES)
        self.sink = "w.append"
        # Fixed-width writes that are not written yet: struct code and expression. A zero byte has the code "x".
        self.run: list[tuple[str, str]] = []

    def write(self) -> Any:
        source = self.source
        with source.block("try:"):
            if self.has_views or self.in_steps:
                source.line("parts = []")
            if self.in_steps:
                source.line("size, turn = 0, ELEMENTS_A_TURN")
                source.line("if not turn: yield  # makes this a generator even without arrays")
            source.line("w = []")
            self.structure(self.message, "m", self.message.__name__)
            self.flush()
            if self.has_views or self.in_steps:
                source.line("if w: parts.append(join(w))")
                source.line("return parts")
            else:
                source.line("return [join(w)]")
        with source.block("except (struct_error, AttributeError, TypeError, UnicodeEncodeError) as error:"):
            source.line(f'raise EncodeError(f"{self.message.__name__} v{self.version}: {{error}}") from error')
        return source.compile()

    def fixed(self, code: str, expression: str) -> None:
        self.run.append((code, expression))

    def packed(self, *more: tuple[str, str]) -> str:
        run = [*self.run, *more]
        codes = "".join(code for code, _ in run)
        if set(codes) == {"x"}:
            return repr(bytes(len(codes)))
        return f"{self.source.struct_method('pack', codes)}({', '.join(text for code, text in run if code != 'x')})"

    def flush(self) -> None:
        if self.run:
            self.source.line(f"{self.sink}({self.packed()})")
            self.run.clear()

    def length_of(self, data: str) -> str:
        return f"len({data}) + 1" if self.flexible else f"len({data})"

    def length(self, kind: str, variable: str) -> None:
        """Write the pending run, followed by an encoded length or count (see `length_of`)."""
        if not self.flexible:
            self.fixed(NULL_LENGTHS[kind][0], variable)
            self.flush()
            return
        long = f"{'write_string_length' if kind == 'string' else 'write_uvarint'}({variable})"
        if self.run:
            short, long = self.packed(("B", variable)), f"{self.packed()} + {long}"
        else:
            short = f"SINGLE_BYTES[{variable}]"
        self.source.line(f"{self.sink}({short} if {variable} < 128 else {long})")
        self.run.clear()

    def null(self, kind: str) -> None:
        if self.flexible:
            self.fixed("x", "")
        else:
            self.fixed(*NULL_LENGTHS[kind])
        self.flush()

    def value(self, field: Field, expression: str, path: str, *, in_tag: bool = False) -> None:
        structure = resolve(self.message, field.type)
        kind = "array" if field.is_array else str(field.type)
        if kind in FORMATS:
            self.fixed_value(kind, expression)
            return
        if structure is None or field.is_array or self.version in field.nullable:
            variable = self.source.variable(field.name)
            self.source.line(f"{variable} = {expression}")
            expression = variable
        if self.version not in field.nullable:
            self.content(field, expression, path)
        elif structure and not field.is_array:
            self.optional_structure(structure, expression, path, in_tag=in_tag)
        else:
            # Both branches of the generated condition begin with the pending run.
            run = list(self.run)
            with self.source.block(f"if {expression} is None:"):
                self.null(kind)
            self.run = run
            with self.source.block("else:"):
                self.content(field, expression, path)
                self.flush()

    def fixed_value(self, kind: str, expression: str) -> None:
        if kind == "uuid":
            variable = self.source.variable("uuid")
            self.source.line(f"{variable} = {expression}")
            self.source.line(
                f'if len({variable}) != 16: raise EncodeError(f"a uuid has {{len({variable})}} bytes, not 16")'
            )
            expression = variable
        self.fixed(FORMATS[kind], expression)

    def content(self, field: Field, variable: str, path: str) -> None:
        structure = resolve(self.message, field.type)
        if field.is_array:
            self.array(field, structure, variable, path)
        elif structure:
            self.structure(structure, variable, path)
        elif field.type == "records":
            self.records(variable)
        else:
            self.sized(str(field.type), variable, is_text=field.name.endswith("error_message"))

    def sized(self, kind: str, variable: str, *, is_text: bool = False) -> None:
        """Write a string or bytes with its length.

        Args:
            is_text: whether the string is an error message, which is truncated if it is too long.
        """
        source = self.source
        length = source.variable("length")
        data = source.variable("data") if kind == "string" else variable
        if kind == "string":
            source.line(f"{data} = {f'cut_text({variable}.encode())' if is_text else f'{variable}.encode()'}")
        source.line(f"{length} = {self.length_of(data)}")
        self.length(kind, length)
        if not self.in_steps:
            source.line(f"{self.sink}({data})")
            return
        if kind == "bytes" and self.sink == "w.append":
            with source.block(f"if {length} < OWN_PART_BYTES_MIN:"):
                source.line(f"w.append({data})")
                source.line(f"turn -= {length} // CHUNK_UNIT_BYTES")
            with source.block("else:"):
                source.line("parts.append(join(w))")
                source.line("w.clear()")
                source.line(f"parts.append({data})")
                source.line(f"size += {length} + len(parts[-2])")
                source.line(f"if size > RESPONSE_BYTES_MAX: raise response_too_large({self.message.__name__!r})")
        else:
            source.line(f"{self.sink}({data})")
            source.line(f"turn -= {length} // CHUNK_UNIT_BYTES")

    def records(self, variable: str) -> None:
        """Write the length of records, and add the records themselves as parts."""
        source = self.source
        length = source.variable("length")
        source.line(f"if isinstance({variable}, BUFFERS): {variable} = ({variable},)")
        source.line(f"{length} = sum(map(len, {variable})){' + 1' if self.flexible else ''}")
        self.length("records", length)
        source.line("parts.append(join(w))")
        source.line("w.clear()")
        source.line(f"parts.extend({variable})")

    def array(self, field: Field, structure: type | None, variable: str, path: str) -> None:
        source = self.source
        count = source.variable("count")
        source.line(f"{count} = {self.length_of(variable)}")
        self.length("array", count)
        if structure is None and field.type in FORMATS and field.type != "uuid":
            size = f"{count} - 1" if self.flexible else count
            source.line(f'{self.sink}(pack(f">{{{size}}}{FORMATS[str(field.type)]}", *{variable}))')
            return
        element = source.variable("element")
        with source.block(f"for {element} in {variable}:"):
            if structure:
                self.structure(structure, element, path)
            elif field.type == "uuid":
                self.fixed_value("uuid", element)
            else:
                self.sized(str(field.type), element)
            self.flush()
            if self.in_steps and self.sink == "w.append":
                self.end_turn()

    def end_turn(self) -> None:
        """Write the code that ends a turn after enough elements: it makes the collected bytes a part and yields."""
        source = self.source
        source.line("turn -= 1")
        with source.block("if turn < 0:"):
            source.line("size += sum(map(len, w))")
            source.line(f"if size > RESPONSE_BYTES_MAX: raise response_too_large({self.message.__name__!r})")
            source.line("parts.append(join(w))")
            source.line("w.clear()")
            source.line("yield")
            source.line("turn = ELEMENTS_A_TURN")

    def optional_structure(self, structure: type, variable: str, path: str, *, in_tag: bool) -> None:
        """Write a nullable struct. A byte before the struct says whether it is present."""
        # Both branches of the generated condition begin with the pending run.
        run = list(self.run)
        with self.source.block(f"if {variable} is None:"):
            self.fixed("b", "0" if in_tag else "-1")
            self.flush()
        self.run = run
        with self.source.block("else:"):
            self.fixed("b", "1")
            self.structure(structure, variable, path)
            self.flush()

    def structure(self, structure: type, variable: str, path: str) -> None:
        if not variable.isidentifier():
            local = self.source.variable("struct")
            self.source.line(f"{local} = {variable}")
            variable = local
        tagged: list[Field] = []
        for field in fields_of(structure):
            expression = f"{variable}.{field.name}"
            if self.version not in field.versions:
                if not field.ignorable:
                    self.refuse(field, expression, f"{path}.{field.name}")
            elif field.tag is not None:
                tagged.append(field)
            else:
                self.value(field, expression, f"{path}.{field.name}")
        if self.flexible and not tagged:
            self.fixed("x", "")
        elif self.flexible:
            self.tags(tagged, variable, path)

    def is_set(self, field: Field, expression: str) -> str:
        if field.default is None:
            return f"{expression} is not None"
        if field.is_array:
            return f"{expression} is None or len({expression})" if len(field.nullable) else f"{expression}"
        if isinstance(field.type, type):
            default = self.source.bind(f"default_{field.type.__name__}", field.default)
            # The identity test is a shortcut: most messages keep the shared default.
            return f"{expression} is not {default} and {expression} != {default}"
        return f"{expression} != {field.default!r}"

    def refuse(self, field: Field, expression: str, path: str) -> None:
        """Write the check that raises EncodeError for a value that this version would lose."""
        message = f"{path} cannot be sent in version {self.version}"
        self.source.line(f"if {self.is_set(field, expression)}: raise EncodeError({message!r})")

    def tags(self, tagged: list[Field], variable: str, path: str) -> None:
        """Write a tag section with the fields that differ from their defaults, in ascending order of their tags."""
        source = self.source
        self.flush()
        section = source.variable("section")
        source.line(f"{section} = []")
        outer = self.sink
        for field in sorted(tagged, key=lambda field: field.tag or 0):
            value = source.variable(field.name)
            source.line(f"{value} = {variable}.{field.name}")
            with source.block(f"if {self.is_set(field, value)}:"):
                payload = source.variable("payload")
                source.line(f"{payload} = []")
                self.sink = f"{payload}.append"
                self.value(field, value, f"{path}.{field.name}", in_tag=True)
                self.flush()
                source.line(f"{section}.append(tagged_field({field.tag}, join({payload})))")
        self.sink = outer
        source.line(f"{self.sink}(tag_section({section}) if {section} else {bytes(1)!r})")
