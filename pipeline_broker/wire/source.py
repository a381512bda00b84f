"""A builder for the Python source of generated functions."""

from __future__ import annotations

import linecache
from collections.abc import Iterator
from contextlib import contextmanager
from struct import Struct, calcsize
from typing import Any

FORMATS = {
    "bool": "?",
    "int8": "b",
    "int16": "h",
    "uint16": "H",
    "int32": "i",
    "uint32": "I",
    "int64": "q",
    "float64": "d",
    "uuid": "16s",
}
"""Format characters of the `struct` module, by fixed-width type."""


def width(code: str) -> int:
    return calcsize(">" + code)


class Source:
    """The source of one generated function, and the names that it refers to."""

    def __init__(self, name: str, arguments: str, names: dict[str, Any]) -> None:
        self.name = name
        self.names = dict(names)
        self.lines = [f"def {name}({arguments}):"]
        self.depth = 1
        self.counter = 0

    def line(self, text: str) -> None:
        self.lines.append("    " * self.depth + text)

    @contextmanager
    def block(self, opening: str) -> Iterator[None]:
        """Append a line that opens a block, and indent the lines written inside the context."""
        self.line(opening)
        self.depth += 1
        yield
        self.depth -= 1

    def variable(self, stem: str) -> str:
        self.counter += 1
        return f"{stem}_{self.counter}"

    def bind(self, name: str, value: Any) -> str:
        """Bind a name of the generated function to a value, and return the name. A name must keep its value."""
        assert self.names.setdefault(name, value) is value, name
        return name

    def struct_method(self, method: str, codes: str) -> str:
        """Return the name of a method of a big-endian struct, which is bound on first use.

        Args:
            method: `pack` or `unpack_from`.
            codes: the format characters of the struct.
        """
        name = f"{method}_{codes.replace('?', 'o')}"
        if name not in self.names:
            self.names[name] = getattr(Struct(">" + codes), method)
        return name

    def compile(self) -> Any:
        """Compile the source and return the function. Tracebacks show the lines of the generated source."""
        text = "\n".join(self.lines) + "\n"
        file_name = f"<wire codec {self.name}>"
        # So that a traceback shows the line of the generated source that failed.
        linecache.cache[file_name] = (len(text), None, text.splitlines(keepends=True), file_name)
        exec(compile(text, file_name, "exec"), self.names)  # noqa: S102 - generated from our declarations only
        return self.names[self.name]
