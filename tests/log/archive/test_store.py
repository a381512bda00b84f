"""The contract of segment stores, for a directory, memory, chunks and bulk objects."""

import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline_broker.files.file_system import SystemFileSystem
from pipeline_broker.log.archive.local import local_store
from pipeline_broker.log.archive.local.local_store import LocalStore
from pipeline_broker.log.errors import ShortFile
from tests.files.memory_file_system import MemoryFileSystem
from tests.log.archive.chunk_store import ChunkStore
from tests.log.archive.objects.object_stores import object_store

BASE = Path("/data/archive")


class PowerCut(Exception):
    pass


def memory_store(files=None):
    files = MemoryFileSystem() if files is None else files
    files.make_directory(BASE.parent)
    return LocalStore(files, BASE)


@pytest.fixture(params=["directory", "memory", "chunks", "objects"])
def store(request, tmp_path):
    stores = {
        "directory": lambda: LocalStore(SystemFileSystem(), tmp_path / "archive"),
        "memory": memory_store,
        "chunks": ChunkStore,
        "objects": object_store,
    }
    store = stores[request.param]()
    yield store
    store.close()


def test_written_bytes_are_read_in_any_piece(store):
    store.write("t-0/a.log", [b"one", memoryview(b"two")], 0)
    store.write("t-0/a.log", [bytearray(b"three")], 6)

    assert bytes(store.read("t-0/a.log", 100, 0)) == b"onetwothree"
    for start in range(12):
        for size in range(12):
            assert bytes(store.read("t-0/a.log", size, start)) == b"onetwothree"[start : start + size]
    assert store.size_bytes("t-0/a.log") == 11


def test_a_second_read_does_not_wait(store):
    store.write("t-0/a.log", [b"content"], 0)
    store.read("t-0/a.log", 1, 0)

    assert bytes(store.read_cached("t-0/a.log", 3, 2)) == b"nte"
    assert bytes(store.read_cached("t-0/a.log", 7, 0)) == b"content"
    assert store.read_cached("t-0/a.log", 8, 0) is None, "there are only seven bytes"
    assert store.read_cached("t-0/none.log", 1, 0) is None
    store.read_ahead("t-0/a.log", 1 << 20, 3)


def test_a_write_truncates_the_file_after_it(store):
    store.write("t-0/a.log", [b"one", b"two", b"three"], 0)
    store.write("t-0/a.log", [b"XY"], 4)
    assert bytes(store.read("t-0/a.log", 100, 0)) == b"onetXY"
    store.write("t-0/a.log", [], 3)
    assert bytes(store.read("t-0/a.log", 100, 0)) == b"one"
    store.write("t-0/a.log", [b"longer"], 1)
    assert bytes(store.read("t-0/a.log", 100, 0)) == b"olonger"


def test_a_write_beyond_the_end_is_refused_and_changes_nothing(store):
    store.write("t-0/a.log", [b"one"], 0)

    with pytest.raises(ShortFile, match=r"t-0/a\.log ends at byte 3"):
        store.write("t-0/a.log", [b"x"], 4)

    assert bytes(store.read("t-0/a.log", 100, 0)) == b"one"


def test_folders_and_names_are_created_and_deleted(store):
    assert store.folders() == []
    assert store.names("t-0") == []
    for name in ("t-1/b.log", "t-0/a.log", "t-1/a.log"):
        store.write(name, [b"x"], 0)
    store.write("t-1/empty.index", [], 0)
    store.sync(["t-1/b.log", "t-0/a.log", "t-1/a.log", "t-1/empty.index"])

    assert store.folders() == ["t-0", "t-1"]
    assert store.names("t-1") == ["a.log", "b.log", "empty.index"]
    assert store.size_bytes("t-1/empty.index") == 0
    store.delete(["t-1/b.log", "t-1/absent.log", "absent-0/a.log"])
    assert store.names("t-1") == ["a.log", "empty.index"]
    for _ in range(2):
        store.delete_folder("t-1", ["t-1/a.log", "t-1/empty.index"])
    assert store.folders() == ["t-0"]
    assert store.names("t-1") == []
    store.write("t-1/a.log", [b"again"], 0)
    assert bytes(store.read("t-1/a.log", 100, 0)) == b"again"


def test_a_replaced_or_deleted_name_is_never_served_from_before(store):
    store.write("t-0/a.log", [b"old"], 0)
    store.write("t-0/a.log.cleaned", [b"new content"], 0)
    assert bytes(store.read("t-0/a.log", 100, 0)) == b"old"

    store.replace("t-0/a.log.cleaned", "t-0/a.log")

    assert store.names("t-0") == ["a.log"]
    assert store.read_cached("t-0/a.log", 3, 0) in (None, b"new")
    assert bytes(store.read("t-0/a.log", 100, 0)) == b"new content"
    store.write("t-0/a.log", [b"!"], 11)
    assert bytes(store.read("t-0/a.log", 100, 0)) == b"new content!"
    store.delete(["t-0/a.log"])
    assert store.read_cached("t-0/a.log", 1, 0) is None
    for ask in (lambda: store.read("t-0/a.log", 1, 0), lambda: store.size_bytes("t-0/a.log")):
        with pytest.raises(FileNotFoundError):
            ask()


