"""What a broker has stored, wherever it is: in its data directory, in a store, or in both.

Rules of this file: read only. An archive in a store of
objects is read as its log says now, and asked for anew when its broker has changed it meanwhile; what a reader asks of
all kinds is the same.
"""

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

    def strays(self) -> Iterator[Finding]:
        """What lies beside the files and belongs to no archive."""


class LocalArchive:
    """Of a data directory that has it in itself."""

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

    def strays(self) -> Iterator[Finding]:
        try:
            names = set(self._files.list_directory(self._directory))
        except FileNotFoundError:
            return
        strays = sorted(names - set(self.folders()) - {MANIFEST_NAME, WRITING_NAME})
        yield from some_of(
            strays, ARCHIVE_NAME, lambda name: [Leftover(f"{ARCHIVE_NAME}/{name}", 0, 0, "no file of a broker")]
        )
