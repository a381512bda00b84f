"""Large writes reach the file, through the page cache or past it."""

import mmap
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pipeline_broker.files import large_writes
from pipeline_broker.files.file_system import BLOCK_BYTES, SystemFileSystem
from pipeline_broker.files.large_writes import LARGE_WRITE_BYTES_MIN, STAGING_BYTES, LargeWriter
from tests.files.memory_file_system import MemoryFileSystem

DIRECTORY = Path("/memory")
BEFORE = b"b" * (3 * BLOCK_BYTES)
LARGE = 2 * BLOCK_BYTES
SIZES = st.one_of(st.integers(1, 200), st.integers(BLOCK_BYTES - 50, BLOCK_BYTES + 50), st.integers(1, 5 * BLOCK_BYTES))


class Recorded:
    """A file that records its writes and their kind; it may write less than it is given."""

    def __init__(self, file, write_max=None):
        self.file = file
        self.write_max = write_max
        self.cached, self.direct = [], []

    def write(self, parts, position):
        data = b"".join(parts)[: self.write_max]
        self.cached.append((position, len(data)))
        return self.file.write([data], position)

    def write_blocks(self, blocks, position):
        blocks = blocks[: (self.write_max and self.write_max // BLOCK_BYTES * BLOCK_BYTES) or None]
        self.direct.append((position, len(blocks)))
        return self.file.write_blocks(blocks, position)

    def content(self):
        return bytes(self.file.read(1 << 30, 0))


def file_of(files, directory):
    file = files.open(directory / "f", create=True)
    file.write([BEFORE], 0)
    return Recorded(file)


def parts_of(sizes):
    return [bytes([65 + number % 26]) * size for number, size in enumerate(sizes)]


def write(file, parts, position):
    LargeWriter().write(file, parts, sum(map(len, parts)), position)


@given(
    sizes=st.lists(SIZES, min_size=1, max_size=8),
    position=st.one_of(st.sampled_from([0, BLOCK_BYTES, 2 * BLOCK_BYTES]), st.integers(0, len(BEFORE))),
    is_possible=st.booleans(),
    write_max=st.one_of(st.none(), st.integers(BLOCK_BYTES, 3 * BLOCK_BYTES)),
    staging_blocks=st.integers(1, 4),
)
@example(sizes=[1], position=0, is_possible=True, write_max=None, staging_blocks=1)
@example(sizes=[LARGE], position=BLOCK_BYTES, is_possible=True, write_max=None, staging_blocks=1)
@example(sizes=[BLOCK_BYTES, LARGE], position=BLOCK_BYTES, is_possible=True, write_max=BLOCK_BYTES, staging_blocks=4)
@example(sizes=[LARGE - 7, 7], position=BLOCK_BYTES + 3, is_possible=True, write_max=None, staging_blocks=1)
def test_every_byte_is_at_its_position_and_nothing_else_changes(
    sizes, position, is_possible, write_max, staging_blocks
):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(large_writes, "LARGE_WRITE_BYTES_MIN", LARGE)
        patch.setattr(large_writes, "STAGING_BYTES", staging_blocks * BLOCK_BYTES)
        files = MemoryFileSystem()
        files.is_direct_possible = is_possible
        file = file_of(files, DIRECTORY)
        file.write_max = write_max
        parts = parts_of(sizes)
        write(file, parts, position)
    written = b"".join(parts)
    end = position + len(written)
    found = file.content()

    assert found[:position] == BEFORE[:position]
    assert found[position:end] == written
    assert found[end:] == BEFORE[end:]


@given(position=st.integers(0, 3 * BLOCK_BYTES), size=st.integers(LARGE, 6 * BLOCK_BYTES))
def test_no_block_is_written_both_directly_and_buffered(position, size):
    """Whole blocks are written directly, shared ones through the page cache."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(large_writes, "LARGE_WRITE_BYTES_MIN", LARGE)
        file = file_of(MemoryFileSystem(), DIRECTORY)
        write(file, parts_of([size]), position)

    def blocks(spans):
        return [block for at, count in spans for block in range(at // BLOCK_BYTES, -(-(at + count) // BLOCK_BYTES))]

    cached, direct = blocks(file.cached), blocks(file.direct)
    assert not set(cached) & set(direct)
    assert len(cached) <= 2
    assert sorted({*cached, *direct}) == list(range(position // BLOCK_BYTES, (position + size - 1) // BLOCK_BYTES + 1))


def test_small_writes_go_through_the_page_cache():
    file = file_of(MemoryFileSystem(), DIRECTORY)
    write(file, parts_of([LARGE_WRITE_BYTES_MIN - 1]), 0)
    assert file.direct == []
    write(file, parts_of([LARGE_WRITE_BYTES_MIN]), 0)
    assert file.direct == [(0, LARGE_WRITE_BYTES_MIN)]


def test_direct_writes_are_tried_once_if_unsupported():
    files = MemoryFileSystem()
    files.is_direct_possible = False
    file = file_of(files, DIRECTORY)
    writer = LargeWriter()
    for number in range(3):
        parts = parts_of([LARGE_WRITE_BYTES_MIN + number])
        writer.write(file, parts, len(parts[0]), 7)
        assert file.content()[7:] == parts[0]
    assert len(file.direct) == 1


@pytest.mark.parametrize("size", [LARGE_WRITE_BYTES_MIN, STAGING_BYTES + 1, 3 * STAGING_BYTES + 12_345])
def test_a_real_disk_holds_the_same(tmp_path, size):
    """Buffered and direct reads see the data right after the write."""
    file = file_of(SystemFileSystem(), tmp_path)
    written = mmap.mmap(-1, size)
    written[:] = bytes(range(251)) * (size // 251) + bytes(size % 251)
    write(file, [b"header", memoryview(written)], len(BEFORE) - 100)

    assert file.direct
    assert file.content()[len(BEFORE) - 100 :][: size + 6] == b"header" + written[:]
