"""Writes that go past the page cache where they are large, for journal and archive.

Rules of this file: to copy much into the page cache costs more for the pages that the kernel must find than for the
copy, and who waits for its sync has no use for the pages. So the whole blocks of a large write go from memory straight
to the disk (open(2), O_DIRECT). The two blocks that it shares with its neighbours go through the page cache, so that no
block reaches the disk by both ways. What is durable, and when, is the same either way: the sync after the write
decides. Where the file has its pages already, because its space is used again, `write_all` costs less.
"""

import mmap
from collections.abc import Iterable, Iterator, Sequence

from pipeline_broker.files.file_system import BLOCK_BYTES, Buffer, File, write_all
from pipeline_broker.files.parts import cut_parts

__all__ = ["LARGE_WRITE_BYTES_MIN", "LargeWriter"]

LARGE_WRITE_BYTES_MIN = 256 << 10
STAGING_BYTES = 1 << 20
"""What is copied and written at a time: it stays in the processor's cache."""

assert LARGE_WRITE_BYTES_MIN >= 2 * BLOCK_BYTES, "a large write fills at least one block, wherever it begins"


class LargeWriter:
    """Writes for one thread at a time; see the rules of the file."""

    def __init__(self) -> None:
        self._is_possible = True
        self._staging: memoryview | None = None  # made for the first large write: most brokers never see one

    def write(self, file: File, parts: Sequence[Buffer], size_bytes: int, position: int) -> None:
        """Write every byte; not durable before the sync.

        Args:
            file: where to.
            parts: one after the other.
            size_bytes: of all parts together.
            position: where in the file.

        Raises:
            OSError: the disk cannot; some of it may have been written.
        """
        is_direct = self._is_possible and size_bytes >= LARGE_WRITE_BYTES_MIN
        if not (is_direct and self._write_large(file, parts, size_bytes, position)):
            write_all(file, parts, position)

    def _write_large(self, file: File, parts: Sequence[Buffer], size_bytes: int, position: int) -> bool:
        """Whether it is written: False when the file system goes through the page cache only."""
        end = position + size_bytes
        first, last = -(-position // BLOCK_BYTES) * BLOCK_BYTES, end // BLOCK_BYTES * BLOCK_BYTES
        head, blocks, tail = cut_parts(parts, (first - position, last - first, end - last))
        if not self._write_blocks(file, blocks, first):
            self._is_possible = False
            return False
        if head:
            write_all(file, head, position)
        if tail:
            write_all(file, tail, last)
        return True

    def _write_blocks(self, file: File, parts: Iterable[Buffer], position: int) -> bool:
        if self._staging is None:
            self._staging = memoryview(mmap.mmap(-1, STAGING_BYTES))  # begins at a page
        for filled in _fill(self._staging, parts):
            written = file.write_blocks(filled, position)
            if written is None:
                return False
            if written < len(filled):  # it says at the next byte why
                write_all(file, [filled[written:]], position + written)
            position += len(filled)
        return True


def _fill(staging: memoryview, parts: Iterable[Buffer]) -> Iterator[memoryview]:
    """Copy the parts into the staging memory, again and again until all had their turn; what it holds each time."""
    filled = 0
    for part in parts:
        rest = memoryview(part)
        while rest:
            taken = rest[: len(staging) - filled]
            staging[filled : filled + len(taken)] = taken
            filled += len(taken)
            rest = rest[len(taken) :]
            if filled == len(staging):
                yield staging
                filled = 0
    if filled:
        yield staging[:filled]
