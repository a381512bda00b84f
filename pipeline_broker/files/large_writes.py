"""Large writes that bypass the page cache (open(2), O_DIRECT), for journal and archive.

For large writes, finding pages costs the kernel more than copying the data, and a caller that syncs next does not need
the pages. Durability is the same either way: the sync after the write decides. Where the file's pages are in memory
already, because its space is reused, `write_all` is cheaper.
"""

import mmap
from collections.abc import Iterable, Iterator, Sequence

from pipeline_broker.base.buffer import Buffer
from pipeline_broker.files.file_system import BLOCK_BYTES, File, write_all
from pipeline_broker.files.parts import cut_parts

__all__ = ["LARGE_WRITE_BYTES_MIN", "LargeWriter"]

LARGE_WRITE_BYTES_MIN = 256 << 10
STAGING_BYTES = 1 << 20  # copied and written at a time; fits into the processor's cache

# A large write must contain at least one whole block, wherever it begins.
assert LARGE_WRITE_BYTES_MIN >= 2 * BLOCK_BYTES


class LargeWriter:
    """A writer that bypasses the page cache for large writes, if the system allows it; for one thread at a time."""

    def __init__(self) -> None:
        self._is_possible = True
        self._staging: memoryview | None = None  # allocated at the first large write, which most brokers never see

    def write(self, file: File, parts: Sequence[Buffer], size_bytes: int, position: int) -> None:
        """Write all bytes; not durable before the next sync.

        Args:
            parts: written one after the other.
            size_bytes: total size of `parts`.
            position: start in the file.

        Raises:
            OSError: the disk failed; some bytes may have been written.
        """
        is_direct = self._is_possible and size_bytes >= LARGE_WRITE_BYTES_MIN
        if not (is_direct and self._write_large(file, parts, size_bytes, position)):
            write_all(file, parts, position)

    def _write_large(self, file: File, parts: Sequence[Buffer], size_bytes: int, position: int) -> bool:
        end = position + size_bytes
        first, last = -(-position // BLOCK_BYTES) * BLOCK_BYTES, end // BLOCK_BYTES * BLOCK_BYTES
        # The partial blocks at both ends are shared with neighbouring data, so they go through the page cache. No block
        # may reach the disk both ways.
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
            self._staging = memoryview(mmap.mmap(-1, STAGING_BYTES))  # page-aligned, as O_DIRECT requires
        for filled in _fill(self._staging, parts):
            written = file.write_blocks(filled, position)
            if written is None:
                return False
            if written < len(filled):  # the next write raises the reason of the short one, such as ENOSPC
                write_all(file, [filled[written:]], position + written)
            position += len(filled)
        return True


def _fill(staging: memoryview, parts: Iterable[Buffer]) -> Iterator[memoryview]:
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