@pytest.mark.parametrize("name", ["a.log", "/a.log", "t-0/", "t-0/b/a.log", "../a.log", "t-0/..", ""])
def test_only_a_file_in_a_folder_has_a_name(store, name):
    with pytest.raises(AssertionError):
        store.replace(name, "t-0/a.log")


def test_free_bytes_is_a_number(store):
    assert store.free_bytes() > 0


@given(st.lists(st.tuples(st.integers(0, 40), st.lists(st.binary(max_size=9), max_size=4)), max_size=12))
def test_any_sequence_of_writes_matches_a_list_of_bytes(writes):
    model = b""
    stores = [memory_store(), ChunkStore(), object_store(object_bytes_max=10)]
    for position, parts in writes:
        position = min(position, len(model))
        model = model[:position] + b"".join(parts)
        for store in stores:
            store.write("t-0/a.log", parts, position)
            assert bytes(store.read("t-0/a.log", 1000, 0)) == model


class TestOpenFiles:
    def test_files_open_for_reading_are_bounded_and_the_last_used_stay(self, tmp_path):
        store = LocalStore(SystemFileSystem(), tmp_path / "archive", files_open_max=2)
        names = [f"t-0/{number}.log" for number in range(3)]
        for name in names:
            store.write(name, [b"x"], 0)
        store.sync(names)
        store.read(names[0], 1, 0)
        store.read(names[1], 1, 0)
        store.read_cached(names[0], 1, 0)
        store.read(names[2], 1, 0)

        assert [store.read_cached(name, 1, 0) is not None for name in names] == [True, False, True]
        assert len(store._open) == 2

    def test_files_open_for_writing_are_bounded_and_still_synced(self, monkeypatch):
        monkeypatch.setattr(local_store, "FILES_UNSYNCED_MAX", 3)
        files = MemoryFileSystem()
        store = memory_store(files)
        names = [f"t-0/{number}.log" for number in range(10)]
        for name in names:
            store.write(name, [name.encode()], 0)
            assert len(store._unsynced) <= 3
        store.sync(names)
        files.power_cut(lambda n: 0)
        assert [bytes(memory_store(files).read(name, 100, 0)).decode() for name in names] == names

    def test_a_file_opened_while_its_name_was_replaced_is_not_kept(self):
        """A reader has opened the old file when the writer replaces it, and keeps on only afterwards."""
        files = MemoryFileSystem()
        store = memory_store(files)
        store.write("t-0/a.log", [b"old"], 0)
        store.write("t-0/b.log", [b"new"], 0)
        opened, replaced = threading.Event(), threading.Event()
        original = files.open

        def slow_open(path, *, create=False):
            file = original(path, create=create)
            opened.set()
            assert replaced.wait(10)
            return file

        files.open = slow_open
        reader = threading.Thread(target=store.read, args=("t-0/a.log", 3, 0))
        reader.start()
        assert opened.wait(10)
        files.open = original
        store.replace("t-0/b.log", "t-0/a.log")
        replaced.set()
        reader.join()

        assert bytes(store.read("t-0/a.log", 3, 0)) == b"new"


