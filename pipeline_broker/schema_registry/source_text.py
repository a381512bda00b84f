"""A lexer that separates comments and quoted texts from code, in Avro's JSON and Protobuf source.

The lexer reads a text once, so its time is linear for any input. One regular expression for all tokens would rescan
the rest of the text at each unterminated comment.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Iterator

__all__ = ["Kind", "pieces"]

PLAIN = re.compile(r"""[^"'/]*""")
UNTIL_QUOTE = {'"': re.compile(r'[^"\\]*'), "'": re.compile(r"[^'\\]*")}


class Kind(enum.Enum):
    CODE = enum.auto()
    QUOTED = enum.auto()
    COMMENT = enum.auto()


def pieces(text: str) -> Iterator[tuple[Kind, str]]:
    """Yield the parts of a source in order. An unterminated comment or quoted text extends to the end."""
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
    assert plain is not None, "the pattern also matches an empty text"
    return Kind.CODE, plain.end()


def _after(text: str, end: str, position: int) -> int:
    found = text.find(end, position)
    return len(text) if found < 0 else found + len(end)


def _end_of_quoted(text: str, position: int) -> int:
    until = UNTIL_QUOTE[text[position]]
    position += 1
    while position < len(text):
        plain = until.match(text, position)
        assert plain is not None, "the pattern also matches an empty text"
        position = plain.end()
        if not text.startswith("\\", position):
            return position + 1
        position += 2
    return len(text)
