"""Comparison of the mark of a clean shutdown with the journal and the manifest."""

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
    """The mark of a data directory. Make it before anything else in the directory is read.

    Like at the next startup, journal and manifest must end exactly at the mark, and a mark that is cut short is
    ignored. A broker that starts removes the mark before it writes anything. So the mark is read again at the end, and
    if it has changed, nothing is compared.

    Args:
        data_directory: a broker's data directory.

    Raises:
        NoDataDirectoryError: the mark cannot be read.
    """

    def __init__(self, files: FileSystem, data_directory: Path) -> None:
        self._files = files
        self._directory = data_directory
        self._size_bytes, self._mark = self._read()

    def findings(self, journal: JournalPass, manifests: Manifests) -> Iterator[Finding]:
        """Yield the mark, and its differences from a journal and a manifest that have been read.

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
                f"at the clean shutdown, the journal ended with LSN {mark.next_lsn - 1} at byte {mark.position} of "
                f"segment {mark.number}. Now it ends with LSN {journal.next_lsn - 1}, or at another byte"
            )
            yield Damage(MARK_NAME, 0, reason)
        if mark.manifest.size_bytes and mark.manifest != manifests.end:
            size_bytes = mark.manifest.size_bytes
            yield Damage(
                MARK_NAME, 0, f"the manifest has changed since the clean shutdown: it then had {size_bytes:,} bytes"
            )

    def _read(self) -> tuple[int | None, CleanShutdown | None]:
        """Return the size of the file, None if it is missing, and the mark, None if it is malformed."""
        path = mark_path(self._directory)
        try:
            size_bytes = self._files.open(path).size_bytes()
            return size_bytes, read_mark(self._files, self._directory)
        except FileNotFoundError:
            return None, None
        except OSError as error:
            raise NoDataDirectoryError(f"{path} cannot be read: {reason_of(error, path)}") from None
