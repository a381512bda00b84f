"""Matching of the elements of a response with the keys of its request.

A response that omits a requested key, or has it twice, is an error: the outcome of the request is unknown. Elements
with other keys are ignored.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

from pipeline_broker.client.errors import ClientError

__all__ = ["answer_to", "answers_to"]

Key = TypeVar("Key")
Element = TypeVar("Element")


def answers_to(
    wanted: Iterable[Key], found: Iterable[tuple[Key, Element]], words: Callable[[Key], str]
) -> dict[Key, Element]:
    """Return the element of each requested key, in the order of the request.

    Args:
        wanted: the keys of the request.
        found: the elements of the response with their keys.
        words: returns the name of a key for messages.

    Raises:
        ClientError: the response omits a key, or has it twice.
    """
    answered: dict[Key, Element | None] = dict.fromkeys(wanted)
    seen: dict[Key, Element] = {}
    for key, element in found:
        if key not in answered:
            continue
        if key in seen:
            raise ClientError(f"the broker answered twice for {words(key)}; the outcome is unknown")
        seen[key] = element
    for key in answered:
        if key not in seen:
            raise ClientError(f"the broker's answer omits {words(key)}; the outcome is unknown")
    return {key: seen[key] for key in answered}


def answer_to(wanted: Key, found: Iterable[tuple[Key, Element]], what: str) -> Element:
    """Return the element of the only requested key, like `answers_to`. `what` is its name in messages."""
    return answers_to([wanted], found, lambda _: what)[wanted]
