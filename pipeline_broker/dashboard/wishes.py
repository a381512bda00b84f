"""Typed access to the JSON fields of a change.

All functions raise RequestError if a field is missing or has another type.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

__all__ = [
    "NUMBER_MAX",
    "RequestError",
    "amount",
    "choice",
    "number",
    "optional_number",
    "optional_text",
    "pairs",
    "text",
    "texts",
]

NUMBER_MAX = 2**63 - 1


class RequestError(Exception):
    """A change that cannot be carried out; the text is one line."""


def text(body: Mapping[str, Any], name: str) -> str:
    found = body.get(name)
    if not isinstance(found, str) or not found:
        raise RequestError(f"{name} must be a non-empty text")
    return _unicode(found, name)


def choice(body: Mapping[str, Any], name: str, choices: Collection[str]) -> str:
    found = text(body, name)
    if found not in choices:
        raise RequestError(f"{name} must be one of {', '.join(choices)}")
    return found


def optional_text(body: Mapping[str, Any], name: str) -> str | None:
    found = body.get(name)
    if found is not None and not isinstance(found, str):
        raise RequestError(f"{name} must be a text")
    return None if found is None else _unicode(found, name)


def optional_number(body: Mapping[str, Any], name: str, lowest: int = 0, highest: int = NUMBER_MAX) -> int | None:
    """Return an integer from `lowest` to `highest`, or None if the field is missing."""
    found = body.get(name)
    if found is not None and (type(found) is not int or not lowest <= found <= highest):
        raise RequestError(f"{name} must be a whole number from {lowest} to {highest}")
    return found


def number(body: Mapping[str, Any], name: str, lowest: int = 0, highest: int = NUMBER_MAX) -> int:
    found = optional_number(body, name, lowest, highest)
    if found is None:
        raise RequestError(f"{name} is missing; give a whole number")
    return found


def amount(body: Mapping[str, Any], name: str) -> float | None:
    found = body.get(name)
    if found is not None and type(found) not in (int, float):
        raise RequestError(f"{name} must be a number")
    try:
        return None if found is None else float(found)
    except OverflowError:
        raise RequestError(f"{name} is too large") from None


def texts(body: Mapping[str, Any], name: str) -> dict[str, str]:
    found = body.get(name, {})
    if not isinstance(found, dict) or not all(isinstance(value, str) for value in found.values()):
        raise RequestError(f"{name} must be an object with texts as values")
    return {_unicode(key, name): _unicode(value, name) for key, value in found.items()}


def pairs(body: Mapping[str, Any], name: str) -> list[tuple[str, str]]:
    """Return pairs of texts, whose first texts may repeat, such as names of headers."""
    found = body.get(name, [])
    if not isinstance(found, list) or not all(_is_pair(each) for each in found):
        raise RequestError(f"{name} must be a list of pairs of texts")
    return [(_unicode(first, name), _unicode(second, name)) for first, second in found]


def _is_pair(found: Any) -> bool:
    return isinstance(found, list) and len(found) == 2 and all(isinstance(each, str) for each in found)


def _unicode(found: str, name: str) -> str:
    try:
        found.encode()
    except UnicodeEncodeError:  # JSON can contain half of a surrogate pair, which no record can
        raise RequestError(f"{name} must be valid Unicode text") from None
    return found
