"""What a committer asks of the place where entries become durable.

Rules of this room: it is an interface; entries are opaque here. A class that derives from it writes, syncs and
measures entries; what is said of waiting has answers that are never wrong.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any, Protocol

__all__ = ["CommitStorage"]


class CommitStorage(Protocol):
    """Where entries become durable; `write` and `sync` are called by the committer's threads, several at once."""

    @property
    def is_synced(self) -> bool:
        """Whether `sync` may wait for a disk; where it does not, what is written is as durable as it gets."""
        return True

    def write(self, entries: Sequence[Any]) -> Any:
        """Write entries in order; calls of different commits come in the order in which these began.

        Returns:
            a ticket for `sync`.
        """

    def write_nowait(self, entries: Sequence[Any]) -> Any | None:  # noqa: ARG002 - for those that can
        """`write` on the event loop; returns None, with nothing done, where that might wait or takes long."""
        return None

    def sync(self, ticket: Any) -> None:
        """Return when what the ticket stands for is durable."""

    def key_of(self, entry: Any) -> Hashable:
        """What commits per request are serial for."""

    def size_of(self, entry: Any) -> int:
        """Bytes of an entry."""

    def stop_waiting(self) -> None:
        """The server ends: a write that waits for room fails, now and from here on. Does not block."""
