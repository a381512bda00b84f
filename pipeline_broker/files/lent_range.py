"""Ranges of files that are lent to responses, so that the kernel sends their bytes from the page cache."""

import errno
import os
from typing import Final

from pipeline_broker.files.file_system import File

__all__ = ["LentRange"]

PROBE_BYTES: Final = 128 << 10
"""Distance of the bytes whose presence in the page cache is probed; Linux reads ahead in such windows."""
SENT_BYTES_MAX: Final = 4 * PROBE_BYTES
"""Bytes sent by one call, more than the send buffer of a socket usually takes."""
LOAD_BYTES_MAX: Final = 1 << 20
_NO_SENDFILE: Final = frozenset({errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP})


class LentRange:
    """A range of an open file, lent to one response; the source of a `stages.file_range.FileRange`.

    The open file keeps a deleted file on the disk. So the store takes its ranges back when it deletes a file: their
    unsent bytes move to memory, and no slow client holds space of the disk.

    The event loop sends. `load`, `read` and `take_back` may run in other threads at the same time.
    """

    __slots__ = ("__weakref__", "_file", "_kept", "_next", "_present_end", "position", "size_bytes")

    def __init__(self, file: File, position: int, size_bytes: int) -> None:
        self.position = position
        self.size_bytes = size_bytes
        self._file: File | None = file
        self._next = position
        self._present_end = 0  # bytes before it are in the page cache, until the socket must be waited for
        self._kept: tuple[int, bytes] = (position, b"")  # a position, and the bytes from there on

    def send_to(self, descriptor: int, position: int, size_bytes: int) -> int:
        self._next = position
        file = self._file
        if file is None:
            return os.write(descriptor, self._kept_at(position, size_bytes))
        count = self._resident(file, position, size_bytes)
        if not count:
            return 0
        source = file.descriptor()
        if source is None:
            return os.write(descriptor, file.read(count, position))
        try:
            sent = os.sendfile(descriptor, source, position, count)
        except BlockingIOError:
            self._present_end = 0  # the client may be slow, and the system may drop the bytes in the meantime
            raise
        except OSError as error:
            if error.errno not in _NO_SENDFILE:
                raise
            return os.write(descriptor, file.read(count, position))
        if not sent:
            raise self._too_short()
        return sent

    def _resident(self, file: File, position: int, size_bytes: int) -> int:
        """Return how many of the bytes can be sent without waiting for the disk, by probing one byte of each window."""
        wanted_end = position + min(size_bytes, SENT_BYTES_MAX)
        end = max(self._present_end, position)
        while end < wanted_end and file.read_cached(1, end) is not None:
            end += PROBE_BYTES
        self._present_end = end
        return min(end, wanted_end) - position

    def load(self, position: int, size_bytes: int) -> None:
        size_bytes = min(size_bytes, LOAD_BYTES_MAX)
        self.read(position, size_bytes)
        # Not probed again: a file system without RWF_NOWAIT never reports bytes as present.
        self._present_end = position + size_bytes

    def read(self, position: int, size_bytes: int) -> bytes:
        file = self._file
        data = self._kept_at(position, size_bytes) if file is None else file.read(size_bytes, position)
        if len(data) != size_bytes:
            raise self._too_short()
        return bytes(data)

    def take_back(self) -> None:
        """Move the unsent bytes to memory and release the file. If they cannot be read, the connection will break."""
        file, start = self._file, self._next
        if file is None:
            return
        try:
            self._kept = start, bytes(file.read(self.position + self.size_bytes - start, start))
        except OSError:
            self._kept = start, b""
        # Last: from here on the event loop uses the kept bytes.
        self._file = None

    def _kept_at(self, position: int, size_bytes: int) -> memoryview:
        start, data = self._kept
        found = memoryview(data)[position - start :][:size_bytes]
        if not found:
            raise self._too_short()
        return found

    @staticmethod
    def _too_short() -> OSError:
        return OSError(errno.EIO, "the file ends before a range of it that is being sent")
