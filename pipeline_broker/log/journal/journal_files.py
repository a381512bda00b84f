"""Read access to the journal's segment files, for any thread."""

import threading
from collections import Counter, OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pipeline_broker.base.buffer import Buffer
from pipeline_broker.files.file_system import File, FileSystem
from pipeline_broker.log.errors import RecycledError
from pipeline_broker.log.journal.segment import segment_path, split_position

__all__ = ["JournalFiles"]

OPEN_FILES_MAX = 64


class JournalFiles:
    """The readable segment files of a journal.

    A segment is retired only while no thread reads it; later reads of its positions raise RecycledError. A file is
    closed by its finalizer once it has left the cache of open files and no thread reads it.

    Args:
        directory: the journal's directory.

    Attributes:
        first_number: number of the oldest readable segment.
    """

    def __init__(self, files: FileSystem, directory: Path) -> None:
        self.first_number = 1
        self._files = files
        self._directory = directory
        self._lock = threading.Lock()
        self._open: OrderedDict[int, File] = OrderedDict()
        self._readers: Counter[int] = Counter()  # reads in progress, by segment
        self._unread = threading.Condition(self._lock)

    def find(self, number: int) -> File:
        """Return the file of a segment. Use the file before the next `retire`; `reading` protects longer reads."""
        with self._lock:
            file = self._open.get(number)
            if file is None:
                file = self._open[number] = self._files.open(segment_path(self._directory, number))
                if len(self._open) > OPEN_FILES_MAX:
                    # A thread that still reads the evicted file keeps it open.
                    self._open.popitem(last=False)
            else:
                self._open.move_to_end(number)
            return file

    @contextmanager
    def reading(self, number: int) -> Iterator[File]:
        """Protect a segment from `retire` while the body runs, and yield its file.

        Raises:
            RecycledError: the segment was retired before.
        """
        with self._lock:
            # Check and count are one step under the lock, so that `retire` cannot come in between.
            if number < self.first_number:
                raise RecycledError(f"journal segment {number} was recycled: read its records from the archive")
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
        number, position = split_position(place)
        return self.find(number).read_cached(size_bytes, position)

    def read(self, place: int, size_bytes: int) -> Buffer:
        number, position = split_position(place)
        with self.reading(number) as file:
            data = file.read(size_bytes, position)
        if len(data) != size_bytes:
            raise OSError(f"{segment_path(self._directory, number)} ends before {position + size_bytes}")
        return data

    @staticmethod
    def name_of(place: int) -> tuple[str, int]:
        number, position = split_position(place)
        return f"journal segment {number}", position

    def retire(self, number: int) -> None:
        """Refuse new reads of the oldest segment and wait for the reads in progress."""
        with self._lock:
            # New readers are refused first, so the wait for the current ones ends.
            self.first_number = number + 1
            self._open.pop(number, None)
            self._unread.wait_for(lambda: not self._readers[number])

    def close(self) -> None:
        self._open.clear()
