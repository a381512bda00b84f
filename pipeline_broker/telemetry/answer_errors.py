"""Error codes of a response, and of its topics, partitions and other parts.

The declarations of messages say where an `error_code` is, so a new API needs no code here. Kafka counts the same codes,
including NONE (`AbstractResponse.errorCounts`).
"""

from __future__ import annotations

from collections import Counter
from functools import cache
from typing import Any, NamedTuple

from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.wire.schema import fields_of, resolve

__all__ = ["count_errors", "error_name", "errors_of"]

ERROR_CODE = "error_code"
ELEMENTS_MAX = 5_000
"""Elements counted in one response. Each takes 0.7 us: 200,000 partitions would block the event loop for 140 ms."""


class _ErrorFields(NamedTuple):
    """The error code of a struct, and the fields that contain structs with error codes.

    `inner` has the name of each such field, whether it is an array, and the fields of its structs.
    """

    has_code: bool
    inner: tuple[tuple[str, bool, _ErrorFields], ...]


@cache
def _error_fields(message: type, struct: type) -> _ErrorFields:
    has_code = False
    inner = []
    for field in fields_of(struct):
        below = resolve(message, field.type)
        if field.name == ERROR_CODE:
            has_code = True
        elif below is not None:
            nested = _error_fields(message, below)
            if nested.has_code or nested.inner:
                inner.append((field.name, field.is_array, nested))
    return _ErrorFields(has_code, tuple(inner))


def _count(struct: Any, fields: _ErrorFields, codes: Counter[int], left: list[int]) -> None:
    if fields.has_code:
        codes[struct.error_code] += 1
    for name, is_array, below in fields.inner:
        value = getattr(struct, name)
        if value is None:
            continue
        if is_array:
            # `left` is a list of one number, because all levels of the recursion share it.
            shown = value if len(value) <= left[0] else value[: left[0]]
            left[0] -= len(shown)
            for element in shown:
                _count(element, below, codes, left)
        else:
            _count(value, below, codes, left)


def count_errors(message: Any, codes: Counter[int]) -> None:
    """Add the error codes of the first ELEMENTS_MAX elements of a response to `codes`."""
    kind: Any = type(message)
    _count(message, _error_fields(kind, kind), codes, [ELEMENTS_MAX])


def errors_of(answer: Any) -> tuple[int, ...]:
    """Return the distinct error codes of a response message other than NONE; empty if `answer` is None."""
    if answer is None:
        return ()
    codes: Counter[int] = Counter()
    count_errors(answer, codes)
    return tuple(code for code in codes if code)


def error_name(code: int) -> str:
    """Return Kafka's name of an error code, or the number of an unknown one."""
    try:
        return ErrorCode(code).name
    except ValueError:
        return str(code)
