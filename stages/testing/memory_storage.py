"""A commit storage in memory, with faults."""

from collections.abc import Callable, Hashable, Sequence
from typing import Any

import attrs

__all__ = ["MemoryStorage", "StorageFaultError"]


class StorageFaultError(OSError):
    pass


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
    """A `CommitStorage` whose entries become durable in memory, or fail to.

    A write is durable only after the sync of its own ticket, so a premature acknowledgement is noticed. Each fault
    happens once.

    Args:
        key_of: key of an entry, for commits per request; one key for all entries by default.
        size_of: size of an entry in bytes; its length by default.
        on_sync: called with the number of each sync before it takes effect; may raise.

    Attributes:
        written: all entries in the order in which they were written.
        writes, syncs: number of calls so far.
        write_fault: number of the write, from 0, that raises StorageFaultError.
        sync_fault: number of the sync, from 0, that raises StorageFaultError.
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
        return self.write(entries)

    def fail_waiting_writes(self) -> None: ...

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
        """The entries that would survive a crash now: those written before the first that is not durable."""
        try:
            return self.written[: self._is_durable.index(False)]
        except ValueError:
            return list(self.written)
