"""What was asked for is looked up in an answer by its name, or the answer is refused.

Rules of this file: an answer that leaves out what was asked for, or has it twice, does not say what was done: that is
never taken for success. What was not asked for is ignored.
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
    """The element of an answer for each key that was asked for, in the order of asking.

    Args:
        wanted: what was asked for.
        found: what was answered, each with what it is about.
        words: a key as a person calls it.

    Raises:
        ClientError: one of them is not answered, or twice.
    """
    answered: dict[Key, Element | None] = dict.fromkeys(wanted)
    seen: dict[Key, Element] = {}
    for key, element in found:
        if key not in answered:
            continue
        if key in seen:
            raise ClientError(f"the broker answered twice for {words(key)}")
        seen[key] = element
    for key in answered:
        if key not in seen:
            raise ClientError(f"the broker left out {words(key)} of its answer")
    return {key: seen[key] for key in answered}


def answer_to(wanted: Key, found: Iterable[tuple[Key, Element]], what: str) -> Element:
    """The one element of an answer that was asked for; `what` is its name in words. Raises ClientError as above."""
    return answers_to([wanted], found, lambda _: what)[wanted]
