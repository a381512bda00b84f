"""A priority queue of deadlines that are usually moved before they expire."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Iterator
from typing import Generic, TypeVar

__all__ = ["Deadlines"]

Key = TypeVar("Key")


class Deadlines(Generic[Key]):
    """At most one deadline per key, in milliseconds.

    Moving a deadline to a later time, as each heartbeat does, costs one dictionary write: the heap keeps the old entry
    and corrects it when that entry reaches the top.
    """

    def __init__(self) -> None:
        self._due_ms: dict[Key, int] = {}  # the deadlines
        self._queued_ms: dict[Key, int] = {}  # the time of the key's valid heap entry, at most its deadline
        self._heap: list[tuple[int, int, Key]] = []
        self._order = itertools.count()

    def __len__(self) -> int:
        return len(self._due_ms)

    def __contains__(self, key: Key) -> bool:
        return key in self._due_ms

    def set(self, key: Key, due_ms: int) -> None:
        self._due_ms[key] = due_ms
        queued_ms = self._queued_ms.get(key)
        # A later deadline needs no new entry: `_settle` requeues the key when its old entry reaches the top.
        if queued_ms is None or due_ms < queued_ms:
            self._push(key, due_ms)

    def cancel(self, key: Key) -> None:
        self._due_ms.pop(key, None)

    def next_ms(self) -> int | None:
        self._settle()
        return self._heap[0][0] if self._heap else None

    def pop_due(self, now_ms: int, count_max: int | None = None) -> Iterator[Key]:
        """Remove and yield the expired keys, earliest first, including deadlines that are set during the iteration.

        Args:
            now_ms: current time.
            count_max: yield at most this many keys; the others stay queued.
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
        # Make the top of the heap the earliest deadline: drop cancelled and superseded entries, requeue postponed ones.
        while self._heap:
            queued_ms, _, key = self._heap[0]
            due_ms = self._due_ms.get(key)
            if due_ms == queued_ms:
                return
            heapq.heappop(self._heap)
            if self._queued_ms.get(key) == queued_ms:  # no earlier entry of the key superseded this one
                del self._queued_ms[key]
                if due_ms is not None:
                    self._push(key, due_ms)
