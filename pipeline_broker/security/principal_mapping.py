r"""`ssl.principal.mapping.rules`: the mapping from a certificate's distinguished name to a user name.

    rules = rule { "," rule }
    rule  = "DEFAULT" | "RULE:" pattern "/" replacement "/" [ "L" | "U" ]

The first rule with a pattern that matches the whole name decides. DEFAULT keeps the name. Without a match the client is
refused.

Clients choose the names, so RE2 matches the patterns, with one budget of work per name for all rules. The syntax is
Java's without backreferences (`\1`), lookahead, lookbehind and nested classes. Classes are ASCII, groups may be named
`(?<name>...)`, and the replacement uses `$1`. A `/` in either part is written `\/`. A pattern that RE2 cannot read, or
would interpret differently, is refused at startup.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import attrs

from pipeline_broker.base.patterns import MATCH_WORK_MAX, InvalidPatternError, Pattern, compiled_java
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
"""Mapping rules of a listener."""
# In one name. Java replaces each match, but a pattern that matches the whole name usually matches it once.
REPLACEMENTS_MAX = 10
# In one replacement. Each may stand for the whole name.
REFERENCES_MAX = 100
NAME_CHARS_MAX = 1_000
"""Characters of a user name that a rule makes from a certificate."""
# Of a rule, in an error.
SHOWN_CHARS_MAX = 100
REFERENCE = re.compile(
    r"\\(?P<literal>.)|\$(?P<number>[0-9]{1,3})|\$\{(?P<name>[A-Za-z][A-Za-z0-9]{0,50})\}", re.DOTALL
)
ALL = "DEFAULT"


@attrs.frozen
class _Rule:
    """One rule. A pattern of None is DEFAULT. In the replacement, numbers stand for groups."""

    pattern: Pattern | None
    replacement: tuple[str | int, ...] = ()
    letters: str = ""

    def apply(self, name: str) -> str | None:
        """Return the user name; None if the pattern does not match, or matches or yields too much."""
        if self.pattern is None:
            return name
        if not self.pattern.matches(name):
            return None
        mapped = self.pattern.replace(name, self._expand, REPLACEMENTS_MAX)
        if mapped is None or len(mapped) > NAME_CHARS_MAX:
            return None
        return {"L": mapped.lower, "U": mapped.upper}.get(self.letters, lambda: mapped)()

    def _expand(self, groups: Sequence[str | None]) -> str:
        return "".join(part if isinstance(part, str) else groups[part] or "" for part in self.replacement)


class PrincipalMapping:
    """The mapping rules of one listener.

    Args:
        text: the setting; empty for DEFAULT.

    Raises:
        ConfigError: a rule is malformed, or the setting has more than RULES_MAX rules.
    """

    def __init__(self, text: str) -> None:
        self._rules = _read(text.strip() or ALL)

    def principal(self, distinguished_name: str) -> KafkaPrincipal | None:
        """Return the principal of a distinguished name.

        Returns None if no rule applies or matching exceeds MATCH_WORK_MAX; the caller then closes the connection.
        """
        work_left = MATCH_WORK_MAX
        for rule in self._rules:
            if rule.pattern is not None:
                # Charged before matching, because the name comes from the client.
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
            _Rule(None) if match["default"] else _rule(match["pattern"], match["replacement"], match["letters"])
        )
        if len(rules) > RULES_MAX:
            raise ConfigError(f"{MAPPING_RULES}: more than {RULES_MAX} rules are not allowed")
    return rules


def _rule(pattern: str, replacement: str, letters: str) -> _Rule:
    try:
        expression = compiled_java(pattern)
    except InvalidPatternError as error:
        raise ConfigError(
            f"{MAPPING_RULES}: the pattern {_shown(pattern)} cannot be read: {error}. RE2 supports no"
            " backreferences, lookahead or lookbehind"
        ) from None
    return _Rule(expression, tuple(_parts(pattern, replacement, expression)), letters)


def _parts(pattern: str, replacement: str, expression: Pattern) -> Iterator[str | int]:
    """Yield the parts of a replacement: texts, and numbers of groups.

    Raises:
        ConfigError: the replacement refers to an unknown named group, or to groups more than REFERENCES_MAX times.
    """
    names, position = expression.group_names, 0
    for count, reference in enumerate(REFERENCE.finditer(replacement)):
        if count >= REFERENCES_MAX:
            raise ConfigError(
                f"{MAPPING_RULES}: {_shown(replacement)} refers to groups more than {REFERENCES_MAX} times"
            )
        yield replacement[position : reference.start()]
        position = reference.end()
        if reference["literal"] is not None:
            yield reference["literal"]
        elif reference["number"] is not None:
            yield from _numbered(reference["number"], expression.group_count)
        elif reference["name"] in names:
            yield names[reference["name"]]
        else:
            raise ConfigError(f"{MAPPING_RULES}: the pattern {_shown(pattern)} has no group {reference['name']}")
    yield replacement[position:]


def _numbered(digits: str, group_count: int) -> Iterator[str | int]:
    """Yield the parts of `$12`, as in Java: the existing group with the most digits, then the remaining digits."""
    for size in range(len(digits), 0, -1):
        if int(digits[:size]) <= group_count:
            yield int(digits[:size])
            yield digits[size:]
            return
    yield f"${digits}"


def _shown(text: str) -> str:
    return repr(text if len(text) <= SHOWN_CHARS_MAX else text[:SHOWN_CHARS_MAX] + "...")
