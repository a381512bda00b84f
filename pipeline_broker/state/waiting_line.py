"""A line for work of which only so much may be going on at a time.

Rules of this file: first come, first served; who leaves gives the place to the first that waits; who gives up waiting
leaves, too.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable

__all__ = ["WaitingLine"]


class WaitingLine:
    """See the rules of the file.

    Args:
        places_max: how many have a place at a time.
    """

    def __init__(self, places_max: int) -> None:
        self._places_max = places_max
        self._places: set[Hashable] = set()
        self._waiting: dict[Hashable, Callable[[], None]] = {}

    def __len__(self) -> int:
        """How many have a place or wait for one."""
        return len(self._places) + len(self._waiting)

    def __contains__(self, token: Hashable) -> bool:
        """Whether it has a place, or waits for one."""
        return token in self._places or token in self._waiting

    def enter(self, token: Hashable) -> bool:
        """Take a place, if the token has none; False when there is none, so that it must `wait`."""
        if token in self._places:
            return True
        if len(self._places) >= self._places_max:
            return False
        self._places.add(token)
        return True

    def wait(self, token: Hashable, resume: Callable[[], None]) -> None:
        """Stand in line; `resume` is called once, when the token has a place."""
        self._waiting[token] = resume

    def leave(self, token: Hashable) -> None:
        """Give the place back, or wait no longer; for a token that did neither this has no effect."""
        self._waiting.pop(token, None)
        self._places.discard(token)
        if self._waiting and len(self._places) < self._places_max:
            first = next(iter(self._waiting))
            self._places.add(first)
            self._waiting.pop(first)()
