"""Comments and quoted texts of a schema's source, as Avro's JSON and Protobuf have them.

Rules of this file: one pass over the text, whatever it says. A search by an expression would begin again at each of
thousands of comments that do not end.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Iterator

__all__ = ["Kind", "pieces"]

PLAIN = re.compile(r"""[^"'/]*""")
UNTIL_QUOTE = {'"': re.compile(r'[^"\\]*'), "'": re.compile(r"[^'\\]*")}


class Kind(enum.Enum):
    """A part of a source."""

    CODE = enum.auto()
    QUOTED = enum.auto()
    COMMENT = enum.auto()


def pieces(text: str) -> Iterator[tuple[Kind, str]]:
    """Yield the parts of a source in order; one that does not end goes on to the end of the source."""
    position = 0
    while position < len(text):
        kind, end = _piece(text, position)
        yield kind, text[position:end]
        position = end


def _piece(text: str, position: int) -> tuple[Kind, int]:
    first = text[position]
    if first in UNTIL_QUOTE:
        return Kind.QUOTED, _end_of_quoted(text, position)
    if text.startswith("//", position):
        return Kind.COMMENT, _after(text, "\n", position)
    if text.startswith("/*", position):
        return Kind.COMMENT, _after(text, "*/", position + 2)
    if first == "/":
        return Kind.CODE, position + 1
    plain = PLAIN.match(text, position)
    assert plain is not None, "it matches nothing, too"
    return Kind.CODE, plain.end()


def _after(text: str, end: str, position: int) -> int:
    found = text.find(end, position)
    return len(text) if found < 0 else found + len(end)


def _end_of_quoted(text: str, position: int) -> int:
    until = UNTIL_QUOTE[text[position]]
    position += 1
    while position < len(text):
        plain = until.match(text, position)
        assert plain is not None, "it matches nothing, too"
        position = plain.end()
        if not text.startswith("\\", position):
            return position + 1
        position += 2
    return len(text)
