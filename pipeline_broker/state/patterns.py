"""Regular expressions that clients send, matched by RE2 in time that is linear in the text.

Rules of this file: expressions come from strangers, so they are never given to an engine that backtracks, and one may
take so much memory and no more. Apache Kafka reads them with RE2/J, whose syntax this is.
"""

from __future__ import annotations

import functools

import attrs
import re2

__all__ = ["LENGTH_MAX", "MEMORY_BYTES_MAX", "InvalidPatternError", "Pattern", "compiled"]

MEMORY_BYTES_MAX = 1 << 20
"""Of one expression and what matching it remembers."""
LENGTH_MAX = 4_096
"""Characters of one expression. Reading it takes longer the longer it is, 0.02 ms a character where classes of Unicode
are in it, and one thread does it between requests: 300,000 characters held a broker for three seconds."""
PATTERNS_REMEMBERED = 256


class InvalidPatternError(ValueError):
    """The expression is not of RE2's syntax, or too large; the message says which."""


@attrs.frozen
class Pattern:
    """An expression that was read."""

    _expression: re2._Regexp

    def matches(self, text: str) -> bool:
        """Whether all of a text matches."""
        # Of bytes the package counts no characters, which takes it more than half of the time.
        return self._expression.fullmatch(text.encode()) is not None


@functools.lru_cache(maxsize=PATTERNS_REMEMBERED)
def compiled(text: str) -> Pattern:
    """Read an expression.

    Raises:
        InvalidPatternError: it is not of RE2's syntax, or too large.
    """
    if len(text) > LENGTH_MAX:
        raise InvalidPatternError(f"it is longer than {LENGTH_MAX} characters")
    options = re2.Options()
    options.log_errors = False
    options.max_mem = MEMORY_BYTES_MAX
    try:
        return Pattern(re2.compile(text, options))
    except re2.error as error:
        (reason,) = error.args
        raise InvalidPatternError(reason.decode(errors="replace") if isinstance(reason, bytes) else reason) from None
    except UnicodeEncodeError:
        raise InvalidPatternError("not a text") from None
