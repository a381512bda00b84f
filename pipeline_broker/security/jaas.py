r"""Parsing of JAAS lines (`sasl.jaas.config`), in Java's syntax.

    line  = module flag { option "=" value } ";"
    flag  = "required" | "requisite" | "sufficient" | "optional", in any case
    value = word | 'text' | "text", in which \ escapes the next character (\n, \t, \", \101 in octal ...)

Java's comments (`//`, `/* */`) are skipped. A line has exactly one module, as in Kafka. An error names the expected
token and the position. It never quotes the line, because any word of a malformed line may be a secret.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import attrs

from pipeline_broker.config.properties import ConfigError

__all__ = ["JaasEntry", "parse_jaas", "users_of"]

USER_PREFIX = "user_"
FLAGS = frozenset({"required", "requisite", "sufficient", "optional"})
ESCAPES = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
TOKEN = re.compile(
    r"""(?P<blank>\s+|//[^\r\n]*|/\*.*?\*/)
    |(?P<quoted>"(?:[^"\\\r\n]|\\[^\r\n])*"|'(?:[^'\\\r\n]|\\[^\r\n])*')
    |(?P<word>[A-Za-z0-9_.$\u00a0-\uffff-]+)
    |(?P<sign>[=;])""",
    re.VERBOSE | re.DOTALL,
)
SECTION = re.compile(r"\s*[\w.$-]+\s*\{")
ESCAPE = re.compile(r"\\([0-3][0-7]{2}|[0-7]{1,2}|.)", re.DOTALL)


@attrs.frozen(repr=False)
class JaasEntry:
    """A login module and its options. It has no `repr`, because options may be secrets."""

    module: str
    options: Mapping[str, str]


def parse_jaas(text: str, expected_module: str) -> JaasEntry:
    """Return the only entry of a JAAS line.

    Args:
        expected_module: full class name of the login module that the mechanism needs.

    Raises:
        ConfigError: the line is malformed, names a different module, or repeats an option.
    """
    if SECTION.match(text):
        raise ConfigError(
            "a section of a JAAS file is not allowed. Keep only the login module and its options up to the first ;"
        )
    reader = _Reader(text)
    if reader.take("the name of a login module", "word") != expected_module:
        raise ConfigError(f"the login module of this mechanism must be {expected_module}")
    if reader.take("required", "word").lower() not in FLAGS:
        raise ConfigError(f"expected one of {', '.join(sorted(FLAGS))} after the login module")
    options: dict[str, str] = {}
    while (name := reader.take("the name of an option or ;", "word", ";")) != ";":
        reader.take("=", "=")
        # The error shows a position, because the name may be part of a secret.
        if name in options:
            raise ConfigError(f"the option before character {reader.position} is repeated; remove one of the two")
        options[name] = reader.take("a value", "word", "quoted")
    if not reader.is_at_end():
        raise ConfigError(f"expected the end after character {reader.position}: a mechanism has one login module")
    return JaasEntry(expected_module, options)


class _Reader:
    def __init__(self, text: str) -> None:
        self._text = text
        self.position = 0

    def is_at_end(self) -> bool:
        """Skip blanks and comments; return whether nothing follows them."""
        while (match := TOKEN.match(self._text, self.position)) and match.lastgroup == "blank":
            self.position = match.end()
        return self.position == len(self._text)

    def take(self, expected: str, *kinds: str) -> str:
        """Return the text of the next token, unquoted and with escapes resolved.

        Args:
            expected: names the token in an error.
            kinds: its allowed kinds: `word`, `quoted`, or a sign as it is.

        Raises:
            ConfigError: the line ends, or the token is of another kind.
        """
        if self.is_at_end():
            raise ConfigError(f"expected {expected} at the end")
        match = TOKEN.match(self._text, self.position)
        kind = None if match is None else match[0] if match.lastgroup == "sign" else match.lastgroup
        if match is None or kind not in kinds:
            hint = " (a value with anything but letters, digits and ._$- must be quoted)" if "=" in self._text else ""
            raise ConfigError(f"expected {expected} at character {self.position + 1}{hint}")
        self.position = match.end()
        return ESCAPE.sub(_unescape, match[0][1:-1]) if kind == "quoted" else match[0]


def users_of(entry: JaasEntry) -> dict[str, str]:
    return {
        name.removeprefix(USER_PREFIX): value for name, value in entry.options.items() if name.startswith(USER_PREFIX)
    }


def _unescape(match: re.Match[str]) -> str:
    escaped = match[1]
    return chr(int(escaped, 8)) if escaped[0] in "01234567" else ESCAPES.get(escaped, escaped)
