r"""JAAS lines: what `sasl.jaas.config` says, in Java's form.

    line  = module flag { option "=" value } ";"
    flag  = "required" | "requisite" | "sufficient" | "optional", whatever the case
    value = word | 'text' | "text", where \ escapes what follows (\n, \t, \", \101 in octal ...)

Comments of Java (`//`, `/* */`) are read past. Rules of this file: exactly one module, as Kafka wants it; an error says
what was expected and after which word, and never shows a value.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

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


@attrs.frozen(repr=False)
class _Token:
    kind: str
    text: str


def parse_jaas(text: str, expected_module: str) -> JaasEntry:
    """The one entry of a JAAS line.

    Args:
        text: the line.
        expected_module: full name of the class that the mechanism needs.

    Raises:
        ConfigError: it cannot be read, or is of another module.
    """
    tokens = _tokens(text)
    module = _next(tokens, "word", "the name of a login module", "at its beginning")
    if module != expected_module:
        raise ConfigError(f"the login module {module} is not the one of this mechanism, {expected_module}")
    flag = _next(tokens, "word", "required", f"after {module}")
    if flag.lower() not in FLAGS:
        raise ConfigError(f"expected one of {', '.join(sorted(FLAGS))} after {module}")
    options: dict[str, str] = {}
    after = flag
    while (token := next(tokens, None)) is not None and token.text != ";":
        if token.kind != "word":
            raise ConfigError(f"expected the name of an option or ; after {after}")
        name = token.text
        _next(tokens, "sign", "=", f"after {name}", sign="=")
        if name in options:
            raise ConfigError(f"the option {name} stands there twice")
        options[name] = _next(tokens, "value", "a value", f"after {name}=")
        after = f"the value of {name}"
    if token is None:
        raise ConfigError(f"expected ; after {after}")
    if next(tokens, None) is not None:
        raise ConfigError("expected nothing after the first ;, because a mechanism has one login module")
    return JaasEntry(module, options)


def users_of(entry: JaasEntry) -> dict[str, str]:
    """The passwords that an entry names, by user: its options `user_<name>`."""
    return {
        name.removeprefix(USER_PREFIX): value for name, value in entry.options.items() if name.startswith(USER_PREFIX)
    }


def _tokens(text: str) -> Iterator[_Token]:
    position = 0
    while position < len(text):
        match = TOKEN.match(text, position)
        if match is None:
            raise ConfigError(f"character {position + 1} is not part of a word; a value with such must be quoted")
        position = match.end()
        kind = str(match.lastgroup)
        if kind == "quoted":
            yield _Token(kind, ESCAPE.sub(_unescape, match[0][1:-1]))
        elif kind != "blank":
            yield _Token(kind, match[0])


def _unescape(match: re.Match[str]) -> str:
    escaped = match[1]
    return chr(int(escaped, 8)) if escaped[0] in "01234567" else ESCAPES.get(escaped, escaped)


def _next(tokens: Iterator[_Token], kind: str, expected: str, where: str, sign: str | None = None) -> str:
    token = next(tokens, None)
    kinds = ("word", "quoted") if kind == "value" else (kind,)
    if token is None or token.kind not in kinds or (sign is not None and token.text != sign):
        raise ConfigError(f"expected {expected} {where}")
    return token.text
