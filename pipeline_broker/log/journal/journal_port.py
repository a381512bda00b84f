"""What logs, the archive and the broker's service use of a journal, wherever its commits become durable.

Rules of this file: it is an interface. Every commit has an LSN; a commit counts wholly or not at all, and with it all
commits in front of it. What is complete can be taken over by the archive, in runs that are called segments; then their
space is given back.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

from pipeline_broker.files.file_system import Buffer
from pipeline_broker.log.journal.entry import JournalEntry
from pipeline_broker.log.journal.flush_policy import Flush, FlushPolicy
from pipeline_broker.log.journal.frame import StoredEntry

__all__ = ["JournalBytes", "JournalPort", "Room"]


class Room(Protocol):
    """Whether a journal has room for what is written.

    Attributes:
        obstacle: why writes wait, and what is asked for now should be refused until that passes; any thread reads it.
    """

    @property
    def obstacle(self) -> OSError | None: ...


class JournalBytes(Protocol):
    """The bytes that a journal holds, also of one to which nothing is written any more."""

    def read(self, place: int, size_bytes: int) -> Buffer:
        """Bytes at a place: those of entries, each with its key and its length in front; blocks.

        Raises:
            RecycledError: the archive has taken over what was there.
            OSError: it cannot be read.
        """

    def read_cached(self, place: int, size_bytes: int) -> Buffer | None:
        """The same without waiting, None when that is not possible."""

    def name_of(self, place: int) -> tuple[str, int]:
        """What holds a place, and the position in it, for a person who reads of damage."""


class JournalPort(JournalBytes, Protocol):
    """See the rules of the file; `recover` comes first, and is exhausted before anything is written.

    Attributes:
        flush: whether a commit is durable when it is synced, or when it is written, where no setting says anything.
        flush_policy: which commits are synced; None where all are durable when `sync` returns, whatever topics say.
        room: whether writes wait.
        segment_bytes: about how long a segment gets.
    """

    flush: Flush
    segment_bytes: int

    @property
    def flush_policy(self) -> FlushPolicy | None: ...

    @property
    def room(self) -> Room: ...

    @property
    def data_directory(self) -> Path:
        """Of the broker; absolute."""

    @property
    def next_lsn(self) -> int:
        """The LSN that the next commit gets."""

    def is_in_place(self) -> bool:
        """Whether the data directory is still where it was taken."""

    def is_owned(self) -> bool:
        """Whether no other broker can have gone on with it yet; where one can, what was read here may be old."""

    def disk_space(self) -> tuple[int, int]:
        """The size of the disk, and how many more bytes can be written to it; raises OSError when it cannot tell."""

    def recover(self, archived_lsn: int = 0) -> Iterator[StoredEntry]:
        """What the journal holds from this LSN on, in the order of the commits.

        Raises:
            JournalCorrupt: what was durable cannot be read.
        """

    def write(self, entries: Sequence[JournalEntry]) -> Any:
        """Write a commit behind all others; its entries have their places when it is durable.

        Returns:
            a ticket for `sync`.

        Raises:
            JournalFailed: nothing can be written any more.
        """

    def write_nowait(self, entries: Sequence[JournalEntry]) -> Any | None:
        """`write` for an event loop: None, with nothing done, where it might wait."""

    def sync(self, ticket: Any) -> None:
        """Return when the commit of a ticket is durable, and all in front of it are; raises JournalFailed."""

    def sync_written(self) -> None:
        """Sync what was written and not synced; blocks, and raises JournalFailed."""

    def prepare_ahead(self) -> None:
        """Get space ready, off the request path; raises OSError where that is not possible now."""

    # What is complete goes to the archive, and its space comes back

    def seal(self) -> None:
        """Have everything so far be complete; raises JournalFailed, and OSError where that is not possible now."""

    def sealed(self) -> list[tuple[int, int]]:
        """The complete segments whose commits are durable, oldest first: number, and the LSN behind it."""

    def sealed_entries(self, number: int, end_lsn: int, from_lsn: int = 0) -> Iterator[StoredEntry]:
        """What a complete segment holds from an LSN on.

        Raises:
            JournalCorrupt: it does not hold what was written to it.
            OSError: it cannot be read now.
        """

    def recycle(self, number: int) -> None:
        """Give back the space of a complete segment and of all older ones, which the archive holds.

        Their places are gone. May be called again after an OSError.
        """

    def archive_waits(self, obstacle: OSError | None) -> None:
        """Say why nothing can be archived now; None when that has passed."""

    def attach_archiver(self, sealed_max: int) -> None:
        """From here on writers wait while so many complete segments wait for `recycle`, or more.

        Args:
            sealed_max: so many of small batches; of large ones, which a start replays sooner, it may be more.
        """

    def detach_archiver(self) -> None:
        """Nothing is recycled any more: who waits for that goes on, who waits for space fails."""

    def close(self) -> None:
        """Give the journal up."""
