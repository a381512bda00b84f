"""Which error codes a response carries: each `error_code` of it, wherever it stands.

Rules of this file: it reads the declarations of messages, so a new API needs nothing here. Kafka counts the codes of a
response in the same places (`AbstractResponse.errorCounts`): the one of the whole and those of its parts, NONE too.
"""

from __future__ import annotations

from collections import Counter
from functools import cache
from typing import Any, NamedTuple

from pipeline_broker.wire.error import ErrorCode
from pipeline_broker.wire.schema import fields_of, resolve

__all__ = ["count_errors", "error_name", "errors_of"]

ERROR_CODE = "error_code"
ELEMENTS_MAX = 5_000
"""Of one response, 0.7 microseconds each: one with 200,000 partitions would block the event loop for 140 ms."""


class _Places(NamedTuple):
    """Where codes stand in one struct: in itself, and in which of its fields with their places."""

    has_code: bool
    inner: tuple[tuple[str, bool, _Places], ...]


@cache
def _places(message: type, struct: type) -> _Places:
    has_code = False
    inner = []
    for field in fields_of(struct):
        below = resolve(message, field.type)
        if field.name == ERROR_CODE:
            has_code = True
        elif below is not None:
            places = _places(message, below)
            if places.has_code or places.inner:
                inner.append((field.name, field.is_array, places))
    return _Places(has_code, tuple(inner))


def _count(struct: Any, places: _Places, codes: Counter[int], left: list[int]) -> None:
    if places.has_code:
        codes[struct.error_code] += 1
    for name, is_array, below in places.inner:
        value = getattr(struct, name)
        if value is None:
            continue
        if is_array:
            shown = value if len(value) <= left[0] else value[: left[0]]
            left[0] -= len(shown)
            for element in shown:
                _count(element, below, codes, left)
        else:
            _count(value, below, codes, left)


def count_errors(message: Any, codes: Counter[int]) -> None:
    """Add the codes of a response message to `codes`, of its first ELEMENTS_MAX elements."""
    kind: Any = type(message)
    _count(message, _places(kind, kind), codes, [ELEMENTS_MAX])


def errors_of(answer: Any) -> tuple[int, ...]:
    """The codes of a response message that are errors, each once; none where there is no message."""
    if answer is None:
        return ()
    codes: Counter[int] = Counter()
    count_errors(answer, codes)
    return tuple(code for code in codes if code)


def error_name(code: int) -> str:
    """Kafka's name of a code; the number of one that is not known."""
    try:
        return ErrorCode(code).name
    except ValueError:
        return str(code)
