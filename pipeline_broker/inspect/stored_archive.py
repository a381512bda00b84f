"""What a broker has stored, wherever it is: in its data directory, in a store, or in both.

Rules of this file: read only. It is named by the data directory, or by the store and the node. An archive in a store of
objects is read as its log says now, and asked for anew when its broker has changed it meanwhile; what a reader asks of
all kinds is the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeAlias

from pipeline_broker.files.file_system import FileSystem
from pipeline_broker.inspect.errors import NoDataDirectoryError
from pipeline_broker.inspect.findings import Finding, Leftover
from pipeline_broker.inspect.manifest_reader import ManifestReader
from pipeline_broker.log.archive.archive import ARCHIVE_NAME
from pipeline_broker.log.archive.archive_place import ArchivePlace, read_archive_place
from pipeline_broker.log.archive.local_store import LocalStore
from pipeline_broker.log.archive.manifest import Manifest
from pipeline_broker.log.archive.manifest_file import MANIFEST_NAME, WRITING_NAME
from pipeline_broker.log.errors import ManifestDamaged
from pipeline_broker.log.journal.journal_files import JournalFiles
from pipeline_broker.log.journal.segment import global_position
from pipeline_broker.log.journal.taken_directory import JOURNAL_NAME

if TYPE_CHECKING:
    from pipeline_broker.inspect.entry_check import EntryCheck
    from pipeline_broker.log.archive.store import SegmentStore
    from pipeline_broker.log.journal.clean_shutdown import ManifestEnd
    from pipeline_broker.log.journal_port import JournalBytes

__all__ = [
    "JournalPass",
    "Manifests",
    "StoredArchive",
    "StoredPlace",
    "is_there",
    "journal_bytes",
    "journal_of",
    "open_stored_archive",
]

StoredPlace: TypeAlias = Path | ArchivePlace
"""A data directory, or a node of a store that has all of it."""


class JournalPass(Protocol):
    """One pass over a journal.

    Attributes:
        next_lsn: behind the last entry that counts.
    """

    next_lsn: int

    def findings(self) -> Iterator[Finding]:
        """Everything in the order in which it lies there; raises NoDataDirectoryError where it cannot be read."""

    def ends_at(self, number: int, identity: int, position: int) -> bool:
        """Whether the last segment with a frame that counts is this one, and the frame ends at this position."""


class Manifests(Protocol):
    """The manifest of an archive, read and verified.

    Attributes:
        file: what findings name.
        manifest: what counts; None when that cannot be known.
        end: what a mark of a clean shutdown names.
    """

    file: str
    manifest: Manifest | None
    end: ManifestEnd

    def position_of(self, key: bytes) -> int:
        """Where the last edit of a partition begins."""

    def refreshed(self) -> Manifest | None:
        """The manifest as it is now; None when it cannot be known."""

    def findings(self) -> Iterator[Finding]:
        """Its edits, what is wrong with it, and what it is; `manifest` is known then."""


class StoredArchive(Protocol):
    """See the rules of the file."""

    @property
    def manifests(self) -> Manifests: ...

    @property
    def store(self) -> SegmentStore: ...

    def prepare(self) -> None:
        """Find where the files are, without a look at the manifest."""

    def folders(self) -> Sequence[str]:
        """Those that hold files, in order."""

    def strays(self) -> Iterator[Leftover]:
        """What lies beside the files and belongs to no archive."""


class _LocalArchive:
    def __init__(self, files: FileSystem, data_directory: Path) -> None:
        self._files = files
        self._directory = data_directory / ARCHIVE_NAME
        self.manifests = ManifestReader(files, data_directory)
        self.store = LocalStore(files, self._directory, read_only=True)

    def prepare(self) -> None:
        """Their names say it."""

    def folders(self) -> Sequence[str]:
        try:
            return self.store.folders()
        except FileNotFoundError:
            return ()

    def strays(self) -> Iterator[Leftover]:
        try:
            names = set(self._files.list_directory(self._directory))
        except FileNotFoundError:
            return
        for name in sorted(names - set(self.folders()) - {MANIFEST_NAME, WRITING_NAME}):
            yield Leftover(f"{ARCHIVE_NAME}/{name}", 0, 0, "no file of a broker")


def open_stored_archive(files: FileSystem, stored: StoredPlace) -> StoredArchive:
    """The archive of a broker.

    Raises:
        NoDataDirectoryError: its store cannot be reached.
    """
    place = _place(files, stored)
    if place is None:
        assert isinstance(stored, Path)
        return _LocalArchive(files, stored)
    from pipeline_broker.inspect.object_archive import ObjectArchive  # noqa: PLC0415 - for those who have one

    return ObjectArchive.find(place, files)


def journal_of(files: FileSystem, stored: StoredPlace, manifests: Manifests, check: EntryCheck) -> JournalPass:
    """One pass over the journal of a broker.

    Args:
        files: the file system.
        stored: where it is.
        manifests: what is archived.
        check: is shown all entries that count, in their order.
    """
    place = _place(files, stored)
    if place is not None and place.wal == "objects":
        from pipeline_broker.inspect.object_journal import ObjectJournalReader  # noqa: PLC0415 - for those who have one

        return ObjectJournalReader(place, files, manifests, check)
    from pipeline_broker.inspect.journal_reader import JournalReader  # noqa: PLC0415 - it knows this file

    assert isinstance(stored, Path)
    return JournalReader(stored, manifests, check)


def journal_bytes(files: FileSystem, stored: StoredPlace) -> tuple[JournalBytes, Callable[[int, int], int]]:
    """What the places in a journal lead to; and what makes a place of a segment, or a slot, and a position in it."""
    place = _place(files, stored)
    if place is not None and place.wal == "objects":
        from pipeline_broker.inspect.object_journal import ObjectJournalBytes  # noqa: PLC0415 - for those who have one

        return ObjectJournalBytes(place, files), ObjectJournalBytes.place_at
    assert isinstance(stored, Path)
    return JournalFiles(files, stored / JOURNAL_NAME), global_position


def is_there(files: FileSystem, stored: StoredPlace) -> None:
    """See that something is stored there; raises NoDataDirectoryError."""
    if isinstance(stored, ArchivePlace):
        return  # its journal says so
    try:
        names = {entry.name for entry in stored.iterdir()}
    except FileNotFoundError:
        raise NoDataDirectoryError(f"{stored} does not exist") from None
    except OSError as error:
        raise NoDataDirectoryError(f"{stored} cannot be read: {error.strerror}") from None
    place = _place(files, stored)
    if place is not None and place.wal == "objects":
        return
    if names.isdisjoint({JOURNAL_NAME, ARCHIVE_NAME}):
        raise NoDataDirectoryError(f"{stored} is no data directory: it has no journal")


def _place(files: FileSystem, stored: StoredPlace) -> ArchivePlace | None:
    """The store that has a broker's archive; None when that is in the data directory."""
    if isinstance(stored, ArchivePlace):
        return stored
    try:
        return read_archive_place(files, stored)
    except ManifestDamaged as error:
        raise NoDataDirectoryError(f"{stored}: {error}") from None
    except OSError as error:
        raise NoDataDirectoryError(f"{stored} cannot be read: {error.strerror}") from None
