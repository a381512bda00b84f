"""Work in small steps, between which the event loop serves other clients.

`web/turns.py` runs the steps. All edges of an event loop share its turns.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Generator, Iterable
from typing import Any, TypeAlias, TypeVar

__all__ = ["THINGS_PER_STEP", "Steps", "anything", "finished", "first_few", "selected"]

Result = TypeVar("Result")
Item = TypeVar("Item")

Steps: TypeAlias = Generator[None, None, Result]
"""Work that yields between two steps and returns a result. A step takes at most 1 ms. The state that the work reads may
change at each yield."""

THINGS_PER_STEP = 256
"""Items of a step if each takes a few microseconds."""
CHECKS_PER_STEP = 32


def finished(steps: Steps[Result]) -> Result:
    """Run all steps without a pause and return the result; for callers that no client waits for."""
    while True:
        try:
            next(steps)
        except StopIteration as ended:
            result: Result = ended.value
            return result


def anything(item: object) -> bool:
    del item
    return True


def selected(items: Iterable[Item], is_wanted: Callable[[Item], bool]) -> Steps[list[Item]]:
    """Return the items for which a check, such as one of rights, returns True. As for `first_few`."""
    found = []
    for index, item in enumerate(items):
        if index % CHECKS_PER_STEP == CHECKS_PER_STEP - 1:
            yield
        if is_wanted(item):
            found.append(item)
    return found


def first_few(items: Iterable[Item], count_max: int, key: Callable[[Item], Any]) -> Steps[list[Item]]:
    """Return the `count_max` items with the smallest keys, in order, like `heapq.nsmallest`.

    Args:
        items: an iterable that does not change between the steps, such as a copy or a generator.
    """
    # Sorting all items would take one long step.
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
