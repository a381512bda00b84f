"""The interface of stored archives and journals, and the archive in a data directory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from pipeline_broker.files.file_system import FileSystem
from pipeline_broker.inspect.findings import Finding, Leftover
from pipeline_broker.inspect.leftovers import some_of
from pipeline_broker.inspect.manifest_reader import ManifestReader
from pipeline_broker.log.archive.local.local_archive import ARCHIVE_NAME
from pipeline_broker.log.archive.local.local_store import LocalStore
from pipeline_broker.log.archive.local.manifest_file import MANIFEST_NAME, WRITING_NAME
from pipeline_broker.log.archive.manifest import Manifest

if TYPE_CHECKING:
    from pipeline_broker.log.archive.store import SegmentStore
    from pipeline_broker.log.journal.clean_shutdown import ManifestEnd

__all__ = [
    "JournalPass",
    "LocalArchive",
    "Manifests",
    "StoredArchive",
]


class JournalPass(Protocol):
    """One pass over a journal.

    Attributes:
        next_lsn: the LSN after the last valid entry.
    """

    next_lsn: int

    def findings(self) -> Iterator[Finding]:
        """Yield all findings in the order of the data; raises NoDataDirectoryError if the journal cannot be read."""

    def ends_at(self, number: int, identity: int, position: int) -> bool:
        """Return whether the last valid frame of the journal ends at `position` of this segment.

        Args:
            number: the number of the segment.
            identity: the random identity of the segment.
            position: in bytes.
        """


class Manifests(Protocol):
    """The manifest of an archive, read and verified.

    Attributes:
        file: the name of the manifest in findings.
        manifest: the valid edits; None if the file is damaged.
        end: the end of the file, to compare with the mark of a clean shutdown.
    """

    file: str
    manifest: Manifest | None
    end: ManifestEnd

    def position_of(self, key: bytes) -> int:
        """Return the position of the last edit of a partition; 0 if it is unknown."""

    def refreshed(self) -> Manifest | None:
        """Read the manifest again; None if it is damaged. Raises NoDataDirectoryError if it cannot be read."""

    def findings(self) -> Iterator[Finding]:
        """Yield the edits, the damage, and the manifest as a whole. Sets `manifest` and `end`.

        Raises:
            NoDataDirectoryError: the manifest cannot be read.
        """


class StoredArchive(Protocol):
    @property
    def manifests(self) -> Manifests: ...

    @property
    def store(self) -> SegmentStore: ...

    def prepare(self) -> None:
        """Make the files known to `store`. In an object store, this reads the archive's log.

        Raises:
            NoDataDirectoryError: the object store cannot be read.
        """

    def folders(self) -> Sequence[str]: ...

    def strays(self) -> Iterator[Finding]:
        """Yield the files or objects that are not part of an archive."""


class LocalArchive:
    def __init__(self, files: FileSystem, data_directory: Path) -> None:
        self._files = files
        self._directory = data_directory / ARCHIVE_NAME
        self.manifests = ManifestReader(files, data_directory)
        self.store = LocalStore(files, self._directory, read_only=True)

    def prepare(self) -> None: ...

    def folders(self) -> Sequence[str]:
        try:
            return self.store.folders()
        except FileNotFoundError:
            return ()

    def strays(self) -> Iterator[Finding]:
        try:
            names = set(self._files.list_directory(self._directory))
        except FileNotFoundError:
            return
        strays = sorted(names - set(self.folders()) - {MANIFEST_NAME, WRITING_NAME})
        yield from some_of(
            strays, ARCHIVE_NAME, lambda name: [Leftover(f"{ARCHIVE_NAME}/{name}", 0, 0, "not a file of a broker")]
        )
