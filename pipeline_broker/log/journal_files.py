"""The files of the journal that are open for reading, and the promise that none is recycled while it is read.

Rules of this file: any thread may ask. A file is closed by its finalizer, when it is neither among the last used nor
being read, so that no reader ever reads from a descriptor that means something else by now.
"""

import threading
from collections import Counter, OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pipeline_broker.log.entry import Buffer
from pipeline_broker.log.errors import RecycledError
from pipeline_broker.log.file_system import File, FileSystem
from pipeline_broker.log.segment import segment_path, split_position

OPEN_FILES_MAX = 64


class JournalFiles:
    """See the rules of the file.

    Args:
        files: where they are.
        directory: of the journal.

    Attributes:
        first_number: segments in front of this one are gone.
    """

    def __init__(self, files: FileSystem, directory: Path) -> None:
        self.first_number = 1
        self._files = files
        self._directory = directory
        self._lock = threading.Lock()
        self._unread = threading.Condition(self._lock)
        self._open: OrderedDict[int, File] = OrderedDict()
        self._readers: Counter[int] = Counter()  # segments that are being read by threads

    def read_cached(self, place: int, size_bytes: int) -> Buffer | None:
        """Bytes at a place without waiting for the disk, None when that is not possible."""
        number, position = split_position(place)
        return self._file(number).read_cached(size_bytes, position)

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

    def give_up(self, number: int) -> None:
        """Places in the oldest segment are gone from here on; waits for those who are reading it."""
        with self._lock:
            self.first_number = number + 1
            self._open.pop(number, None)
            self._unread.wait_for(lambda: not self._readers[number])

    def clear(self) -> None:
        """Close what nobody reads."""
        self._open.clear()

    @contextmanager
    def reading(self, number: int) -> Iterator[File]:
        """A file that is not recycled while the body runs."""
        with self._lock:
            if number < self.first_number:
                raise RecycledError(f"journal segment {number} is in use again")
            self._readers[number] += 1
        try:
            yield self._file(number)
        finally:
            with self._lock:
                self._readers[number] -= 1
                if not self._readers[number]:
                    del self._readers[number]
                    self._unread.notify_all()

    def _file(self, number: int) -> File:
        with self._lock:
            file = self._open.get(number)
            if file is None:
                file = self._open[number] = self._files.open(segment_path(self._directory, number))
                if len(self._open) > OPEN_FILES_MAX:
                    self._open.popitem(last=False)
            else:
                self._open.move_to_end(number)
            return file
