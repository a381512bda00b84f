r"""`ssl.principal.mapping.rules`: from the distinguished name of a certificate to the name of a user.

    rules = rule { "," rule }
    rule  = "DEFAULT" | "RULE:" pattern "/" replacement "/" [ "L" | "U" ]

Rules of this file: the first rule whose pattern matches the whole name decides; DEFAULT takes the name as it is; no
match is no user. A name comes from a client, so RE2 matches the patterns. Its syntax is Java's without references back
(`\1`), lookahead and lookbehind; classes are ASCII, groups may be `(?<name>...)`, and the replacement has `$1`. A `/`
in either part is written `\/`. A pattern that RE2 cannot read is refused at startup. One name has one budget of work
for all rules.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import attrs

from pipeline_broker.base.patterns import MATCH_WORK_MAX, InvalidPatternError, Pattern, compiled
from pipeline_broker.config.properties import ConfigError
from pipeline_broker.security.principal import USER, KafkaPrincipal

__all__ = ["MAPPING_RULES", "PrincipalMapping"]

MAPPING_RULES = "ssl.principal.mapping.rules"
RULE = re.compile(
    r"\s*(?:(?P<default>DEFAULT)|RULE:(?P<pattern>(?:\\.|[^\\/])*)/(?P<replacement>(?:\\.|[^\\/])*)/(?P<letters>[LU]?))"
    r"\s*(?:,|$)",
    re.DOTALL,
)
RULES_MAX = 100
REPLACEMENTS_MAX = 10
"""In one name: Java replaces each match, and a pattern that matches the whole name mostly matches it once."""
NAME_CHARS_MAX = 1_000
"""Of a user: each connection keeps it, and `$0$0$0` multiplies that of the certificate."""
SHOWN_CHARS_MAX = 100
"""Of a rule, in its refusal."""
NAMED_GROUP = re.compile(r"(?<!\\)\(\?<(?=[A-Za-z])")
REFERENCE = re.compile(
    r"\\(?P<literal>.)|\$(?P<number>[0-9]{1,3})|\$\{(?P<name>[A-Za-z][A-Za-z0-9]{0,50})\}", re.DOTALL
)
ALL = "DEFAULT"


@attrs.frozen
class _Rule:
    """One rule; a pattern of None takes every name as it is."""

    pattern: Pattern | None
    group_names: Mapping[str, int]
    group_count: int
    replacement: str
    letters: str

    def apply(self, name: str) -> str | None:
        """Return the name of the user; None if the pattern does not match, or the name is too long."""
        if self.pattern is None:
            return name
        if not self.pattern.matches(name):
            return None
        mapped = self.pattern.replace(name, self._expand, REPLACEMENTS_MAX)
        if mapped is None or len(mapped) > NAME_CHARS_MAX:
            return None
        return {"L": mapped.lower, "U": mapped.upper}.get(self.letters, lambda: mapped)()

    def _expand(self, groups: Sequence[str | None]) -> str:
        pieces: list[str] = []
        position = length = 0
        for reference in REFERENCE.finditer(self.replacement):
            pieces += self.replacement[position : reference.start()], self._value(reference, groups)
            length += len(pieces[-1])
            if length > NAME_CHARS_MAX:
                break
            position = reference.end()
        return "".join(pieces) + self.replacement[position:]

    def _value(self, reference: re.Match[str], groups: Sequence[str | None]) -> str:
        """Return what a reference stands for: a number is that of the group with the most digits that exists."""
        if reference["literal"] is not None:
            return reference["literal"]
        if reference["name"] is not None:
            return groups[self.group_names[reference["name"]]] or ""
        digits = reference["number"]
        for size in range(len(digits), 0, -1):
            if int(digits[:size]) <= self.group_count:
                return (groups[int(digits[:size])] or "") + digits[size:]
        return f"${digits}"


class PrincipalMapping:
    """The rules of one listener.

    Raises:
        ConfigError: they cannot be read.
    """

    def __init__(self, text: str) -> None:
        self._rules = _read(text.strip() or ALL)

    def principal(self, distinguished_name: str) -> KafkaPrincipal | None:
        """Who has this name; None if no rule says so: the connection must be closed."""
        work_left = MATCH_WORK_MAX
        for rule in self._rules:
            if rule.pattern is not None:
                work_left -= rule.pattern.work(distinguished_name)
                if work_left < 0:
                    return None
            name = rule.apply(distinguished_name)
            if name is not None:
                return KafkaPrincipal(USER, name)
        return None


def _read(text: str) -> list[_Rule]:
    rules: list[_Rule] = []
    position = 0
    while position < len(text):
        match = RULE.match(text, position)
        if match is None:
            raise ConfigError(
                f"{MAPPING_RULES}: {_shown(text[position:].strip())} does not begin with DEFAULT or"
                " RULE:pattern/replacement/"
            )
        position = match.end()
        rules.append(
            _Rule(None, {}, 0, "", "")
            if match["default"]
            else _rule(match["pattern"], match["replacement"], match["letters"])
        )
        if len(rules) > RULES_MAX:
            raise ConfigError(f"{MAPPING_RULES}: there are more than {RULES_MAX} rules")
    return rules


def _rule(pattern: str, replacement: str, letters: str) -> _Rule:
    try:
        expression = compiled(NAMED_GROUP.sub("(?P<", pattern))
    except InvalidPatternError as error:
        raise ConfigError(
            f"{MAPPING_RULES}: the pattern {_shown(pattern)} cannot be read: {error}; it is of RE2's syntax, without"
            " references back, lookahead and lookbehind"
        ) from None
    names = expression.group_names
    for reference in REFERENCE.finditer(replacement):
        if reference["name"] is not None and reference["name"] not in names:
            raise ConfigError(f"{MAPPING_RULES}: the pattern {_shown(pattern)} has no group {reference['name']}")
    return _Rule(expression, names, expression.group_count, replacement, letters)


def _shown(text: str) -> str:
    return repr(text if len(text) <= SHOWN_CHARS_MAX else text[:SHOWN_CHARS_MAX] + "...")
