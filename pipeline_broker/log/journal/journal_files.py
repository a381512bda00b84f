"""The journal's files for those who read from them.

Rules of this file: any thread may read; a segment is taken out of use only when nobody reads from it, and from then on
places in it are gone. A file is closed by its finalizer when it is neither among the last used nor being read.
"""

import threading
from collections import Counter, OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pipeline_broker.files.file_system import File, FileSystem
from pipeline_broker.log.errors import RecycledError
from pipeline_broker.log.journal.entry import Buffer
from pipeline_broker.log.journal.segment import segment_path, split_position

__all__ = ["JournalFiles"]

OPEN_FILES_MAX = 64


class JournalFiles:
    """See the rules of the file.

    Args:
        files: the file system.
        directory: of the journal.

    Attributes:
        first_number: of the oldest segment that can be read.
    """

    def __init__(self, files: FileSystem, directory: Path) -> None:
        self.first_number = 1
        self._files = files
        self._directory = directory
        self._lock = threading.Lock()
        self._open: OrderedDict[int, File] = OrderedDict()
        self._readers: Counter[int] = Counter()  # segments that are being read by threads
        self._unread = threading.Condition(self._lock)

    def find(self, number: int) -> File:
        """The file of a segment, for a read that is over before anything else happens."""
        with self._lock:
            file = self._open.get(number)
            if file is None:
                file = self._open[number] = self._files.open(segment_path(self._directory, number))
                if len(self._open) > OPEN_FILES_MAX:
                    self._open.popitem(last=False)
            else:
                self._open.move_to_end(number)
            return file

    @contextmanager
    def reading(self, number: int) -> Iterator[File]:
        """A file that is not taken out of use while the body runs; raises RecycledError when it has been."""
        with self._lock:
            if number < self.first_number:
                raise RecycledError(f"journal segment {number} is in use again")
            self._readers[number] += 1
        try:
            yield self.find(number)
        finally:
            with self._lock:
                self._readers[number] -= 1
                if not self._readers[number]:
                    del self._readers[number]
                    self._unread.notify_all()

    def read_cached(self, place: int, size_bytes: int) -> Buffer | None:
        """Bytes at a place without waiting for the disk, None when that is not possible."""
        number, position = split_position(place)
        return self.find(number).read_cached(size_bytes, position)

    def read(self, place: int, size_bytes: int) -> Buffer:
        """Bytes at a place; may block, so call it in a thread.

        Raises:
            RecycledError: the archive has taken over what was there.
            OSError: the disk cannot be read.
        """
        number, position = split_position(place)
        with self.reading(number) as file:
            data = file.read(size_bytes, position)
        if len(data) != size_bytes:
            raise OSError(f"{segment_path(self._directory, number)} ends before {position + size_bytes}")
        return data

    @staticmethod
    def name_of(place: int) -> tuple[str, int]:
        """What holds a place, and the position in it, for a person who reads of damage."""
        number, position = split_position(place)
        return f"journal segment {number}", position

    def retire(self, number: int) -> None:
        """Take the oldest segment out of use; waits for its readers."""
        with self._lock:
            self.first_number = number + 1
            self._open.pop(number, None)
            self._unread.wait_for(lambda: not self._readers[number])

    def close(self) -> None:
        """Nothing is kept open any more."""
        self._open.clear()
