"""A segment store in a directory: replaced and deleted files, and power cuts."""

import pytest

from pipeline_broker.files.errors import SyncError
from pipeline_broker.files.file_system import BLOCK_BYTES, SystemFileSystem
from pipeline_broker.files.large_writes import LARGE_WRITE_BYTES_MIN
from pipeline_broker.log.archive.local import local_store
from pipeline_broker.log.archive.local.local_store import LocalStore
from tests.belongings import belongings
from tests.files.memory_file_system import MemoryFileSystem
from tests.log.archive.test_store import BASE, memory_store


def goes_by_its_name(store):
    store.delete(["t-0/a.log"])


def goes_with_its_folder(store):
    store.delete_folder("t-0", ["t-0/a.log"])


def is_replaced(store):
    store.write("t-0/b.log", [b"another"], 0)
    store.replace("t-0/b.log", "t-0/a.log")
    store.delete(["t-0/a.log"])


@pytest.mark.parametrize("goes", [goes_by_its_name, goes_with_its_folder, is_replaced])
@pytest.mark.parametrize("is_synced", [False, True])
def test_a_recreated_file_is_independent_of_the_old_one(goes, is_synced):
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


def test_deleted_files_do_not_reappear_after_a_power_cut():
    files = MemoryFileSystem()
    store = memory_store(files)
    store.write("t-0/a.log", [b"content"], 0)
    store.sync(["t-0/a.log"])
    store.delete(["t-0/a.log"])
    files.power_cut(lambda n: 0)
    assert memory_store(files).names("t-0") == []


@pytest.mark.parametrize("is_real", [False, True])
def test_large_writes_are_read_back_among_any_others(is_real, tmp_path):
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


def test_large_writes_bypass_the_page_cache_and_are_durable_after_a_sync():
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


def watched(files):
    asked = []
    files.before = lambda operation, path: asked.append((operation, path.name))
    return asked


def test_a_file_is_truncated_only_if_it_is_longer_than_the_write():
    files = MemoryFileSystem()
    store = memory_store(files)
    store.write("t-0/a.log", [b"012345"], 0)
    asked = watched(files)
    store.write("t-0/a.log", [b"345"], 3)
    assert asked == [("write", "a.log")]
    store.write("t-0/a.log", [b"3"], 3)
    assert asked[1:] == [("write", "a.log"), ("truncate", "a.log")]


def test_read_ahead_is_passed_to_the_file_system():
    files = MemoryFileSystem()
    store = memory_store(files)
    store.write("t-0/a.log", [b"content"], 0)
    asked = watched(files)
    store.read_ahead("t-0/a.log", 3, 1)
    assert asked == [("open", "a.log"), ("read ahead", "a.log")]


def test_the_file_that_waits_longest_for_its_sync_makes_room_by_it(monkeypatch):
    monkeypatch.setattr(local_store, "FILES_UNSYNCED_MAX", 2)
    files = MemoryFileSystem()
    store = memory_store(files)
    store.write("t-0/a.log", [b"a"], 0)
    store.write("t-0/b.log", [b"b"], 0)
    asked = watched(files)
    store.write("t-0/c.log", [b"c"], 0)
    assert [name for operation, name in asked if operation == "sync"] == ["a.log"]


def lose_writes_of(files, name):
    """Fail the write-back of a file, and report the error to the descriptors that have it open."""

    def fail(operation, _path):
        if operation == "sync":
            raise OSError

    other = files.open(BASE / name)
    files.before = fail
    with pytest.raises(SyncError):
        other.sync_data()
    files.before = lambda _operation, _path: None


def test_a_lost_write_is_reported_by_the_sync():
    files = MemoryFileSystem()
    store = memory_store(files)
    store.write("t-0/a.log", [b"lost"], 0)
    lose_writes_of(files, "t-0/a.log")
    with pytest.raises(SyncError):
        store.sync(["t-0/a.log"])


def test_a_lost_write_of_a_replaced_file_does_not_matter():
    files = MemoryFileSystem()
    store = memory_store(files)
    store.write("t-0/a.log", [b"lost"], 0)
    store.write("t-0/b.log", [b"another"], 0)
    lose_writes_of(files, "t-0/a.log")
    store.replace("t-0/b.log", "t-0/a.log")
    files.power_cut(lambda n: 0)
    assert bytes(memory_store(files).read("t-0/a.log", 10, 0)) == b"another"


def test_a_closed_store_holds_no_file_open(tmp_path):
    def open_files():
        return sorted(it for it in belongings().descriptors if it.startswith(str(tmp_path)))

    store = LocalStore(SystemFileSystem(), tmp_path / "archive")
    for name in ("t-0/read.log", "t-0/written.log"):
        store.write(name, [b"x"], 0)
    store.sync(["t-0/read.log"])
    store.read("t-0/read.log", 1, 0)
    assert open_files() == [str(tmp_path / "archive" / "t-0" / name) for name in ("read.log", "written.log")]
    store.close()
    assert open_files() == []


def test_a_directory_that_has_the_name_of_a_file_is_not_deleted(tmp_path):
    store = LocalStore(SystemFileSystem(), tmp_path)
    for name in ("t-0/a.log", "t-0/b.log"):
        store.write(name, [b"x"], 0)
    store.sync(["t-0/a.log", "t-0/b.log"])
    (tmp_path / "t-0/c.log").mkdir()
    store.delete(["t-0/a.log", "t-0/c.log"])
    store.delete_folder("t-0", ["t-0/b.log", "t-0/c.log"])
    store.close()
    assert [str(path.relative_to(tmp_path)) for path in sorted(tmp_path.rglob("*"))] == ["t-0", "t-0/c.log"]
