"""The interface of the storage that makes entries durable."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any, Protocol

__all__ = ["CommitStorage"]


class CommitStorage(Protocol):
    """The storage of a committer; entries are opaque to `stages`.

    The committer's threads call `write` and `sync`, several at the same time. An exception of either fails the commit,
    and nothing is written after it. Subclasses implement `write`, `sync`, `key_of` and `size_of`; the defaults of the
    other methods are correct for every storage.
    """

    @property
    def is_synced(self) -> bool:
        """True if `sync` may wait for a disk. If False, entries are as durable as they get once they are written."""
        return True

    def write(self, entries: Sequence[Any]) -> Any:
        """Write entries in order. The committer calls this in the order in which its commits start.

        Returns:
            a ticket for `sync`.
        """

    def write_nowait(self, entries: Sequence[Any]) -> Any | None:
        """Write entries from the event loop and return a ticket, like `write`.

        Returns None without writing if the write might block or take long.
        """

    def sync(self, ticket: Any) -> None:
        """Block until the write of `ticket` is durable."""

    def key_of(self, entry: Any) -> Hashable:
        """Return the key of an entry, such as its partition.

        If each request has its own commit, commits that share a key run one after the other.
        """

    def size_of(self, entry: Any) -> int: ...

    def fail_waiting_writes(self) -> None:
        """Make writes that wait for space fail, now and in future, because the server stops. Never blocks."""
