"""The constructor of an archive in a data directory, in its folder `archive`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipeline_broker.log.archive.archive import Archive
from pipeline_broker.log.archive.local.local_store import LocalStore
from pipeline_broker.log.archive.local.manifest_file import ManifestFile

if TYPE_CHECKING:
    from pathlib import Path

    from pipeline_broker.files.file_system import FileSystem
    from pipeline_broker.log.journal.clean_shutdown import ManifestEnd

__all__ = ["ARCHIVE_NAME", "open_local_archive"]

ARCHIVE_NAME = "archive"


def open_local_archive(data_directory: Path, files: FileSystem, clean: ManifestEnd | None = None) -> Archive:
    """Open the archive of a data directory; create an empty one if it is missing.

    Args:
        clean: the end of the manifest from the mark of a clean shutdown; see `ManifestFile`.

    Raises:
        ManifestDamaged: the manifest cannot be read.
        OSError: the directory cannot be used.
    """
    directory = data_directory / ARCHIVE_NAME
    # Two stores, because a store has one writing thread, and compaction writes in a thread of its own.
    return Archive(LocalStore(files, directory), LocalStore(files, directory), ManifestFile(files, directory, clean))
