r"""JAAS lines: what `sasl.jaas.config` says, in Java's form.

    line  = module flag { option "=" value } ";"
    flag  = "required" | "requisite" | "sufficient" | "optional", whatever the case
    value = word | 'text' | "text", where \ escapes what follows (\n, \t, \", \101 in octal ...)

Comments of Java (`//`, `/* */`) are read past. Rules of this file: exactly one module, as Kafka wants it; an error says
what was expected and where, and never shows a word of the line: in one that is wrong, any may be a secret.
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
ESCAPE = re.compile(r"\\([0-3][0-7]{2}|[0-7]{1,2}|.)", re.DOTALL)


@attrs.frozen(repr=False)
class JaasEntry:
    """One login module and its options; not printed, because some are secrets."""

    module: str
    options: Mapping[str, str]


def parse_jaas(text: str, expected_module: str) -> JaasEntry:
    """The one entry of a JAAS line.

    Args:
        expected_module: full name of the class that the mechanism needs.

    Raises:
        ConfigError: it cannot be read, or is of another module.
    """
    reader = _Reader(text)
    if reader.take("the name of a login module", "word") != expected_module:
        raise ConfigError(f"the login module is not the one of this mechanism, {expected_module}")
    if reader.take("required", "word").lower() not in FLAGS:
        raise ConfigError(f"expected one of {', '.join(sorted(FLAGS))} behind the login module")
    options: dict[str, str] = {}
    while (name := reader.take("the name of an option or ;", "word", ";")) != ";":
        reader.take("=", "=")
        if name in options:
            raise ConfigError(f"the option before character {reader.position} stands there twice")
        options[name] = reader.take("a value", "word", "quoted")
    if not reader.is_at_end():
        raise ConfigError(f"expected nothing behind character {reader.position}: a mechanism has one login module")
    return JaasEntry(expected_module, options)


class _Reader:
    """Takes one word after the other; says where it is, never what it saw."""

    def __init__(self, text: str) -> None:
        self._text = text
        self.position = 0

    def is_at_end(self) -> bool:
        """Whether nothing but blanks is left."""
        while (match := TOKEN.match(self._text, self.position)) and match.lastgroup == "blank":
            self.position = match.end()
        return self.position == len(self._text)

    def take(self, expected: str, *kinds: str) -> str:
        """The text of the next token, which must be of one of these kinds; a sign is a kind of its own."""
        if self.is_at_end():
            raise ConfigError(f"expected {expected} at its end")
        match = TOKEN.match(self._text, self.position)
        kind = None if match is None else match[0] if match.lastgroup == "sign" else match.lastgroup
        if match is None or kind not in kinds:
            hint = " (a value with anything but letters, digits and ._$- must be quoted)" if "=" in self._text else ""
            raise ConfigError(f"expected {expected} at character {self.position + 1}{hint}")
        self.position = match.end()
        return ESCAPE.sub(_unescape, match[0][1:-1]) if kind == "quoted" else match[0]


def users_of(entry: JaasEntry) -> dict[str, str]:
    """The passwords that an entry names, by user: its options `user_<name>`."""
    return {
        name.removeprefix(USER_PREFIX): value for name, value in entry.options.items() if name.startswith(USER_PREFIX)
    }


def _unescape(match: re.Match[str]) -> str:
    escaped = match[1]
    return chr(int(escaped, 8)) if escaped[0] in "01234567" else ESCAPES.get(escaped, escaped)
