"""Large reads return the bytes of the file, through the page cache or past it."""

import os
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pipeline_broker.files import large_reads
from pipeline_broker.files.file_system import BLOCK_BYTES, SystemFileSystem
from pipeline_broker.files.large_reads import LARGE_READ_BYTES_MIN, LARGE_WINDOW_BYTES, LargeReader
from tests.files.memory_file_system import MemoryFileSystem

PATH = Path("/memory/f")
SMALL_LIMIT = 2 * BLOCK_BYTES


class Recorded:
    """A file that records how it is read; a direct read may end early, but only at a block."""

    def __init__(self, file, blocks_max=1 << 20):
        self.file = file
        self.blocks_max = blocks_max
        self.cached, self.direct = [], []
        self.size_bytes, self.data_from, self.read_cached = file.size_bytes, file.data_from, file.read_cached

    def read(self, size_bytes, position):
        self.cached.append((position, size_bytes))
        return self.file.read(size_bytes, position)

    def read_blocks(self, blocks, position):
        self.direct.append((position, len(blocks)))
        return self.file.read_blocks(blocks[: self.blocks_max * BLOCK_BYTES], position)


def content_of(size_bytes):
    return bytes(number * 7 % 251 for number in range(size_bytes))


def recorded(size_bytes, *, is_cold=True, is_possible=True, **settings):
    files = MemoryFileSystem()
    file = files.open(PATH, create=True)
    file.write([content_of(size_bytes)], 0)
    files.is_cold, files.is_direct_possible = is_cold, is_possible
    return Recorded(file, **settings)


@given(
    size=st.integers(0, 8 * BLOCK_BYTES),
    wanted=st.integers(1, 6 * BLOCK_BYTES),
    position=st.integers(0, 8 * BLOCK_BYTES),
    is_cold=st.booleans(),
    is_possible=st.booleans(),
    blocks_max=st.integers(1, 3),
)
@example(
    size=3 * BLOCK_BYTES, wanted=2 * BLOCK_BYTES, position=BLOCK_BYTES, is_cold=True, is_possible=True, blocks_max=1
)
@example(
    size=BLOCK_BYTES, wanted=3 * BLOCK_BYTES, position=5 * BLOCK_BYTES, is_cold=True, is_possible=True, blocks_max=2
)
@example(size=0, wanted=3 * BLOCK_BYTES, position=7, is_cold=True, is_possible=True, blocks_max=2)
def test_a_read_returns_the_bytes_of_the_file_and_ends_at_its_end(
    size, wanted, position, is_cold, is_possible, blocks_max
):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(large_reads, "LARGE_READ_BYTES_MIN", SMALL_LIMIT)
        patch.setattr(large_reads, "MEMORY_BYTES", 5 * BLOCK_BYTES)
        file = recorded(size, is_cold=is_cold, is_possible=is_possible, blocks_max=blocks_max)
        source = LargeReader().source(file)
        found = [bytes(source.read(wanted, position)) for _ in range(2)]

    assert found == 2 * [content_of(size)[position : position + wanted]]


@pytest.mark.parametrize(
    ("wanted", "is_cold", "is_direct"),
    [
        (LARGE_READ_BYTES_MIN, True, True),
        (LARGE_READ_BYTES_MIN - 1, True, False),
        (LARGE_READ_BYTES_MIN, False, False),
        (LARGE_WINDOW_BYTES, True, True),
        (LARGE_WINDOW_BYTES + 3 * BLOCK_BYTES, True, False),
    ],
)
def test_only_large_reads_of_data_that_is_not_cached_bypass_the_page_cache(wanted, is_cold, is_direct):
    file = recorded(LARGE_READ_BYTES_MIN + 5, is_cold=is_cold)
    LargeReader().read(file, wanted, 5)
    assert bool(file.direct) == is_direct
    assert bool(file.cached) != is_direct


def test_a_file_system_without_direct_reads_is_asked_once():
    file = recorded(LARGE_READ_BYTES_MIN, is_possible=False)
    reader = LargeReader()
    for _ in range(3):
        assert len(reader.read(file, LARGE_READ_BYTES_MIN, 0)) == LARGE_READ_BYTES_MIN
    assert len(file.direct) == 1


def test_a_real_disk_returns_the_same_bytes(tmp_path):
    written = content_of(LARGE_READ_BYTES_MIN) * 5
    file = SystemFileSystem().open(tmp_path / "a", create=True)
    file.write([written], 0)
    file.sync_data()
    os.posix_fadvise(file.descriptor(), 0, 0, os.POSIX_FADV_DONTNEED)
    source = LargeReader().source(file)

    for position in (0, 1, BLOCK_BYTES - 1, LARGE_READ_BYTES_MIN + 12_345):
        assert bytes(source.read(3 * LARGE_READ_BYTES_MIN, position)) == written[position:][: 3 * LARGE_READ_BYTES_MIN]
    assert source.size_bytes() == len(written)
    assert source.data_from(7) == 7
