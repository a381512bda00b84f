"""A queue that serves clients round-robin, however many entries each of them has."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Hashable
from typing import Generic, TypeVar

__all__ = ["FairQueue"]

Entry = TypeVar("Entry")


class FairQueue(Generic[Entry]):
    def __init__(self) -> None:
        self._waiting: OrderedDict[Hashable, deque[Entry]] = OrderedDict()  # in the order of their turns
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def add(self, client: Hashable, entry: Entry) -> None:
        self._waiting.setdefault(client, deque()).append(entry)
        self._count += 1

    def take(self) -> Entry:
        """Remove and return the next entry. The queue must not be empty."""
        client, entries = self._waiting.popitem(last=False)
        entry = entries.popleft()
        if entries:
            self._waiting[client] = entries  # at the end: the other clients are served first
        self._count -= 1
        return entry

    def discard(self, client: Hashable, entry: Entry) -> None:
        entries = self._waiting.get(client, ())
        if entry in entries:
            self._waiting[client].remove(entry)
            self._count -= 1
            if not entries:
                del self._waiting[client]
