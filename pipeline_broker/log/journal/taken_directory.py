"""The exclusive use of a data directory by one process."""

from __future__ import annotations

from pathlib import Path

import attrs

from pipeline_broker.files.file_system import FileSystem, Lock
from pipeline_broker.log.journal.clean_shutdown import CleanShutdown, read_mark

__all__ = ["JOURNAL_NAME", "LOCK_NAME", "TakenDirectory"]

LOCK_NAME = ".lock"
JOURNAL_NAME = "journal"


@attrs.frozen(eq=False)
class TakenDirectory:
    """A locked data directory. The journal that receives it releases the lock.

    Attributes:
        path: the data directory.
        lock: the lock of the directory.
        clean_shutdown: the mark of the previous broker; None if it did not shut down cleanly.
    """

    files: FileSystem
    path: Path
    lock: Lock
    clean_shutdown: CleanShutdown | None

    @classmethod
    def take(cls, path: Path, files: FileSystem) -> TakenDirectory:
        """Lock a data directory, creating it if it is missing.

        Raises:
            DirectoryLocked: another process uses it.
            OSError: the directory is unusable.
        """
        files.confine(path)
        files.make_directory(path / JOURNAL_NAME)
        files.sync_directory(path)  # otherwise a power cut could remove the directory, and the journal with it
        # Nothing is read before the lock is held: another broker may still be writing.
        lock = files.lock(path / LOCK_NAME)
        try:
            return cls(files, path, lock, read_mark(files, path))
        except OSError:
            lock.release()
            raise
