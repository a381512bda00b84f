"""The mark of a clean shutdown: what the next start need not repair, and what it must find.

Rules of this file: the mark is written last, when all of journal and archive is durable and nobody writes any more, and
it is removed, durably, before the next start writes anything that it does not describe. So while it is there, the data
directory ends where the mark says; what does not was damaged meanwhile. A mark that is cut short or changed is none,
and the start does what it does after a crash, which is always right.

Layout (little-endian): magic 8, CRC-32C 4 (of what follows it); of the journal: number and identity of its last
segment 8 + 8, position and LSN behind the last frame 8 + 8; of the archive's manifest: length 8, CRC-32C 4.
"""

import struct
from pathlib import Path
from typing import NamedTuple

from pipeline_broker.files.file_system import FileSystem, write_all
from pipeline_broker.records.checksum import crc32c

__all__ = ["MARK_NAME", "CleanShutdown", "ManifestEnd", "mark_path", "read_mark", "remove_mark", "write_mark"]

MARK_NAME = "clean-shutdown"
WRITING_NAME = "clean-shutdown.writing"
MAGIC = b"PBCLEAN1"

_FIRST = struct.Struct("<8sI")
_REST = struct.Struct("<QQQQQI")


class ManifestEnd(NamedTuple):
    """How long the manifest is, and the checksum of all of it; nothing is said of a manifest of no bytes."""

    size_bytes: int = 0
    crc: int = 0


class CleanShutdown(NamedTuple):
    """Where everything ends.

    Attributes:
        number, identity: of the journal's last segment.
        position, next_lsn: behind its last frame.
        manifest: of the archive.
    """

    number: int
    identity: int
    position: int
    next_lsn: int
    manifest: ManifestEnd = ManifestEnd()


def mark_path(data_directory: Path) -> Path:
    """Where the mark is."""
    return data_directory / MARK_NAME


def read_mark(files: FileSystem, data_directory: Path) -> CleanShutdown | None:
    """The mark; None when there is none, or none that was written as a whole."""
    if MARK_NAME not in files.list_directory(data_directory):
        return None
    data = files.open(mark_path(data_directory)).read(_FIRST.size + _REST.size + 1, 0)
    if len(data) != _FIRST.size + _REST.size:
        return None
    magic, crc = _FIRST.unpack_from(data)
    rest = bytes(data[_FIRST.size :])
    if magic != MAGIC or crc != crc32c(rest):
        return None
    number, identity, position, next_lsn, size_bytes, manifest_crc = _REST.unpack(rest)
    return CleanShutdown(number, identity, position, next_lsn, ManifestEnd(size_bytes, manifest_crc))


def write_mark(files: FileSystem, data_directory: Path, mark: CleanShutdown) -> None:
    """Write the mark; everything that it vouches for is durable by now."""
    journal = (mark.number, mark.identity, mark.position, mark.next_lsn)
    rest = _REST.pack(*journal, mark.manifest.size_bytes, mark.manifest.crc)
    if WRITING_NAME in files.list_directory(data_directory):
        files.unlink(data_directory / WRITING_NAME)  # an attempt that was cut short
    file = files.open(data_directory / WRITING_NAME, create=True)
    write_all(file, [_FIRST.pack(MAGIC, crc32c(rest)) + rest], 0)
    file.sync_data()
    files.rename(data_directory / WRITING_NAME, mark_path(data_directory))
    files.sync_directory(data_directory)


def remove_mark(files: FileSystem, data_directory: Path) -> None:
    """Remove the mark, or what there is in its place; it does not come back when this has returned."""
    if MARK_NAME in files.list_directory(data_directory):
        files.unlink(mark_path(data_directory))
        files.sync_directory(data_directory)
