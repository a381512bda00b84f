"""Regular expressions of clients and users, matched by RE2 in time linear in the text.

Expressions of clients, and expressions that match texts of clients, never reach an engine that backtracks. Reading and
matching run on the event loop and hold the GIL. Their cost is therefore bounded beforehand: of an expression by its
classes, repeats, memory and program, of a match by program and text.

Kafka reads the expressions of groups with RE2/J, which has the same syntax. It reads other expressions with
`java.util.regex`; `compiled_java` rejects expressions that RE2 would interpret differently.
"""

from __future__ import annotations

import functools
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import attrs
import re2

__all__ = [
    "LENGTH_MAX",
    "MATCH_WORK_MAX",
    "MEMORY_BYTES_MAX",
    "InvalidPatternError",
    "Pattern",
    "compiled",
    "compiled_java",
]

MEMORY_BYTES_MAX = 1 << 18
"""Memory of one regular expression, including the caches of its matches."""
# Memory of all cached expressions, each counted as MEMORY_BYTES_MAX.
REMEMBERED_BYTES_MAX = 32 << 20
"""Memory of all compiled regular expressions."""
LENGTH_MAX = 4_096
"""Characters of a regular expression; reading takes 1.5 microseconds each. A longer one is
INVALID_REGULAR_EXPRESSION."""
# Microseconds to read one Unicode class (`\pL`) and one repeat (`{1000}`).
CLASS_COST = 200
REPEAT_COST = 60
# Per expression, about microseconds. Without this limit, 1,300 times `\pL` blocked the event loop for 0.2 s.
READING_COST_MAX = 4_000
"""Cost of reading a regular expression, about microseconds: 20 Unicode classes or 66 repeats."""
# Instructions; `\pL` has 1,200. RE2 may visit each of them for each character, 11 nanoseconds each: eight times
# `(?:a?){1000}` took 43 ms for one topic name.
PROGRAM_SIZE_MAX = 2_000
"""Instructions of a regular expression; one with more is INVALID_REGULAR_EXPRESSION."""
MATCH_WORK_MAX = 500_000
"""Instructions times bytes of one match, 5 ms at worst; a text beyond it does not match."""
# The largest program must be able to match the longest topic name, which has 249 characters.
assert PROGRAM_SIZE_MAX * 249 <= MATCH_WORK_MAX
# Time to match many names: a fixed part, and one for each name, four times the usual time of a match.
MATCHING_SECONDS = 0.02
NAME_SECONDS = 50e-6


# An escape, the beginning of a class, an intersection, the beginning of a group with flags, or one character.
PART_OF_JAVA = re.compile(r"\\.|\[\^?\]?|&&|\(\?[A-Za-z-]*|.", re.DOTALL)
# Letters that mean the same after a backslash in RE2 and in Java.
ESCAPES_OF_BOTH = frozenset("AbBdDsSwWzpPQEtnrfax")


class InvalidPatternError(ValueError):
    """The expression is not in RE2's syntax, too large or too slow; the message names the reason."""


@attrs.frozen
class Pattern:
    """A compiled expression.

    Attributes:
        size: number of instructions of its program.
    """

    _expression: re2._Regexp
    size: int

    def matches(self, text: str) -> bool:
        """Return whether the whole text matches; a text that is too long for the expression does not match."""
        # The package counts the characters of a str, which takes more than half of the time. Bytes avoid that.
        data = text.encode(errors="replace")
        return self.size * len(data) <= MATCH_WORK_MAX and self._expression.fullmatch(data) is not None

    def matching(self, names: Iterable[str]) -> list[str]:
        """Return the names that match.

        Raises:
            InvalidPatternError: matching takes much longer than usual.
        """
        found = []
        # CPU time of the thread, so that a busy machine does not reject expressions.
        end = time.thread_time() + MATCHING_SECONDS
        for name in names:
            if self.matches(name):
                found.append(name)
            end += NAME_SECONDS
            if time.thread_time() > end:
                raise InvalidPatternError("it takes too long to match")
        return found

    def work(self, text: str) -> int:
        return self.size * len(text.encode(errors="replace"))

    @property
    def group_count(self) -> int:
        count: int = self._expression.groups
        return count

    @property
    def group_names(self) -> Mapping[str, int]:
        names: Mapping[str, int] = self._expression.groupindex
        return names

    def replace(
        self, text: str, replacement: Callable[[Sequence[str | None]], str], replacements_max: int
    ) -> str | None:
        """Replace each match in a text, like Java's `replaceAll`.

        Args:
            replacement: returns the replacement of a match; receives its groups, the whole match first.
            replacements_max: maximum number of replacements.

        Returns:
            the text with all matches replaced; None if more than `replacements_max` match.
        """
        pieces: list[str] = []
        position = 0
        for count, match in enumerate(self._expression.finditer(text)):
            if count >= replacements_max:
                return None
            pieces += text[position : match.start()], replacement((match[0], *match.groups()))
            position = match.end()
        return "".join(pieces) + text[position:]


