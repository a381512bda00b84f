r"""`ssl.principal.mapping.rules`: from the distinguished name of a certificate to the name of a user.

    rules = rule { "," rule }
    rule  = "DEFAULT" | "RULE:" pattern "/" replacement "/" [ "L" | "U" ]

Rules of this file: the first rule whose pattern matches the whole name decides; DEFAULT takes the name as it is; no
match is no user. Patterns are Java's: ASCII classes, `(?<name>...)`, and `$1` in the replacement; a `/` in either part
is written `\/`. What Python cannot read of them is refused at the start.
"""

from __future__ import annotations

import re

import attrs

from pipeline_broker.config.properties import ConfigError
from pipeline_broker.security.principal import USER, KafkaPrincipal

__all__ = ["MAPPING_RULES", "PrincipalMapping"]

MAPPING_RULES = "ssl.principal.mapping.rules"
RULE = re.compile(
    r"\s*(?:(?P<default>DEFAULT)|RULE:(?P<pattern>(?:\\.|[^\\/])*)/(?P<replacement>(?:\\.|[^\\/])*)/(?P<letters>[LU]?))"
    r"\s*(?:,|$)"
)
NAMED_GROUP = re.compile(r"(?<!\\)\(\?<(?=[A-Za-z])")
REFERENCE = re.compile(r"\\(?P<literal>.)|\$(?P<number>[0-9]+)|\$\{(?P<name>[A-Za-z][A-Za-z0-9]*)\}", re.DOTALL)
ALL = "DEFAULT"


@attrs.frozen
class _Rule:
    """One rule; a pattern of None takes every name as it is."""

    pattern: re.Pattern[str] | None
    replacement: str = ""
    letters: str = ""

    def apply(self, name: str) -> str | None:
        """The name of the user, None where the pattern does not match."""
        if self.pattern is None:
            return name
        if not self.pattern.fullmatch(name):
            return None
        mapped = self.pattern.sub(self._expand, name)
        return {"L": mapped.lower, "U": mapped.upper}.get(self.letters, lambda: mapped)()

    def _expand(self, match: re.Match[str]) -> str:
        def replace(reference: re.Match[str]) -> str:
            if reference["literal"] is not None:
                return reference["literal"]
            if reference["name"] is not None:
                return match[reference["name"]] or ""
            return _numbered(match, reference["number"])

        return REFERENCE.sub(replace, self.replacement)


class PrincipalMapping:
    """The rules of one listener.

    Raises:
        ConfigError: they cannot be read.
    """

    def __init__(self, text: str) -> None:
        self._rules = _read(text.strip() or ALL)

    def principal(self, distinguished_name: str) -> KafkaPrincipal | None:
        """Who has this name; None if no rule says so: the connection must be closed."""
        for rule in self._rules:
            name = rule.apply(distinguished_name)
            if name is not None:
                return KafkaPrincipal(USER, name)
        return None


def _read(text: str) -> list[_Rule]:
    rules = []
    position = 0
    while position < len(text):
        match = RULE.match(text, position)
        if match is None:
            raise ConfigError(
                f"{MAPPING_RULES}: {text[position:].strip()!r} does not begin with DEFAULT or RULE:pattern/replacement/"
            )
        position = match.end()
        rules.append(
            _Rule(None) if match["default"] else _rule(match["pattern"], match["replacement"], match["letters"])
        )
    return rules


def _rule(pattern: str, replacement: str, letters: str) -> _Rule:
    try:
        compiled = re.compile(NAMED_GROUP.sub("(?P<", pattern), re.ASCII)
    except re.error as error:
        raise ConfigError(f"{MAPPING_RULES}: the pattern {pattern!r} cannot be read: {error}") from None
    for reference in REFERENCE.finditer(replacement):
        if reference["name"] is not None and reference["name"] not in compiled.groupindex:
            raise ConfigError(f"{MAPPING_RULES}: the pattern {pattern!r} has no group {reference['name']}")
    return _Rule(compiled, replacement, letters)


def _numbered(match: re.Match[str], digits: str) -> str:
    """What `$12` stands for: the group with the most digits that exists; the text itself where none does."""
    for size in range(len(digits), 0, -1):
        if int(digits[:size]) <= match.re.groups:
            return (match[int(digits[:size])] or "") + digits[size:]
    return f"${digits}"
