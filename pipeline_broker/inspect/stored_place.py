"""Stored data of a broker: in a data directory, in a store, or split between them."""

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

__all__ = ["StoredPlace", "brokers_of", "check_is_stored", "journal_bytes", "journal_of", "open_stored_archive"]

StoredPlace: TypeAlias = Path | ArchivePlace
"""A data directory, or a node in a store with `--wal objects`."""


def brokers_of(files: FileSystem, stored: StoredPlace) -> dict[int, Path]:
    """Return the data directories of the brokers in the directory of a cluster, in the order of their ids.

    The first one is that of the controller. The result is empty for a single broker.
    """
    if isinstance(stored, ArchivePlace):
        return {}
    try:
        files.confine(stored)
        names = files.list_directories(stored)
    except OSError:
        return {}  # `check_is_stored` reports it
    if JOURNAL_NAME in names:
        return {}
    return {node_id: stored / str(node_id) for node_id in sorted(int(name) for name in names if name.isdecimal())}


def open_stored_archive(files: FileSystem, stored: StoredPlace) -> StoredArchive:
    """Open the archive of a broker.

    Raises:
        NoDataDirectoryError: its store cannot be opened, or the file that names the store cannot be read.
    """
    place = _place(files, stored)
    if place is None:
        assert isinstance(stored, Path)
        return LocalArchive(files, stored)
    from pipeline_broker.inspect.object_archive import ObjectArchive  # noqa: PLC0415 - only brokers with a store need it

    return ObjectArchive.find(place, files)


def journal_of(files: FileSystem, stored: StoredPlace, manifests: Manifests, check: EntryCheck) -> JournalPass:
    """Return a pass over the journal of a broker.

    Args:
        stored: a data directory, or a node in a store.
        manifests: the manifest of the archive.
        check: receives all valid entries in order.

    Raises:
        NoDataDirectoryError: its store cannot be opened, or the file that names the store cannot be read.
    """
    place = _place(files, stored)
    if place is not None and place.wal == "objects":
        from pipeline_broker.inspect.object_journal import ObjectJournalReader  # noqa: PLC0415 - only brokers with a store need it

        return ObjectJournalReader(place, files, manifests, check)
    assert isinstance(stored, Path)
    return JournalReader(files, stored, manifests, check)


def journal_bytes(files: FileSystem, stored: StoredPlace) -> tuple[JournalBytes, Callable[[int, int], int]]:
    """Return a reader of the journal's bytes, and a function that makes the places for it.

    The function takes the number of a segment or slot, and a position in it. A place is an integer that combines both.

    Raises:
        NoDataDirectoryError: the store cannot be opened, or the file that names it cannot be read.
    """
    place = _place(files, stored)
    if place is not None and place.wal == "objects":
        from pipeline_broker.inspect.object_journal import ObjectJournalBytes  # noqa: PLC0415 - only brokers with a store need it

        return ObjectJournalBytes(place, files), ObjectJournalBytes.place_at
    assert isinstance(stored, Path)
    return JournalFiles(files, stored / JOURNAL_NAME), global_position


def check_is_stored(files: FileSystem, stored: StoredPlace) -> None:
    """Raise NoDataDirectoryError unless a data directory holds a broker's data. A node in a store is not checked."""
    if isinstance(stored, ArchivePlace):
        return  # the reader of its journal checks that
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
        raise NoDataDirectoryError(
            f"{stored} is not a data directory: it has neither a journal nor an archive. Name the directory given to"
            " `serve --data`"
        )


def _place(files: FileSystem, stored: StoredPlace) -> ArchivePlace | None:
    if isinstance(stored, ArchivePlace):
        return stored
    try:
        return read_archive_place(files, stored)
    except ManifestDamaged as error:
        raise NoDataDirectoryError(f"{stored}: {error}") from None
    except OSError as error:
        raise NoDataDirectoryError(f"{stored} cannot be read: {reason_of(error, stored)}") from None
