"""The location of a broker's archive and journal: its data directory, or a store named by the file `archive-store`.

A journal continues where its archive ends, so both must stay together. Startup is refused if its options name another
archive or journal: it would treat acknowledged records as if they had never been written.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal, NamedTuple

from pipeline_broker.files.file_system import FileSystem, write_all
from pipeline_broker.log.archive.local.local_archive import ARCHIVE_NAME
from pipeline_broker.log.archive.local.manifest_file import MANIFEST_NAME
from pipeline_broker.log.errors import ManifestDamaged
from pipeline_broker.log.journal.segment import segment_number
from pipeline_broker.log.journal.taken_directory import JOURNAL_NAME

__all__ = ["ENDED", "MEMORY", "PLACE_NAME", "ArchivePlace", "Wal", "keep_archive_place", "read_archive_place"]

Wal = Literal["disk", "objects"]

PLACE_NAME = "archive-store"
WRITING_NAME = "archive-store.writing"
PLACE_BYTES_MAX = 4096
MEMORY = "memory:"
ENDED = "its archive was in memory and was lost when its process ended. Start on a new directory"


class ArchivePlace(NamedTuple):
    """The location of an archive outside of the data directory.

    Attributes:
        node: id of the broker that owns this archive in the store.
        wal: location of the journal: "disk" for the data directory, "objects" for the store.
    """

    url: str
    node: int
    wal: Wal = "disk"

    def __str__(self) -> str:
        return f"node {self.node} in {self.url}"


def read_archive_place(files: FileSystem, data: Path) -> ArchivePlace | None:
    """Return the location that a data directory names; None if its archive is in the directory.

    Raises:
        ManifestDamaged: the content of the file is invalid.
        OSError: the file cannot be read.
    """
    if PLACE_NAME not in files.list_directory(data):
        return None
    lines = bytes(files.open(data / PLACE_NAME).read(PLACE_BYTES_MAX, 0)).decode(errors="replace").splitlines()
    is_place = len(lines) >= 2 and lines[0].isprintable() and lines[1].isdecimal() and lines[2:] in ([], ["objects"])
    if not is_place:
        raise ManifestDamaged(
            f"{PLACE_NAME} does not name the archive: it needs a line with the store and one with the node."
            " Restore it from a backup"
        )
    return ArchivePlace(lines[0], int(lines[1]), "objects" if lines[2:] else "disk")


def keep_archive_place(files: FileSystem, data: Path, place: ArchivePlace | None) -> None:
    """Compare the location of the archive with the recorded one, or record the first one durably.

    Args:
        data: the data directory.
        place: the location from the options; None for the data directory.

    Raises:
        ManifestDamaged: the archive or the journal is somewhere else, the archive was in memory and has ended, or the
            record is invalid.
        OSError: the disk failed.
    """
    before = read_archive_place(files, data)
    if before is not None:
        if place is None or place.url != before.url:
            raise ManifestDamaged(f"the archive of this directory is in {before.url}. Start with --store {before.url}")
        if place.node != before.node:
            raise ManifestDamaged(
                f"the archive of this directory belongs to node.id={before.node}. Start with that node.id"
            )
        if place.wal != before.wal:
            raise ManifestDamaged(f"the journal of this directory is elsewhere. Start with --wal {before.wal}")
        if place.url.startswith(MEMORY) and place.wal == "disk":
            raise ManifestDamaged(ENDED)
        return
    if place is None:
        return
    if ARCHIVE_NAME in files.list_directories(data) and MANIFEST_NAME in files.list_directory(data / ARCHIVE_NAME):
        raise ManifestDamaged("this directory contains an archive of its own. Choose a new directory for --store")
    if place.wal == "objects" and any(
        segment_number(name) is not None for name in files.list_directory(data / JOURNAL_NAME)
    ):
        raise ManifestDamaged("this directory contains a journal of its own. Choose a new directory for --wal objects")
    if WRITING_NAME in files.list_directory(data):
        files.unlink(data / WRITING_NAME)  # left by an interrupted attempt
    # Written under another name and renamed, so that a crash leaves a whole location or none.
    file = files.open(data / WRITING_NAME, create=True)
    third = "objects\n" if place.wal == "objects" else ""
    write_all(file, [f"{place.url}\n{place.node}\n{third}".encode()], 0)
    file.sync_data()
    files.rename(data / WRITING_NAME, data / PLACE_NAME)
    files.sync_directory(data)