class TestPowerCut:
    """Each promise with its negative control: the same without the one sync that it needs must be missed."""

    def content(self, files, name="t-0/a.log"):
        try:
            return bytes(memory_store(files).read(name, 1 << 20, 0))
        except FileNotFoundError:
            return None

    def files_without_sync_of(self, *directories):
        class Forgetful(MemoryFileSystem):
            def settle_names(self, directory):
                if directory not in directories:
                    super().settle_names(directory)

        return Forgetful()

    def synced(self, files):
        store = memory_store(files)
        store.write("t-0/a.log", [b"old"], 0)
        store.sync(["t-0/a.log"])
        return store

    def test_what_was_synced_survives_with_its_names(self):
        files = MemoryFileSystem()
        self.synced(files)
        files.power_cut(lambda n: 0)
        assert self.content(files) == b"old"

    def test_what_was_not_synced_may_be_lost(self):
        files = MemoryFileSystem()
        store = self.synced(files)
        store.write("t-0/a.log", [b" and more"], 3)
        files.power_cut(lambda n: 0)
        assert self.content(files) == b"old"

    def test_a_sync_of_the_data_left_out_is_missed(self):
        class Forgetful(MemoryFileSystem):
            def settle(self, content):
                pass

        files = Forgetful()
        self.synced(files)
        files.power_cut(lambda n: 0)
        assert self.content(files) == b""

    @pytest.mark.parametrize("directory", [BASE / "t-0", BASE, BASE.parent])
    def test_a_sync_of_a_name_left_out_is_missed(self, directory):
        files = self.files_without_sync_of(directory)
        self.synced(files)
        files.power_cut(lambda n: 0)
        assert self.content(files) is None

    def test_names_that_an_earlier_process_left_unsynced_are_synced(self):
        files = MemoryFileSystem()
        memory_store(files).write("t-0/a.log", [b"old"], 0)
        files.kill()
        memory_store(files).sync(["t-0/a.log"])
        files.power_cut(lambda n: 0)
        assert self.content(files) == b"old"

    def test_every_directory_is_synced_once_and_again_only_when_names_changed(self):
        files = MemoryFileSystem()
        store = memory_store(files)
        synced = []
        files.before = lambda operation, path: synced.append(path) if operation == "sync directory" else None
        names = ["t-0/a.log", "t-0/a.index", "t-1/a.log"]
        for name in names:
            store.write(name, [b"x"], 0)
        store.sync(names)
        assert sorted(synced) == [BASE, BASE / "t-0", BASE / "t-1"]
        synced.clear()
        for name in names:
            store.write(name, [b"y"], 1)
        store.write("t-1/b.log", [b"x"], 0)
        store.sync([*names, "t-1/b.log"])
        assert synced == [BASE / "t-1"]

    def replace(self, files):
        store = self.synced(files)
        store.write("t-0/b.log", [b"new"], 0)
        store.replace("t-0/b.log", "t-0/a.log")
        files.power_cut(lambda n: 0)

    def test_a_replaced_file_stays_replaced(self):
        files = MemoryFileSystem()
        self.replace(files)
        assert self.content(files) == b"new"
        assert self.content(files, "t-0/b.log") is None

    def test_a_replacement_whose_name_is_not_synced_is_missed(self):
        files = MemoryFileSystem()
        self.synced(files)
        files.settle_names = lambda directory: None
        store = memory_store(files)
        store.write("t-0/b.log", [b"new"], 0)
        store.replace("t-0/b.log", "t-0/a.log")
        files.power_cut(lambda n: 0)
        assert self.content(files) == b"old"

    def test_a_replacement_whose_data_is_not_synced_is_missed(self, monkeypatch):
        monkeypatch.setattr(LocalStore, "_sync_data", lambda self, name: None)
        files = MemoryFileSystem()
        self.replace(files)
        assert self.content(files) == b""

    @given(st.data())
    def test_a_power_cut_during_a_replacement_leaves_the_old_or_the_new_file(self, data):
        files = MemoryFileSystem()
        store = self.synced(files)
        store.write("t-0/b.log", [b"new"], 0)
        left = data.draw(st.integers(0, 4))

        def cut(_operation, _path):
            nonlocal left
            if left == 0:
                raise PowerCut
            left -= 1

        files.before = cut
        try:
            store.replace("t-0/b.log", "t-0/a.log")
        except PowerCut:
            files.before = lambda operation, path: None
            files.power_cut(lambda n: data.draw(st.integers(0, n)))
        assert self.content(files) in (b"old", b"new")

    def test_what_was_deleted_does_not_come_back(self):
        files = MemoryFileSystem()
        self.synced(files).delete(["t-0/a.log"])
        files.power_cut(lambda n: 0)
        assert self.content(files) is None

    def test_a_deletion_whose_directory_is_not_synced_is_missed(self):
        files = MemoryFileSystem()
        store = self.synced(files)
        files.settle_names = lambda directory: None
        store.delete(["t-0/a.log"])
        files.power_cut(lambda n: 0)
        assert self.content(files) == b"old"

    @pytest.mark.parametrize("is_synced", [True, False])
    def test_a_deleted_folder_does_not_come_back_unless_its_sync_is_left_out(self, is_synced):
        files = MemoryFileSystem()
        store = self.synced(files)
        if not is_synced:
            files.settle_names = lambda directory: None
        store.delete_folder("t-0", ["t-0/a.log"])
        files.power_cut(lambda n: 0)
        files.before = lambda operation, path: None
        assert memory_store(files).folders() == ([] if is_synced else ["t-0"])

    def test_a_failed_sync_is_told_and_what_it_met_is_written_again(self):
        files = MemoryFileSystem()
        store = self.synced(files)
        store.write("t-0/a.log", [b"lost"], 3)

        def fail(operation, _path):
            if operation == "sync":
                raise OSError(5, "no")

        files.before = fail
        with pytest.raises(OSError):
            store.sync(["t-0/a.log"])
        files.before = lambda operation, path: None
        store.write("t-0/a.log", [b" again"], 3)
        store.sync(["t-0/a.log"])
        files.power_cut(lambda n: 0)
        assert self.content(files) == b"old again"
