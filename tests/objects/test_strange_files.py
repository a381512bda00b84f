"""Foreign files in the directory of a store, and other kinds of files with names of objects."""

import os
import time
from pathlib import Path

import pytest

from pipeline_broker.files.file_system import SystemFileSystem
from pipeline_broker.objects.directory_store import DirectoryStore
from pipeline_broker.objects.settled_store import SettledStore
from pipeline_broker.objects.store import NotAnObject, list_all
from tests.files.memory_file_system import MemoryFileSystem

ROOT = Path("/store")
STRANGE_NAMES = (b"a b", b"\xff", b"new\nline", b"~", "\uff15".encode())


def test_foreign_files_are_not_objects_and_stay(tmp_path):
    store = DirectoryStore(SystemFileSystem(), tmp_path)
    store.create("log/1", [b"one"])
    store.create("log/2", [b"two"])
    for name in STRANGE_NAMES:
        (tmp_path / "log" / os.fsdecode(name)).write_bytes(bytes(20))
    os.mkfifo(tmp_path / "log/pipe")
    (tmp_path / "log/short").write_bytes(b"x")
    (tmp_path / "log/away").symlink_to("/etc/passwd")
    (tmp_path / "+writing/mine").mkdir()
    (tmp_path / "+writing/mine/note").write_bytes(b"stray")
    before = sorted(tmp_path.rglob("*"))
    for _ in range(2):
        store = DirectoryStore(SystemFileSystem(), tmp_path)
        assert [each.name for each in list_all(store, "log/")] == ["log/1", "log/2"]
        assert [each.name for each in list_all(store, "")] == ["log/1", "log/2"]
    assert set(before) - set(tmp_path.rglob("*")) == {
        store for store in before if "+writing/" in str(store) and "mine" not in str(store)
    }


@pytest.mark.parametrize(
    "make", [os.mkfifo, lambda path: path.write_bytes(b"x"), lambda path: path.symlink_to("/etc/passwd")]
)
def test_another_kind_of_file_with_the_name_of_an_object_is_reported_and_not_retried(tmp_path, make):
    store = DirectoryStore(SystemFileSystem(), tmp_path)
    store.create("log/1", [b"one"])
    (tmp_path / "log/1").unlink()
    make(tmp_path / "log/1")
    pauses = []
    settled = SettledStore(store, lambda seconds, error: pauses.append(error))
    for use in (lambda: settled.read("log/1", 0, 10), lambda: settled.create("log/1", [b"other"])):
        with pytest.raises(NotAnObject, match=r"log/1.*move it out of the directory"):
            use()
    assert pauses == []


def test_a_page_costs_one_sync_of_each_directory(tmp_path):
    files = MemoryFileSystem()
    writer = DirectoryStore(files, ROOT)
    for number in range(20):
        writer.create(f"{number % 2}/{number:02d}", [b"x"])
    reader, syncs = DirectoryStore(files, ROOT), []
    files.before = lambda operation, path: syncs.append(path) if operation == "sync directory" else None
    assert len(reader.list("")) == 20
    assert syncs == [ROOT / "0", ROOT / "1"]
    assert len(reader.list("")) == 20
    assert len(syncs) == 2


def test_objects_among_tens_of_thousands_of_foreign_files_are_listed_in_seconds(tmp_path):
    store = DirectoryStore(SystemFileSystem(), tmp_path)
    store.create("log/m", [b"ours"])
    for number in range(30_000):
        (tmp_path / f"log/stranger {number}").touch()
        (tmp_path / f"log/n{number}").touch()
    began = time.process_time()
    assert [each.name for each in list_all(store, "log/")] == ["log/m"]
    assert time.process_time() - began < 10
