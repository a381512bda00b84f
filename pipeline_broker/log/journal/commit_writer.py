"""The frame of a commit on its way to the disk: small ones through the page cache, large ones past it.

Rules of this file: one commit at a time, under the journal's write lock. A large commit that is copied into the page
cache costs more for the pages that the kernel must find than for the copy, and who waits for its sync has no use for
the pages: so its whole blocks go from memory straight to the disk (open(2), O_DIRECT). The two blocks that it shares
with its neighbours go through the page cache, so that no block reaches the disk by both ways. That is for segments that
grow; those whose space is used again have their pages already, and the archive reads from these. What is durable, and
when, is the same either way: the sync behind the write decides.
"""

import mmap
from collections.abc import Iterable, Iterator, Sequence

from pipeline_broker.files.file_system import BLOCK_BYTES, File, write_all
from pipeline_broker.files.parts import cut_parts
from pipeline_broker.log.entry import Buffer

__all__ = ["LARGE_COMMIT_BYTES_MIN", "CommitWriter"]

LARGE_COMMIT_BYTES_MIN = 256 << 10
STAGING_BYTES = 1 << 20
"""What is copied and written at a time: it stays in the processor's cache."""

assert LARGE_COMMIT_BYTES_MIN >= 2 * BLOCK_BYTES, "a large commit fills at least one block, wherever it begins"


class CommitWriter:
    """See the rules of the file.

    Args:
        is_direct: whether large commits go past the page cache where a file grows, if the file system can do that.
    """

    def __init__(self, *, is_direct: bool) -> None:
        self._is_direct = is_direct
        self._staging: memoryview | None = None  # made for the first large commit: most brokers never see one

    def write(self, file: File, parts: Sequence[Buffer], size_bytes: int, position: int, *, grows: bool) -> None:
        """Write every byte; not durable before the sync.

        Args:
            file: of the segment.
            size_bytes: of all parts together.
            position: where in the file.
            grows: whether the file ends there.

        Raises:
            OSError: the disk cannot; some of it may have been written.
        """
        is_direct = self._is_direct and grows and size_bytes >= LARGE_COMMIT_BYTES_MIN
        if not (is_direct and self._write_large(file, parts, size_bytes, position)):
            write_all(file, parts, position)

    def _write_large(self, file: File, parts: Sequence[Buffer], size_bytes: int, position: int) -> bool:
        """Whether it is written: False when the file system goes through the page cache only."""
        end = position + size_bytes
        first, last = -(-position // BLOCK_BYTES) * BLOCK_BYTES, end // BLOCK_BYTES * BLOCK_BYTES
        head, blocks, tail = cut_parts(parts, (first - position, last - first, end - last))
        if not self._write_blocks(file, blocks, first):
            self._is_direct = False
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
