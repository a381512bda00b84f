"""Python source under construction: lines, names, and the structs of fixed-width runs.

Rules of this file: it knows Python and struct formats, no schema. Generated source is registered in linecache, so
that a traceback out of a codec shows the line that failed.
"""

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
"""struct's code of every type that has a fixed width."""


def width(code: str) -> int:
    """Bytes that a struct code takes."""
    return calcsize(">" + code)


class Source:
    """The text of one generated function and the names that it refers to."""

    def __init__(self, name: str, arguments: str, names: dict[str, Any]) -> None:
        self.name = name
        self.names = dict(names)
        self.lines = [f"def {name}({arguments}):"]
        self.depth = 1
        self.counter = 0

    def line(self, text: str) -> None:
        """Append one line at the current depth."""
        self.lines.append("    " * self.depth + text)

    @contextmanager
    def block(self, opening: str) -> Iterator[None]:
        """Append a line that opens a block; what is written inside belongs to it."""
        self.line(opening)
        self.depth += 1
        yield
        self.depth -= 1

    def variable(self, stem: str) -> str:
        """Return a local name not used before."""
        self.counter += 1
        return f"{stem}_{self.counter}"

    def bind(self, name: str, value: Any) -> str:
        """Make a value known to the function under a name."""
        assert self.names.setdefault(name, value) is value, name
        return name

    def struct_method(self, method: str, codes: str) -> str:
        """Return the name of a bound method (`pack` or `unpack_from`) of the struct with these codes."""
        name = f"{method}_{codes.replace('?', 'o')}"
        if name not in self.names:
            self.names[name] = getattr(Struct(">" + codes), method)
        return name

    def compile(self) -> Any:
        """Compile the text; the function is returned and its source kept for tracebacks."""
        text = "\n".join(self.lines) + "\n"
        file_name = f"<wire codec {self.name}>"
        linecache.cache[file_name] = (len(text), None, text.splitlines(keepends=True), file_name)
        exec(compile(text, file_name, "exec"), self.names)  # noqa: S102 - the text is made from our declarations only
        return self.names[self.name]
