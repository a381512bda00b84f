"""Where the archive and the journal of a data directory are: in itself, or in a store that a file of it names.

Rules of this file: a journal goes on where its archive ends, so the two stay together. A start that would read another
archive or journal, or none, is refused, because it would take all that was written for never written.
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
ENDED = "its archive was in memory, and has ended with its process: start on a new directory"


class ArchivePlace(NamedTuple):
    """Where an archive is that is not in its data directory.

    Attributes:
        url: of the store.
        node: whose archive in that store it is.
        wal: where the journal is: "disk", the directory, or "objects", the store.
    """

    url: str
    node: int
    wal: Wal = "disk"

    def __str__(self) -> str:
        return f"node {self.node} in {self.url}"


def read_archive_place(files: FileSystem, data: Path) -> ArchivePlace | None:
    """The place that a data directory names; None when its archive is in itself.

    Raises:
        ManifestDamaged: the file that names it is not what was written.
        OSError: it cannot be read.
    """
    if PLACE_NAME not in files.list_directory(data):
        return None
    lines = bytes(files.open(data / PLACE_NAME).read(PLACE_BYTES_MAX, 0)).decode(errors="replace").splitlines()
    is_place = len(lines) >= 2 and lines[0].isprintable() and lines[1].isdecimal() and lines[2:] in ([], ["objects"])
    if not is_place:
        raise ManifestDamaged(
            f"{PLACE_NAME} does not say where the archive is: a line with its store, one with its node"
        )
    return ArchivePlace(lines[0], int(lines[1]), "objects" if lines[2:] else "disk")


def keep_archive_place(files: FileSystem, data: Path, place: ArchivePlace | None) -> None:
    """See that the archive is where it was, and write down where it is going to be.

    Args:
        place: that the start names; None for the directory itself.

    Raises:
        ManifestDamaged: it is somewhere else.
        OSError: the disk cannot.
    """
    before = read_archive_place(files, data)
    if before is not None:
        if place is None or place.url != before.url:
            raise ManifestDamaged(f"the archive of this directory is in {before.url}: start with that --store")
        if place.node != before.node:
            raise ManifestDamaged(f"the archive of this directory is that of node.id={before.node}")
        if place.wal != before.wal:
            raise ManifestDamaged(f"this directory belongs to a journal elsewhere: start with --wal {before.wal}")
        if place.url.startswith(MEMORY) and place.wal == "disk":
            raise ManifestDamaged(ENDED)
        return
    if place is None:
        return
    if ARCHIVE_NAME in files.list_directories(data) and MANIFEST_NAME in files.list_directory(data / ARCHIVE_NAME):
        raise ManifestDamaged("this directory has its archive in itself: with --store it needs to be a new one")
    if place.wal == "objects" and any(
        segment_number(name) is not None for name in files.list_directory(data / JOURNAL_NAME)
    ):
        raise ManifestDamaged("this directory has a journal: with --wal objects it needs to be a new one")
    if WRITING_NAME in files.list_directory(data):
        files.unlink(data / WRITING_NAME)  # an attempt that was cut short
    file = files.open(data / WRITING_NAME, create=True)
    third = "objects\n" if place.wal == "objects" else ""
    write_all(file, [f"{place.url}\n{place.node}\n{third}".encode()], 0)
    file.sync_data()
    files.rename(data / WRITING_NAME, data / PLACE_NAME)
    files.sync_directory(data)
