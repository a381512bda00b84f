"""From the place that a reader names to what is stored there: a data directory, or a node of a store.

Rules of this file: it opens, and reads nothing but the file of a data directory that names a store. Where journal and
archive are is decided here and nowhere else in this room.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from pipeline_broker.files.errors import reason_of
from pipeline_broker.files.file_system import FileSystem
from pipeline_broker.inspect.errors import NoDataDirectoryError
from pipeline_broker.inspect.journal_reader import JournalReader
from pipeline_broker.inspect.stored_archive import JournalPass, LocalArchive, Manifests, StoredArchive
from pipeline_broker.log.archive.local.archive_place import ArchivePlace, read_archive_place
from pipeline_broker.log.archive.local.local_archive import ARCHIVE_NAME
from pipeline_broker.log.errors import ManifestDamaged
from pipeline_broker.log.journal.journal_files import JournalFiles
from pipeline_broker.log.journal.segment import global_position
from pipeline_broker.log.journal.taken_directory import JOURNAL_NAME

if TYPE_CHECKING:
    from pipeline_broker.inspect.entry_check import EntryCheck
    from pipeline_broker.log.journal.journal_port import JournalBytes

__all__ = ["StoredPlace", "is_there", "journal_bytes", "journal_of", "open_stored_archive"]

StoredPlace: TypeAlias = Path | ArchivePlace
"""A data directory, or a node of a store that has all of it."""


def open_stored_archive(files: FileSystem, stored: StoredPlace) -> StoredArchive:
    """The archive of a broker.

    Raises:
        NoDataDirectoryError: its store cannot be reached.
    """
    place = _place(files, stored)
    if place is None:
        assert isinstance(stored, Path)
        return LocalArchive(files, stored)
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
    assert isinstance(stored, Path)
    return JournalReader(files, stored, manifests, check)


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
        files.confine(stored)
        names = set(files.list_directory(stored))
    except FileNotFoundError:
        raise NoDataDirectoryError(f"{stored} does not exist") from None
    except OSError as error:
        raise NoDataDirectoryError(f"{stored} cannot be read: {reason_of(error, stored)}") from None
    place = _place(files, stored)
    if place is not None and place.wal == "objects":
        return
    if names.isdisjoint({JOURNAL_NAME, ARCHIVE_NAME}):
        raise NoDataDirectoryError(f"{stored} is not a data directory: it has no journal")


def _place(files: FileSystem, stored: StoredPlace) -> ArchivePlace | None:
    """The store that has a broker's archive; None when that is in the data directory."""
    if isinstance(stored, ArchivePlace):
        return stored
    try:
        return read_archive_place(files, stored)
    except ManifestDamaged as error:
        raise NoDataDirectoryError(f"{stored}: {error}") from None
    except OSError as error:
        raise NoDataDirectoryError(f"{stored} cannot be read: {reason_of(error, stored)}") from None
