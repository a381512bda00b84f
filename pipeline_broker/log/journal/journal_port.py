"""The interface of a journal, on a local disk or in an object store.

Every entry has an LSN. A commit counts as a whole or not at all, and only together with all commits before it. Complete
segments can be archived, and then their space is recycled.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from pipeline_broker.base.buffer import Buffer
from pipeline_broker.log.journal.entry import JournalEntry
from pipeline_broker.log.journal.flush_policy import Flush, FlushPolicy
from pipeline_broker.log.journal.frame import StoredEntry

__all__ = ["JournalBytes", "JournalPort", "Room", "StoredObject"]

ORIGIN_BYTES_MIN = 512 << 10
"""Size of a batch from which on the archive may copy its object: it sends smaller ranges again, to merge them."""


class StoredObject(NamedTuple):
    """An object of a journal in a store that the archive may copy there, instead of sending its bytes again.

    Attributes:
        name: the name of the object.
        start: the position of a batch in it.
        content: all of the object.
    """

    name: str
    start: int
    content: Buffer


class Room(Protocol):
    """The obstacle to writes of a journal, if any.

    Attributes:
        obstacle: the reason why writes wait; None if writes are possible. While an obstacle is set, new requests should
            be refused. Any thread may read it.
    """

    @property
    def obstacle(self) -> OSError | None: ...


class JournalBytes(Protocol):
    """The readable bytes of a journal, which may be closed for writing."""

    def read(self, place: int, size_bytes: int) -> Buffer:
        """Return bytes at a global position. Blocks.

        They are whole entries: each batch with the key and the length before it.

        Raises:
            RecycledError: the position was recycled; the archive holds its records.
            OSError: the bytes cannot be read.
        """

    def read_cached(self, place: int, size_bytes: int) -> Buffer | None:
        """Like `read`, without waiting. Returns None if the bytes are not in memory."""

    def name_of(self, place: int) -> tuple[str, int]:
        """Return the file or object at a global position, and the position in it, for messages about damage."""


class JournalPort(JournalBytes, Protocol):
    """A journal. Exhaust `recover` before writing.

    Attributes:
        flush: default for logs without a flush setting: a commit is durable once synced ("always") or once written
            ("os").
        flush_policy: decides which commits are synced; None if `sync` makes every commit durable, whatever topics set.
        room: the obstacle to writes.
        segment_bytes: approximate size of a segment.
    """

    flush: Flush
    segment_bytes: int

    @property
    def flush_policy(self) -> FlushPolicy | None: ...

    @property
    def room(self) -> Room: ...

    @property
    def data_directory(self) -> Path: ...

    @property
    def next_lsn(self) -> int: ...

    def is_in_place(self) -> bool:
        """Return whether the locked data directory still has its path.

        Raises:
            FencedError: another broker has taken over a journal in an object store.
        """

    def is_owned(self) -> bool:
        """Return whether this broker surely still owns the journal.

        If another broker may have taken over, reads may be stale.
        """

    def disk_space(self) -> tuple[int, int]:
        """Return the total and the free bytes of the disk.

        Raises:
            OSError: the numbers are unknown.
        """

    def recover(self, archived_lsn: int = 0) -> Iterator[StoredEntry]:
        """Yield all entries from `archived_lsn`, in LSN order.

        Raises:
            JournalCorrupt: durable records cannot be read.
            OSError: the disk or the store failed.
        """

    def write(self, entries: Sequence[JournalEntry]) -> Any:
        """Append a commit and return its ticket for `sync`. Its entries have positions once it is durable.

        Raises:
            JournalFailed: the journal has failed or is closed.
        """

    def write_nowait(self, entries: Sequence[JournalEntry]) -> Any | None:
        """Write without waiting, for the event loop.

        Returns None, with nothing written, if the write might wait.

        Raises:
            JournalFailed: the journal has failed or is closed.
        """

    def sync(self, ticket: Any) -> None:
        """Wait until the commit and all commits before it are as durable as the flush policy requires.

        Raises:
            JournalFailed: the journal has failed, so the commit may not be durable.
        """

    def sync_written(self) -> None:
        """Sync all written commits that are not synced yet. Blocks. Does nothing after a failure or `close`.

        Raises:
            JournalFailed: the sync failed.
        """

    def prepare_ahead(self) -> None:
        """Prepare space, off the request path.

        Raises:
            OSError: the space cannot be prepared now; the journal is intact.
        """

    # Archiving and recycling of complete segments

    def seal(self) -> None:
        """Complete the current segment, so that everything written so far can be archived.

        Raises:
            OSError: the segment cannot be completed now; the journal is intact.
            JournalFailed: the journal has failed.
        """

    def sealed(self) -> list[tuple[int, int]]:
        """Return number and end LSN (exclusive) of the complete segments whose commits need no sync, oldest first."""

    def sealed_entries(self, number: int, end_lsn: int, from_lsn: int = 0) -> Iterator[StoredEntry]:
        """Yield the entries of a complete segment from `from_lsn`.

        Raises:
            JournalCorrupt: the segment is damaged.
            FencedError: a successor has recycled the segment.
            OSError: the segment cannot be read now.
        """

    def origin(self, place: int, size_bytes: int) -> StoredObject | None:
        """Return the object with a batch of `sealed_entries`; None if a copy of the object does not pay."""

    def recycle(self, number: int) -> None:
        """Release the space of a complete segment and of all older ones, whose records the archive holds durably.

        Later reads of their positions raise RecycledError.

        Raises:
            OSError: the disk or the store failed; callers may repeat the call.
        """

    def archive_waits(self, obstacle: OSError | None) -> None:
        """Set the reason why nothing can be archived now, for waiting writers to report; None clears it."""

    def attach_archiver(self, sealed_max: int) -> None:
        """Make writers wait for `recycle`.

        Args:
            sealed_max: complete segments that may wait for `recycle`. If their batches are large, more may wait,
                because recovery replays them faster.
        """

    def detach_archiver(self) -> None:
        """End all waiting for `recycle`: waiting writers continue, and writers without space fail."""

    def close(self) -> None: ...
