"""Regular expressions that come from outside, matched by RE2 in time that is linear in the text.

Rules of this file: expressions of clients, and those that meet texts of clients, never reach an engine that backtracks.
RE2 reads and matches on the event loop and holds Python's lock, so the cost of both is bounded before it is paid:
an expression by its classes, repeats, memory and program, a match by program and text. Apache Kafka reads the
expressions of groups with RE2/J, which has this syntax. It reads others with `java.util.regex`: `compiled_java` refuses
those that RE2 would read as something else.
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
"""Of one expression and what matching it remembers."""
REMEMBERED_BYTES_MAX = 32 << 20
"""Of all remembered expressions, each counted as MEMORY_BYTES_MAX."""
LENGTH_MAX = 4_096
"""Characters of one expression: 1.5 microseconds each are spent on reading it."""
CLASS_COST = 200
REPEAT_COST = 60
"""Microseconds that it takes to read one class of Unicode (`\\pL`), and to repeat something 1,000 times (`{1000}`)."""
READING_COST_MAX = 4_000
"""Of one expression, about microseconds: 1,300 times `\\pL` held a broker for 0.2 s."""
PROGRAM_SIZE_MAX = 2_000
"""Instructions; `\\pL` has 1,200. RE2 may look at each of them for each character, 11 nanoseconds: eight times
`(?:a?){1000}` took 43 ms for the name of one topic."""
MATCH_WORK_MAX = 500_000
"""Instructions times characters of one match, 5 ms at worst: the longest name of a topic has 249 characters."""
MATCHING_SECONDS = 0.02
NAME_SECONDS = 50e-6
"""The time for many names, and more for each of them: four times what an expression usually takes."""


PART_OF_JAVA = re.compile(r"\\.|\[\^?\]?|&&|\(\?[A-Za-z-]*|.", re.DOTALL)
"""An escape, what begins a class, an intersection, what begins a group with flags, or a character."""
ESCAPES_OF_BOTH = frozenset("AbBdDsSwWzpPQEtnrfax")
"""Letters and digits that mean the same after a backslash in RE2 and in Java."""


class InvalidPatternError(ValueError):
    """The expression is not of RE2's syntax, too large or too slow; the message says which."""


@attrs.frozen
class Pattern:
    """An expression that was read.

    Attributes:
        size: instructions of its program.
    """

    _expression: re2._Regexp
    size: int

    def matches(self, text: str) -> bool:
        """Return whether all of a text matches; one that is too long for the expression does not."""
        # Of bytes the package counts no characters, which takes it more than half of the time.
        data = text.encode(errors="replace")
        return self.size * len(data) <= MATCH_WORK_MAX and self._expression.fullmatch(data) is not None

    def matching(self, names: Iterable[str]) -> list[str]:
        """Return the names that match.

        Raises:
            InvalidPatternError: matching takes much longer than it usually does.
        """
        found = []
        end = time.thread_time() + MATCHING_SECONDS
        for name in names:
            if self.matches(name):
                found.append(name)
            end += NAME_SECONDS
            if time.thread_time() > end:
                raise InvalidPatternError("it takes too long to match")
        return found

    def work(self, text: str) -> int:
        """Return what matching a text may take, as MATCH_WORK_MAX counts it."""
        return self.size * len(text.encode(errors="replace"))

    @property
    def group_count(self) -> int:
        """The number of its capturing groups."""
        count: int = self._expression.groups
        return count

    @property
    def group_names(self) -> Mapping[str, int]:
        """The numbers of its named groups."""
        names: Mapping[str, int] = self._expression.groupindex
        return names

    def replace(
        self, text: str, replacement: Callable[[Sequence[str | None]], str], replacements_max: int
    ) -> str | None:
        """Replace each match in a text, as Java's `replaceAll`.

        Args:
            replacement: makes the new text of one match from its groups, the whole match first.
            replacements_max: matches that may be replaced.

        Returns:
            None where more would have to be.
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
    """Read an expression.

    Raises:
        InvalidPatternError: it is not of RE2's syntax, or too large.
    """
    if len(text) > LENGTH_MAX:
        raise InvalidPatternError(f"it is longer than {LENGTH_MAX} characters")
    classes, repeats = text.count("\\p") + text.count("\\P"), text.count("{")
    if CLASS_COST * classes + REPEAT_COST * repeats > READING_COST_MAX:
        raise InvalidPatternError(
            f"it has {classes} classes of Unicode and {repeats} repeats: "
            f"{READING_COST_MAX // CLASS_COST} of these or {READING_COST_MAX // REPEAT_COST} of those are allowed"
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
        raise InvalidPatternError("not a text") from None
    size = expression.programsize
    if size > PROGRAM_SIZE_MAX:
        raise InvalidPatternError(f"its program has {size} instructions, and {PROGRAM_SIZE_MAX} are allowed")
    return Pattern(expression, size)


def compiled_java(text: str) -> Pattern:
    """Read an expression of `java.util.regex`.

    Raises:
        InvalidPatternError: RE2 cannot read it, or reads it as something else.
    """
    if len(text) <= LENGTH_MAX:
        _check_java(text)
    return compiled(text)


def _check_java(text: str) -> None:
    """Refuse what RE2 would not refuse, and would match differently."""
    is_in_class = False
    for part in _parts_of_java(text):
        if part[0] == "\\":
            if part[1:2].isalnum() and part[1:2] not in ESCAPES_OF_BOTH:
                raise InvalidPatternError(f"RE2 has no {part} of Java; write \\x{{41}} for a character")
        elif is_in_class and (part[0] == "[" or part == "&&"):
            raise InvalidPatternError(
                "RE2 has no classes within classes and no &&; write one class, such as [a-z0-9] for [a-z[0-9]],"
                " or \\[ and \\& for the characters"
            )
        elif part[0] == "[":
            is_in_class = True
        elif part == "]":
            is_in_class = False
        elif not is_in_class and part.startswith("(?") and "U" in part.partition("-")[0]:
            raise InvalidPatternError("the flag U of Java is another one in RE2; write \\pL for letters")


def _parts_of_java(text: str) -> Iterator[str]:
    """Yield the parts of an expression, without the texts that it quotes."""
    position = 0
    while (match := PART_OF_JAVA.match(text, position)) is not None:
        position = match.end()
        if match[0] == "\\Q":
            end = text.find("\\E", position)
            position = len(text) if end < 0 else end + 2
        yield match[0]
