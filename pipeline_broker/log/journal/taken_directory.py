"""A data directory that this process alone uses, and what the broker that used it before has left to say.

Rules of this file: the lock is taken before anything else is read. The journal that gets the directory releases it.
"""

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
    """See the file.

    Attributes:
        files: where it is.
        path: of the data directory.
        lock: on it.
        clean_shutdown: of the broker that used it before; None when that was killed.
    """

    files: FileSystem
    path: Path
    lock: Lock
    clean_shutdown: CleanShutdown | None

    @classmethod
    def take(cls, path: Path, files: FileSystem) -> TakenDirectory:
        """Take a data directory.

        Raises:
            DirectoryLocked: another process has it.
            OSError: it is unusable.
        """
        files.confine(path)
        files.make_directory(path / JOURNAL_NAME)
        files.sync_directory(path)  # a journal whose directory is lost with the power is lost with it
        lock = files.lock(path / LOCK_NAME)
        try:
            return cls(files, path, lock, read_mark(files, path))
        except OSError:
            lock.release()
            raise
