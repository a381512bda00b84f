"""What a page sends when it wants something changed: the fields of a JSON object, each of its type.

Rules of this file: no Trio; whatever a page sends is a value or a WishError.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["NUMBER_MAX", "WishError", "number", "optional_number", "optional_text", "text", "texts"]

NUMBER_MAX = 2**63 - 1


class WishError(Exception):
    """What a page sent is no wish that can be fulfilled; the text is one line that says why."""


def text(body: Mapping[str, Any], name: str) -> str:
    """A text that must be there."""
    found = body.get(name)
    if not isinstance(found, str) or not found:
        raise WishError(f"it names no {name}")
    return found


def optional_text(body: Mapping[str, Any], name: str) -> str | None:
    """A text, or None."""
    found = body.get(name)
    if found is not None and not isinstance(found, str):
        raise WishError(f"{name} is no text")
    return found


def optional_number(body: Mapping[str, Any], name: str, lowest: int = 0, highest: int = NUMBER_MAX) -> int | None:
    """A whole number, or None."""
    found = body.get(name)
    if found is not None and (type(found) is not int or not lowest <= found <= highest):
        raise WishError(f"{name} is a whole number from {lowest} on")
    return found


def number(body: Mapping[str, Any], name: str, lowest: int = 0, highest: int = NUMBER_MAX) -> int:
    """A whole number that must be there."""
    found = optional_number(body, name, lowest, highest)
    if found is None:
        raise WishError(f"it names no {name}")
    return found


def texts(body: Mapping[str, Any], name: str) -> dict[str, str]:
    """Names with a text each; nothing where it is not there."""
    found = body.get(name, {})
    if not isinstance(found, dict) or not all(isinstance(value, str) for value in found.values()):
        raise WishError(f"{name} are names with texts")
    return found
