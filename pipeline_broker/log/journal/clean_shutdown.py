"""The mark of a clean shutdown: the file `clean-shutdown`, which names the ends of journal and manifest.

It is written last, once journal and archive are durable and all writing has ended. The next startup removes it durably
before it writes anything. So while the mark exists, journal and manifest must end where it says, and anything else is
damage. A torn or changed mark counts as missing, and startup recovers as after a crash, which is always safe.

Layout (little-endian): magic 8, CRC-32C 4 (of the following fields), number and identity of the last journal segment 8
+ 8, position and LSN after its last frame 8 + 8, length 8 and CRC-32C 4 of the archive's manifest.
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
    """The length and the checksum of the whole manifest. A length of 0 makes no claim."""

    size_bytes: int = 0
    crc: int = 0


class CleanShutdown(NamedTuple):
    """The content of a mark.

    Attributes:
        number, identity: number and identity of the journal's last segment.
        position, next_lsn: position and LSN after the last frame of that segment.
        manifest: the end of the archive's manifest.
    """

    number: int
    identity: int
    position: int
    next_lsn: int
    manifest: ManifestEnd = ManifestEnd()


def mark_path(data_directory: Path) -> Path:
    return data_directory / MARK_NAME


def read_mark(files: FileSystem, data_directory: Path) -> CleanShutdown | None:
    if MARK_NAME not in files.list_directory(data_directory):
        return None
    # One byte more than a mark has, so that a longer file is recognized as invalid.
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
    """Write the mark durably. Everything that the mark covers must be durable already.

    Raises:
        OSError: the mark may or may not exist.
    """
    journal = (mark.number, mark.identity, mark.position, mark.next_lsn)
    rest = _REST.pack(*journal, mark.manifest.size_bytes, mark.manifest.crc)
    if WRITING_NAME in files.list_directory(data_directory):
        files.unlink(data_directory / WRITING_NAME)  # left by an interrupted attempt
    file = files.open(data_directory / WRITING_NAME, create=True)
    write_all(file, [_FIRST.pack(MAGIC, crc32c(rest)) + rest], 0)
    file.sync_data()
    # The rename makes the mark appear as a whole.
    files.rename(data_directory / WRITING_NAME, mark_path(data_directory))
    files.sync_directory(data_directory)


def remove_mark(files: FileSystem, data_directory: Path) -> None:
    if MARK_NAME in files.list_directory(data_directory):
        files.unlink(mark_path(data_directory))
        files.sync_directory(data_directory)
