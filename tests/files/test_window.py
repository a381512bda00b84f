"""Windows into files: searches do not depend on the window size, and holes cost nothing."""

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline_broker.files import window
from pipeline_broker.files.file_system import SystemFileSystem
from pipeline_broker.files.memory_files import MemoryFiles
from pipeline_broker.files.window import Window

GIB = 1 << 30
PATH = Path("/d/a")


def file_of(content, files, path):
    file = files.open(path, create=True)
    file.write([content], 0)
    return file


class Counting:
    def __init__(self, file):
        self._file, self.read_bytes, self.largest = file, 0, 0
        self.size_bytes, self.data_from = file.size_bytes, file.data_from

    def read(self, size_bytes, position):
        found = self._file.read(size_bytes, position)
        self.read_bytes += len(found)
        self.largest = max(self.largest, len(found))
        return found


@given(
    content=st.lists(st.sampled_from([b"P", b"B", b"PB", b"PBMF", b"\0", b"\0" * 9]), max_size=30).map(b"".join),
    position=st.integers(0, 40),
    window_bytes=st.integers(1, 40),
)
def test_a_pattern_is_found_wherever_a_piece_ends(content, position, window_bytes):
    found = Window(file_of(content, MemoryFiles(), PATH), window_bytes).find(b"PBMF", position)
    assert found == content.find(b"PBMF", position)


@given(st.binary(max_size=50), st.integers(1, 20), st.integers(0, 50), st.integers(0, 60))
def test_pieces_are_the_bytes_between_two_positions(content, window_bytes, start, end):
    pieces = list(Window(file_of(content, MemoryFiles(), PATH), window_bytes).pieces(start, end))
    assert b"".join(bytes(piece) for piece in pieces) == content[start:end]
    assert all(len(piece) <= window_bytes for piece in pieces)


def test_a_hole_of_gibibytes_is_not_read(tmp_path):
    files, path = SystemFileSystem(), tmp_path / "a"
    file_of(b"PBM", files, path)
    os.truncate(path, 40 * GIB)
    with path.open("r+b") as file:
        file.seek(30 * GIB + 5)
        file.write(b"PBMF")
    counting = Counting(files.open(path))
    assert Window(counting).find(b"PBMF", 0) == 30 * GIB + 5
    assert Window(counting).find(b"PBMF", 30 * GIB + 6) == -1
    assert counting.read_bytes < 32 << 20
    assert counting.largest <= window.WINDOW_BYTES


def test_a_pattern_of_zeros_would_be_in_every_hole(tmp_path):
    with pytest.raises(AssertionError, match="hole"):
        Window(file_of(b"", SystemFileSystem(), tmp_path / "a")).find(b"\0\0", 0)
