"""A store in a directory: what takes the place of a file, and what a power cut leaves of one that went."""

import pytest

from pipeline_broker.files.file_system import BLOCK_BYTES, SystemFileSystem
from pipeline_broker.files.large_writes import LARGE_WRITE_BYTES_MIN
from pipeline_broker.log.archive.local_store import LocalStore
from tests.files.memory_file_system import MemoryFileSystem
from tests.log.archive.test_store import memory_store


def goes_by_its_name(store):
    store.delete(["t-0/a.log"])


def goes_with_its_folder(store):
    store.delete_folder("t-0")


def is_replaced(store):
    store.write("t-0/b.log", [b"another"], 0)
    store.replace("t-0/b.log", "t-0/a.log")
    store.delete(["t-0/a.log"])


@pytest.mark.parametrize("goes", [goes_by_its_name, goes_with_its_folder, is_replaced])
@pytest.mark.parametrize("is_synced", [False, True])
def test_a_file_that_is_written_anew_has_nothing_to_do_with_the_one_that_had_its_name(goes, is_synced):
    """Whatever of it was open for reading or writing, and whatever was known to be durable of its folder."""
    files = MemoryFileSystem()
    store = memory_store(files)
    store.write("t-0/a.log", [b"the former one"], 0)
    if is_synced:
        store.sync(["t-0/a.log"])
    store.read("t-0/a.log", 1, 0)
    goes(store)
    assert store.read_cached("t-0/a.log", 1, 0) is None
    store.write("t-0/a.log", [b"new"], 0)
    store.sync(["t-0/a.log"])
    assert bytes(store.read("t-0/a.log", 100, 0)) == b"new"
    files.power_cut(lambda n: 0)
    again = memory_store(files)
    assert bytes(again.read("t-0/a.log", 100, 0)) == b"new"
    assert again.names("t-0") == ["a.log"]


def test_what_was_deleted_does_not_come_back_with_a_power_cut():
    files = MemoryFileSystem()
    store = memory_store(files)
    store.write("t-0/a.log", [b"content"], 0)
    store.sync(["t-0/a.log"])
    store.delete(["t-0/a.log"])
    files.power_cut(lambda n: 0)
    assert memory_store(files).names("t-0") == []


@pytest.mark.parametrize("is_real", [False, True])
def test_large_pieces_come_back_as_they_were_written_whatever_came_before_and_after(is_real, tmp_path):
    """They go past the page cache, small ones through it; a piece that is written again cuts off what followed it."""
    store = LocalStore(SystemFileSystem(), tmp_path / "archive") if is_real else memory_store(MemoryFileSystem())
    pieces = [b"1" * 100, b"2" * (LARGE_WRITE_BYTES_MIN + 77), b"3" * (BLOCK_BYTES + 1), b"4" * (3 << 20)]
    written = b""
    for piece in pieces:
        store.write("t-0/a.log", [piece[:50], piece[50:]], len(written))
        written += piece
        assert bytes(store.read("t-0/a.log", len(written) + 1, 0)) == written
    again = b"5" * (LARGE_WRITE_BYTES_MIN + BLOCK_BYTES)
    store.write("t-0/a.log", [again], 100)
    store.sync(["t-0/a.log"])
    assert bytes(store.read("t-0/a.log", len(written), 0)) == b"1" * 100 + again
    store.close()


def test_large_pieces_leave_no_pages_behind_and_are_durable_when_they_are_synced():
    files = MemoryFileSystem()
    store = memory_store(files)
    seen = []
    files.before = lambda operation, _path: seen.append(operation)
    store.write("t-0/a.log", [b"small"], 0)
    assert "write blocks" not in seen
    store.write("t-0/a.log", [bytes(LARGE_WRITE_BYTES_MIN)], 5)
    assert "write blocks" in seen
    store.sync(["t-0/a.log"])
    files.power_cut(lambda n: 0)
    assert bytes(memory_store(files).read("t-0/a.log", 1 << 20, 0)) == b"small" + bytes(LARGE_WRITE_BYTES_MIN)


def test_a_name_that_was_given_to_another_file_is_durable_also_where_both_had_been():
    files = MemoryFileSystem()
    store = memory_store(files)
    for name, data in (("t-0/a.log", b"before"), ("t-0/b.log", b"after")):
        store.write(name, [data], 0)
        store.sync([name])
    store.replace("t-0/b.log", "t-0/a.log")
    files.power_cut(lambda n: 0)
    again = memory_store(files)
    assert again.names("t-0") == ["a.log"]
    assert bytes(again.read("t-0/a.log", 10, 0)) == b"after"
