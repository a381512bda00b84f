"""Work in small steps: how much there is of it, clients decide, and others have their turns in between.

Rules of this file: it runs nothing by itself; `web/turns.py` does, in the turn that all edges of an event loop share.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Generator, Iterable
from typing import Any, TypeAlias, TypeVar

__all__ = ["THINGS_PER_STEP", "Steps", "finished", "first_few"]

Result = TypeVar("Result")
Item = TypeVar("Item")

Steps: TypeAlias = Generator[None, None, Result]
"""Work that yields between two steps and returns a result. One step takes at most 1 ms. At a yield the state that the
work reads may change; the work must expect that."""

THINGS_PER_STEP = 256
"""Of which one takes some microseconds."""


def finished(steps: Steps[Result]) -> Result:
    """Run all steps at once, where no client waits, and return their result."""
    while True:
        try:
            next(steps)
        except StopIteration as ended:
            result: Result = ended.value
            return result


def first_few(items: Iterable[Item], count_max: int, key: Callable[[Item], Any]) -> Steps[list[Item]]:
    """The `count_max` items with the smallest keys, in order; to sort all of very many would be one long step.

    Args:
        items: a container that does not change meanwhile, such as a copy, or what makes them one by one.
        count_max: of those that are returned.
        key: returns the sort key.
    """
    found: list[Item] = []
    for index, item in enumerate(items):
        if index % THINGS_PER_STEP == THINGS_PER_STEP - 1:
            yield
        if len(found) < count_max:
            insort(found, item, key=key)
        elif key(item) < key(found[-1]):
            found.pop()
            insort(found, item, key=key)
    return found
