"""A counting semaphore with callbacks, which limits the work in progress."""

from __future__ import annotations

from collections.abc import Callable, Hashable

__all__ = ["WaitingLine"]


class WaitingLine:
    """A first-in, first-out queue for a limited number of places.

    A token that leaves gives its place to the token that has waited longest. A token may also stop waiting by leaving.

    Args:
        places_max: tokens that may have a place at the same time.
    """

    def __init__(self, places_max: int) -> None:
        self._places_max = places_max
        self._places: set[Hashable] = set()
        self._waiting: dict[Hashable, Callable[[], None]] = {}

    def __len__(self) -> int:
        return len(self._places) + len(self._waiting)

    def __contains__(self, token: Hashable) -> bool:
        return token in self._places or token in self._waiting

    def enter(self, token: Hashable) -> bool:
        """Take a place unless the token has one. Return False if none is free; the token must then `wait`."""
        if token in self._places:
            return True
        if len(self._places) >= self._places_max:
            return False
        self._places.add(token)
        return True

    def wait(self, token: Hashable, resume: Callable[[], None]) -> None:
        """Queue the token; `resume` is called once, when the token gets a place."""
        self._waiting[token] = resume

    def leave(self, token: Hashable) -> None:
        """Give the place back, or stop waiting; do nothing for an unknown token."""
        self._waiting.pop(token, None)
        self._places.discard(token)
        if self._waiting and len(self._places) < self._places_max:
            first = next(iter(self._waiting))
            # The place is taken before `resume` runs, so that no other token can enter first.
            self._places.add(first)
            self._waiting.pop(first)()
