"""Features of files in memory beyond those of a disk; the common contract is in test_file_system.py."""

import threading
from pathlib import Path

from pipeline_broker.files.file_system import write_all
from pipeline_broker.files.memory_files import MemoryFiles

ROOT = Path("/data")


def test_a_copy_changes_independently():
    files = MemoryFiles()
    files.make_directory(ROOT)
    files.open(ROOT / "a", create=True).write([b"before"], 0)

    copied = files.copy()
    files.open(ROOT / "a").write([b"behind"], 0)
    copied.open(ROOT / "b", create=True)

    assert copied.open(ROOT / "a").read(100, 0) == b"before"
    assert files.open(ROOT / "a").read(100, 0) == b"behind"
    assert files.list_directory(ROOT) == ["a"]


def test_the_locks_of_a_copy_are_free():
    files = MemoryFiles()
    lock = files.lock(ROOT / ".lock")

    files.copy().lock(ROOT / ".lock").release()

    assert lock.is_in_place()


def test_a_copy_is_a_consistent_snapshot():
    """Of two files that are written one after the other, no copy has the second and lacks the first."""
    files = MemoryFiles()
    files.make_directory(ROOT)
    first, second = files.open(ROOT / "1", create=True), files.open(ROOT / "2", create=True)
    is_over = threading.Event()

    def write():
        number = 0
        while not is_over.is_set():
            number += 1
            write_all(first, [b"%08d" % number], 0)
            write_all(second, [b"%08d" % number], 0)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for _ in range(300):
            copied = files.copy()
            ahead, behind = (int(copied.open(ROOT / name).read(8, 0) or b"0") for name in "12")
            assert ahead - behind in (0, 1)
    finally:
        is_over.set()
        writer.join()


def test_the_size_of_a_file_is_that_of_its_data():
    files = MemoryFiles()
    file = files.open(ROOT / "a", create=True)
    file.write([b"abc"], 5)
    assert (file.size_bytes(), files.used_bytes) == (8, 8)
    file.truncate(10)
    assert file.read(100, 0) == b"\0" * 5 + b"abc\0\0"


def test_directories_in_a_directory_are_found_from_the_top():
    files = MemoryFiles()
    files.make_directory(ROOT / "deep" / "deeper")
    assert files.list_directories(Path("/")) == ["data"]
    assert files.list_directories(ROOT) == ["deep"]
    assert files.list_directories(ROOT / "deep") == ["deeper"]