@functools.lru_cache(maxsize=REMEMBERED_BYTES_MAX // MEMORY_BYTES_MAX)
def compiled(text: str) -> Pattern:
    """Compile an expression.

    Raises:
        InvalidPatternError: the expression is not in RE2's syntax, or too large.
    """
    if len(text) > LENGTH_MAX:
        raise InvalidPatternError(f"it is longer than {LENGTH_MAX} characters")
    classes, repeats = text.count("\\p") + text.count("\\P"), text.count("{")
    if CLASS_COST * classes + REPEAT_COST * repeats > READING_COST_MAX:
        raise InvalidPatternError(
            f"it is too expensive with {classes} Unicode classes and {repeats} repeats; allowed are at most"
            f" {READING_COST_MAX // CLASS_COST} classes without repeats, or {READING_COST_MAX // REPEAT_COST} repeats"
            " without classes"
        )
    options = re2.Options()
    options.log_errors = False
    options.max_mem = MEMORY_BYTES_MAX
    try:
        expression = re2.compile(text, options)
    except re2.error as error:
        (reason,) = error.args
        raise InvalidPatternError(reason.decode(errors="replace") if isinstance(reason, bytes) else reason) from None
    except UnicodeEncodeError:
        raise InvalidPatternError("it is not valid Unicode") from None
    size = expression.programsize
    if size > PROGRAM_SIZE_MAX:
        raise InvalidPatternError(
            f"it compiles to {size} instructions, and at most {PROGRAM_SIZE_MAX} are allowed; simplify it"
        )
    return Pattern(expression, size)


def compiled_java(text: str) -> Pattern:
    """Compile an expression of `java.util.regex`.

    Raises:
        InvalidPatternError: RE2 cannot read it, or interprets it differently.
    """
    if len(text) <= LENGTH_MAX:
        _check_java(text)
    return compiled(text)


def _check_java(text: str) -> None:
    """Raise InvalidPatternError for syntax that RE2 accepts with another meaning."""
    is_in_class = False
    for part in _parts_of_java(text):
        if part[0] == "\\":
            if part[1:2].isalnum() and part[1:2] not in ESCAPES_OF_BOTH:
                raise InvalidPatternError(
                    f"RE2 does not support Java's {part}; write a character by its code, such as \\x{{41}} for A"
                )
        elif is_in_class and (part[0] == "[" or part == "&&"):
            raise InvalidPatternError(
                "RE2 supports neither nested classes nor &&; write one class, such as [a-z0-9] for [a-z[0-9]],"
                " or \\[ and \\& for the characters"
            )
        elif part[0] == "[":
            is_in_class = True
        elif part == "]":
            is_in_class = False
        elif not is_in_class and part.startswith("(?") and "U" in part.partition("-")[0]:
            raise InvalidPatternError("the flag U of Java has another meaning in RE2; write \\pL for letters")


def _parts_of_java(text: str) -> Iterator[str]:
    position = 0
    while (match := PART_OF_JAVA.match(text, position)) is not None:
        position = match.end()
        if match[0] == "\\Q":
            end = text.find("\\E", position)
            position = len(text) if end < 0 else end + 2
        yield match[0]
