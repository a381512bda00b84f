"""Many deadlines, of which most are moved before they are due.

A heartbeat moves a deadline; the heap is told only when the old place comes up. So moving costs a dictionary write.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Iterator
from typing import Generic, TypeVar

__all__ = ["Deadlines"]

Key = TypeVar("Key")


class Deadlines(Generic[Key]):
    """At most one deadline per key."""

    def __init__(self) -> None:
        self._due_ms: dict[Key, int] = {}
        self._queued_ms: dict[Key, int] = {}
        self._heap: list[tuple[int, int, Key]] = []
        self._order = itertools.count()

    def __len__(self) -> int:
        return len(self._due_ms)

    def __contains__(self, key: Key) -> bool:
        return key in self._due_ms

    def set(self, key: Key, due_ms: int) -> None:
        """Give `key` the deadline `due_ms` instead of any it had."""
        self._due_ms[key] = due_ms
        queued_ms = self._queued_ms.get(key)
        if queued_ms is None or due_ms < queued_ms:
            self._push(key, due_ms)

    def cancel(self, key: Key) -> None:
        """Forget the deadline of `key`, if it has one."""
        self._due_ms.pop(key, None)

    def next_ms(self) -> int | None:
        """The earliest deadline; None when there is none."""
        self._settle()
        return self._heap[0][0] if self._heap else None

    def pop_due(self, now_ms: int, count_max: int | None = None) -> Iterator[Key]:
        """Remove and yield the keys that are due, earliest first; deadlines set meanwhile count too.

        Args:
            now_ms: the time.
            count_max: how many, at most; the others stay due.
        """
        for _ in itertools.count() if count_max is None else range(count_max):
            next_ms = self.next_ms()
            if next_ms is None or next_ms > now_ms:
                return
            _, _, key = heapq.heappop(self._heap)
            self._queued_ms.pop(key, None)
            del self._due_ms[key]
            yield key

    def _push(self, key: Key, due_ms: int) -> None:
        self._queued_ms[key] = due_ms
        heapq.heappush(self._heap, (due_ms, next(self._order), key))

    def _settle(self) -> None:
        """Bring the top of the heap up to date: drop what was cancelled or overtaken, requeue what was moved back."""
        while self._heap:
            queued_ms, _, key = self._heap[0]
            due_ms = self._due_ms.get(key)
            if due_ms == queued_ms:
                return
            heapq.heappop(self._heap)
            if self._queued_ms.get(key) == queued_ms:  # it was not overtaken
                del self._queued_ms[key]
                if due_ms is not None:
                    self._push(key, due_ms)
