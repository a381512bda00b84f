"""Entries become durable in memory, or fail to.

Rules of this room: what was written is not durable before the sync of its own ticket returned, so an acknowledgement
that comes too early shows; a fault is set before it happens and happens once.
"""

from collections.abc import Callable, Hashable, Sequence
from typing import Any

import attrs

__all__ = ["MemoryStorage", "StorageFaultError"]


class StorageFaultError(OSError):
    """The fault that a test asked for."""


@attrs.frozen
class _Ticket:
    number: int
    start: int
    end: int


def _one_key(_entry: Any) -> Hashable:
    return None


def _length(entry: Any) -> int:
    return len(entry)


class MemoryStorage:
    """See `stages.commit_storage`.

    Args:
        key_of: what commits per request are serial for; one key for all entries unless given.
        size_of: bytes of an entry; its length unless given.
        on_sync: called with the number of each sync before it takes effect, to observe or to raise.

    Attributes:
        written: all entries, in the order in which they were written.
        writes, syncs: calls so far.
        write_fault: the number of the write, from 0, that raises StorageFaultError; None for none.
        sync_fault: the same for syncs.
    """

    def __init__(
        self,
        *,
        key_of: Callable[[Any], Hashable] = _one_key,
        size_of: Callable[[Any], int] = _length,
        on_sync: Callable[[int], None] | None = None,
    ) -> None:
        self.key_of = key_of
        self.size_of = size_of
        self.written: list[Any] = []
        self.writes = self.syncs = 0
        self.write_fault: int | None = None
        self.sync_fault: int | None = None
        self._on_sync = on_sync
        self._is_durable: list[bool] = []

    def write(self, entries: Sequence[Any]) -> _Ticket:
        number = self.writes
        self.writes += 1
        if number == self.write_fault:
            raise StorageFaultError(f"write {number}")
        ticket = _Ticket(number, len(self.written), len(self.written) + len(entries))
        self.written += entries
        self._is_durable += [False] * len(entries)
        return ticket

    is_synced = True

    def write_nowait(self, entries: Sequence[Any]) -> _Ticket:
        """See CommitStorage; nothing waits here."""
        return self.write(entries)

    def stop_waiting(self) -> None:
        """See CommitStorage; nothing waits here."""

    def sync(self, ticket: _Ticket) -> None:
        number = self.syncs
        self.syncs += 1
        if self._on_sync is not None:
            self._on_sync(number)
        if number == self.sync_fault:
            raise StorageFaultError(f"sync {number}")
        for index in range(ticket.start, ticket.end):
            self._is_durable[index] = True

    @property
    def durable(self) -> list[Any]:
        """The entries that a crash now would leave: the written ones before the first that is not durable."""
        try:
            return self.written[: self._is_durable.index(False)]
        except ValueError:
            return list(self.written)
