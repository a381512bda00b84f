"""Holds the mark of a clean shutdown against what the journal and the manifest were found to be.

Rules of this file: read only; it judges as the next start does: everything must end where the mark says, and a mark
that was not written as a whole is none. A broker that starts removes the mark before it writes anything, so the mark is
asked for before everything else is read and again behind it: if it is not the same, nothing is held against it.
"""

from collections.abc import Iterator
from pathlib import Path

from pipeline_broker.files.errors import reason_of
from pipeline_broker.files.file_system import FileSystem
from pipeline_broker.inspect.errors import NoDataDirectoryError
from pipeline_broker.inspect.findings import Damage, Finding, Leftover, MarkFound, Superseded
from pipeline_broker.inspect.stored_archive import JournalPass, Manifests
from pipeline_broker.log.journal.clean_shutdown import MARK_NAME, CleanShutdown, mark_path, read_mark

__all__ = ["MarkReader"]


class MarkReader:
    """The mark of one data directory; made before anything else in it is read.

    Args:
        files: the file system.
        data_directory: a broker's.

    Raises:
        NoDataDirectoryError: the mark cannot be read.
    """

    def __init__(self, files: FileSystem, data_directory: Path) -> None:
        self._files = files
        self._directory = data_directory
        self._size_bytes, self._mark = self._read()

    def findings(self, journal: JournalPass, manifests: Manifests) -> Iterator[Finding]:
        """What the mark says, and where that is not so; `journal` and `manifests` have been read by now.

        Raises:
            NoDataDirectoryError: the mark cannot be read any more.
        """
        if self._size_bytes is None:
            return
        if self._read() != (self._size_bytes, self._mark):
            yield Superseded(MARK_NAME)
            return
        mark = self._mark
        if mark is None:
            yield Leftover(MARK_NAME, 0, self._size_bytes, "a mark of a clean shutdown that cannot be read")
            return
        yield MarkFound(MARK_NAME, mark.number, mark.position, mark.next_lsn)
        if not journal.ends_at(mark.number, mark.identity, mark.position) or journal.next_lsn != mark.next_lsn:
            reason = (
                f"the broker was stopped in order with LSN {mark.next_lsn - 1} at {mark.position} of segment "
                f"{mark.number}; the journal ends with LSN {journal.next_lsn - 1}, or elsewhere"
            )
            yield Damage(MARK_NAME, 0, reason)
        if mark.manifest.size_bytes and mark.manifest != manifests.end:
            size_bytes = mark.manifest.size_bytes
            yield Damage(MARK_NAME, 0, f"the manifest is not the one of {size_bytes:,} bytes that was left in order")

    def _read(self) -> tuple[int | None, CleanShutdown | None]:
        """How long the file is, None when there is none, and what it says, None when that cannot be read."""
        path = mark_path(self._directory)
        try:
            size_bytes = self._files.open(path).size_bytes()
            return size_bytes, read_mark(self._files, self._directory)
        except FileNotFoundError:
            return None, None
        except OSError as error:
            raise NoDataDirectoryError(f"{path} cannot be read: {reason_of(error, path)}") from None
