"""Large reads that bypass the page cache (open(2), O_DIRECT), for data that is read once.

For data that is not in the page cache, allocating pages for it costs the kernel about ten times as much as the transfer
from the disk.
"""

import mmap

from pipeline_broker.base.buffer import Buffer
from pipeline_broker.files.file_system import BLOCK_BYTES, File, ReadableFile

__all__ = ["LARGE_READ_BYTES_MIN", "LARGE_WINDOW_BYTES", "LargeReader"]

LARGE_READ_BYTES_MIN = 256 << 10
LARGE_WINDOW_BYTES = 12 << 20  # more than most commits
MEMORY_BYTES = LARGE_WINDOW_BYTES + 2 * BLOCK_BYTES  # a window may begin and end within a block


class LargeReader:
    """A reader that bypasses the page cache for large reads of data that is not in it; for one thread at a time.

    Bytes are valid until the next read. Its memory is allocated once: fresh pages would cost as much as those of the
    page cache. No other thread may use a file that it reads.
    """

    def __init__(self) -> None:
        self._is_possible = True
        self._memory: memoryview | None = None

    def source(self, file: File) -> ReadableFile:
        return _Source(self, file)

    def read(self, file: File, size_bytes: int, position: int) -> Buffer:
        first = position // BLOCK_BYTES * BLOCK_BYTES
        end = position + size_bytes
        blocks_bytes = -(-(end - first) // BLOCK_BYTES) * BLOCK_BYTES
        is_direct = self._is_possible and size_bytes >= LARGE_READ_BYTES_MIN and blocks_bytes <= MEMORY_BYTES
        # A byte from the middle, because large writes leave their first and last page in the cache.
        if not is_direct or file.read_cached(1, position + size_bytes // 2) is not None:
            return file.read(size_bytes, position)
        if self._memory is None:
            self._memory = memoryview(mmap.mmap(-1, MEMORY_BYTES))  # page-aligned, as O_DIRECT requires
        found = self._read_blocks(file, self._memory[:blocks_bytes], first)
        if found is None:
            self._is_possible = False
            return file.read(size_bytes, position)
        return self._memory[position - first : max(position - first, min(found, end - first))]

    @staticmethod
    def _read_blocks(file: File, blocks: memoryview, position: int) -> int | None:
        found = 0
        while found < len(blocks):
            count = file.read_blocks(blocks[found:], position + found)
            if count is None:
                return None
            found += count
            if not count or count % BLOCK_BYTES:
                break  # the end of the file
        return found


class _Source:
    def __init__(self, reader: LargeReader, file: File) -> None:
        self._reader, self._file = reader, file
        self.size_bytes, self.data_from = file.size_bytes, file.data_from

    def read(self, size_bytes: int, position: int) -> Buffer:
        return self._reader.read(self._file, size_bytes, position)
