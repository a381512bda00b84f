r"""Regular expressions in the syntax of `java.util.regex.Pattern`, matched against topic names.

The package `regex` reads most of Java's syntax: nested classes, `&&`, possessive quantifiers, inline flags.
This module translates the rest, and escapes characters that are special only to `regex`. Topic names are ASCII, so
the flags for Unicode (`u`, `U`) and line ends (`d`) have no effect and are dropped.
"""

from __future__ import annotations

import re

import attrs
import regex

__all__ = ["JavaPattern"]

CATEGORY = re.compile("C[cfnos]?|L[Clmotu]?|M[cen]?|N[dlo]?|P[cdefios]?|S[ckmo]?|Z[lps]?")
"""A general category of Unicode, which Java also writes as `\\p{IsLu}`."""
BINARY_PROPERTIES = {"letter": "L", "control": "Cc", "punctuation": "P", "digit": "Nd", "titlecase": "Lt"}
"""Properties that Java writes as `\\p{IsDigit}`, ignoring case, and `regex` as a category."""
JAVA_PROPERTIES = {
    "javaLowerCase": r"[a-z]",
    "javaUpperCase": r"[A-Z]",
    "javaAlphabetic": r"[A-Za-z]",
    "javaLetter": r"[A-Za-z]",
    "javaLetterOrDigit": r"[0-9A-Za-z]",
    "javaDigit": r"[0-9]",
    "javaIdeographic": r"[^\x00-\x7f]",
    "javaTitleCase": r"[^\x00-\x7f]",
    "javaDefined": r"[\x00-\x7f]",
    "javaJavaIdentifierStart": r"[$A-Z_a-z]",
    "javaJavaIdentifierPart": r"[\x00-\x08\x0e-\x1b$0-9A-Z_a-z\x7f]",
    "javaUnicodeIdentifierStart": r"[A-Za-z]",
    "javaUnicodeIdentifierPart": r"[\x00-\x08\x0e-\x1b0-9A-Z_a-z\x7f]",
    "javaIdentifierIgnorable": r"[\x00-\x08\x0e-\x1b\x7f]",
    "javaSpaceChar": r"[ ]",
    "javaWhitespace": r"[ \t-\r\x1c-\x1f]",
    "javaISOControl": r"[\x00-\x1f\x7f]",
    "javaMirrored": r"[()<>\[\]{}]",
    "LD": r"[0-9A-Za-z]",
    "L1": r"[\x00-\xff]",
    "all": r"[\x00-\U0010ffff]",
}
"""Methods of `java.lang.Character`, for ASCII, and names that only Java knows."""
ESCAPES = {
    "e": r"\x1b",
    "h": r"[ \t]",
    "H": r"[^ \t]",
    "R": r"(?>\r\n|[\n-\r])",
    "v": r"[\n-\r]",
    "V": r"[^\n-\r]",
}
TOKEN = re.compile(
    r"""
      \\Q (?P<quoted> .*? ) (?: \\E | \Z )
    | \\k < (?P<named> [A-Za-z][0-9A-Za-z]* ) >
    | \\(?P<sign> [pP] ) (?: \{ (?P<braced> [^}]* ) \} | (?P<letter> . ) )
    | (?P<character> \\N\{ [^}]* \} )
    | \\x\{ (?P<hex> [0-9A-Fa-f]+ ) \}
    | \\0 (?P<octal> [0-3]?[0-7]{1,2} )
    | \\c (?P<control> . )
    | \\ (?P<escaped> . )
    | \(\? (?P<flags> [A-Za-z]* (?: -[A-Za-z]* )? ) (?P<closing> [:)] )
    | (?P<group> \( (?: \?<[A-Za-z][0-9A-Za-z]*> | \? (?: [:=!>] | <= | <! ) )? ) (?! \? )
    | (?P<repeat> \{ [0-9]+ (?: , [0-9]* )? \} )
    | (?P<open> \[ \^? )
    | (?P<other> . )
    """,
    re.VERBOSE | re.DOTALL,
)


@attrs.frozen
class JavaPattern:
    """A compiled pattern that can be pickled.

    Attributes:
        expression: the pattern in the syntax of `regex`.
    """

    expression: regex.Pattern[str]

    @classmethod
    def read(cls, text: str) -> JavaPattern:
        """Translate a Java pattern; raises ValueError if it is invalid."""
        try:
            return cls(regex.compile("".join(_translated(text)), regex.V1 | regex.ASCII))
        except (regex.error, OverflowError) as error:
            raise ValueError(str(error)) from None

    def find(self, name: str) -> bool:
        """Return whether the pattern matches any part of a name, like `Matcher.find`."""
        return self.expression.search(name) is not None


def _translated(text: str) -> list[str]:
    parts = []
    depth = position = 0
    while (token := TOKEN.match(text, position)) is not None:
        position = token.end()
        kind, value = token.lastgroup or "", token[token.lastgroup or 0]
        if depth and kind in {"flags", "closing", "group", "repeat"}:  # in a class they are single characters
            position = token.start() + 1
            kind, value = "other", token[0][0]
        if kind == "open":
            depth += 1
        elif kind == "other" and value == "]" and depth:
            depth -= 1
        elif kind == "other" and value == "{" and not depth:
            raise ValueError(
                f"the {{ at position {token.start()} does not begin a repetition. Write \\{{ for the character"
            )
        elif kind == "other" and value == "(":
            raise ValueError(f"the group at position {token.start()} is unknown to Java")
        parts.append(_written(token, kind, value, text[position : position + 1], is_in_class=depth > 0))
    return parts


def _written(token: re.Match[str], kind: str, value: str, following: str, *, is_in_class: bool) -> str:
    if kind == "quoted":
        return _escaped(value)
    if kind == "named":
        return f"\\g<{value}>"
    if kind in {"braced", "letter"}:
        return _property(token["sign"], value)
    if kind in {"hex", "octal"}:
        return _escaped(chr(int(value, 16 if kind == "hex" else 8)))
    if kind == "control":
        return f"\\x{ord(value) ^ 64:02x}"
    if kind == "escaped":
        return ESCAPES.get(value, token[0])
    if kind == "closing":
        kept = "".join(letter for letter in token["flags"] if letter not in "duU").removesuffix("-")
        return f"(?{kept}{value}" if kept or value == ":" else ""
    if kind == "other" and is_in_class and value in "|-~:" and (value in (following, ":")):
        return f"\\{value}"
    return value


def _escaped(text: str) -> str:
    escaped: str = regex.escape(text, special_only=False)
    return escaped


def _property(sign: str, name: str) -> str:
    if (characters := JAVA_PROPERTIES.get(name)) is not None:
        return characters if sign == "p" else f"[^{characters}]"
    if name.startswith("Is"):
        named = BINARY_PROPERTIES.get(name[2:].lower(), name[2:])
        name = named if CATEGORY.fullmatch(named) else name
    return f"\\{sign}{{{name}}}"
