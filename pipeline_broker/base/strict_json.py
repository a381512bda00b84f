"""Strict JSON (RFC 8259) for data of clients that the broker stores and writes again.

Python's reader accepts NaN, Infinity, 1e999 and half a surrogate pair. Stored, these would make responses to other
clients invalid. It also accepts values so deeply nested that the writer fails.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any, NoReturn

__all__ = ["NESTING_MAX", "InvalidJsonError", "RawJson", "dump", "dump_object", "load", "nesting"]

NESTING_MAX = 200
REASON_CHARACTERS_MAX = 200
_NOT_BRACKETS = bytes(byte for byte in range(256) if byte not in b"[]{}")


class InvalidJsonError(ValueError):
    pass


class RawJson(str):
    __slots__ = ()


def load(data: bytes | str) -> Any:
    """Decode JSON.

    Raises:
        InvalidJsonError: the data is not strict JSON, or `dump` could not write it.
    """
    try:
        # `nesting` finds quotes and brackets by their bytes, which are others in UTF-16.
        text = data if isinstance(data, str) else data.decode(json.detect_encoding(data))
        content = json.loads(text, parse_constant=_refuse, parse_float=_finite)
        dump(content).encode()  # fails for half a surrogate pair
    except ValueError as error:
        raise InvalidJsonError(str(error)[:REASON_CHARACTERS_MAX]) from None
    except RecursionError:
        raise _too_deep() from None
    if nesting(text) > NESTING_MAX:
        raise _too_deep()
    return content


def dump(content: Any, *, is_sorted: bool = False) -> str:
    """Encode JSON without spaces; `is_sorted` sorts the names of objects.

    Raises:
        ValueError: the content contains NaN or an infinite number.
    """
    return json.dumps(content, separators=(",", ":"), ensure_ascii=False, allow_nan=False, sort_keys=is_sorted)


def dump_object(fields: Mapping[str, Any]) -> str:
    """Encode an object, in which values may be RawJson."""
    return "{" + ",".join(f"{dump(name)}:{_value(value)}" for name, value in fields.items()) + "}"


def nesting(text: str) -> int:
    """Return the nesting depth of JSON without parsing it; of other text, any number."""
    raw = text.encode(errors="replace")
    # Valid JSON has backslashes in strings only. Without escapes, every second piece between quotes is a string, whose
    # brackets must not count: closing ones would hide the depth of what follows.
    outside = b"".join(raw.replace(b"\\\\", b"").replace(b'\\"', b"").split(b'"')[::2])
    depth = deepest = 0
    for byte in outside.translate(None, _NOT_BRACKETS):
        if byte in b"[{":
            depth += 1
            deepest = max(deepest, depth)
        else:
            depth -= 1
    return deepest


def _too_deep() -> InvalidJsonError:
    return InvalidJsonError(f"it is nested deeper than {NESTING_MAX}")


def _refuse(constant: str) -> NoReturn:
    raise InvalidJsonError(f"{constant} is not JSON")


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise InvalidJsonError("a number is too large")
    return number


def _value(value: Any) -> str:
    return value if isinstance(value, RawJson) else dump(value)
