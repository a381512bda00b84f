"""Objects in a directory, and the answers about them, survive a power cut."""

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline_broker.files.errors import SyncError
from pipeline_broker.files.file_system import ReadOnlyFileSystem, SystemFileSystem
from pipeline_broker.objects.directory_store import LOCK, LOCK_WAIT_SECONDS_MAX, WRITING, DirectoryStore
from pipeline_broker.objects.store import (
    Changed,
    Exists,
    Missing,
    NotAnObject,
    Unavailable,
    Unsure,
    list_all,
)
from tests.crashes.lengths import examples
from tests.files.memory_file_system import MemoryFileSystem

ROOT = Path("/store")
NAMES = ("a", "b/1", "b/2", "c/d/e")


class PowerOff(Exception):
    pass


def content_of(store, name):
    try:
        return bytes(store.read(name, 0, 1 << 20).data)
    except Missing:
        return None


def carry_out(store, operation, name, content, known):
    """Do one operation of a user of the store, and keep the known durable content in `known`."""
    before = known.get(name)
    known[name] = {before, content if operation != "delete" else None} if not isinstance(before, set) else before
    try:
        if operation == "create":
            store.create(name, [content])
        elif operation == "replace":
            store.replace(name, [content], store.read(name, 0, 1).tag)
        elif operation == "upload":
            store.upload(name, [content])
        else:
            store.delete([name])
    except (Exists, Changed, Missing):
        known[name] = before
        return
    known[name] = None if operation == "delete" else content


operations = st.lists(
    st.tuples(st.sampled_from(["create", "replace", "upload", "delete"]), st.sampled_from(NAMES)),
    min_size=1,
    max_size=8,
)


@settings(max_examples=examples(300), deadline=None)
@given(operations, st.integers(0, 120), st.data())
def test_answered_writes_survive_a_power_cut_at_any_call(asked, calls, data):
    run_power_cut(MemoryFileSystem(), asked, calls, lambda n: data.draw(st.integers(0, n)))


def run_power_cut(files, asked, calls, choose):
    left = [calls]

    def before(_operation, _path):
        left[0] -= 1
        if left[0] < 0:
            raise PowerOff

    known = {}
    store = DirectoryStore(files, ROOT)
    files.before = before
    try:
        for number, (operation, name) in enumerate(asked):
            carry_out(store, operation, name, b"content %d" % number, known)
    except PowerOff:
        pass
    files.before = lambda _operation, _path: None
    files.power_cut(choose)

    store = DirectoryStore(files, ROOT)
    for name, allowed in known.items():
        found = content_of(store, name)
        assert found in allowed if isinstance(allowed, set) else found == allowed, name
    assert {each.name for each in list_all(store, "")} == {
        name for name in NAMES if content_of(store, name) is not None
    }
    assert files.list_directories(ROOT / WRITING) == [store._own_directory.name], "unfinished files are removed"


class SyncsNoData(MemoryFileSystem):
    def settle(self, content):
        content.pending.clear()


class SyncsNoNames(MemoryFileSystem):
    def settle_names(self, directory):
        pass


@pytest.mark.parametrize("files", [SyncsNoData, SyncsNoNames])
def test_a_sync_left_out_is_noticed(files):
    with pytest.raises((AssertionError, FileNotFoundError, NotAnObject)):
        run_power_cut(files(), [("create", "b/1"), ("upload", "a")], 1000, lambda _: 0)


def test_an_object_of_another_process_is_durable_before_it_is_reported():
    """The other process has linked its object and not synced the directory yet."""
    for tell in (
        lambda store: content_of(store, "b/1") == b"shown",
        lambda store: [each.name for each in list_all(store, "")] == ["b/0", "b/1"],
        lambda store: is_taken(store, "b/1"),
    ):
        files = MemoryFileSystem()
        first, second = DirectoryStore(files, ROOT), DirectoryStore(files, ROOT)
        first.create("b/0", [b"before"])

        def cut(operation, path):
            if (operation, path) == ("sync directory", ROOT / "b"):
                raise PowerOff

        files.before = cut
        with pytest.raises(PowerOff):
            first.create("b/1", [b"shown"])
        files.before = lambda _operation, _path: None
        assert tell(second)
        files.power_cut(lambda _: 0)
        assert content_of(DirectoryStore(files, ROOT), "b/1") == b"shown"


def test_a_deletion_in_several_directories_is_durable_in_each():
    files = MemoryFileSystem()
    store = DirectoryStore(files, ROOT)
    for name in NAMES:
        store.create(name, [b"content"])
    store.delete(NAMES)
    files.power_cut(lambda _: 0)
    assert list(list_all(DirectoryStore(files, ROOT), "")) == []


class OnceTooManyFiles:
    """Fails to open the first directory to sync, which is not a failure of the disk."""

    def __init__(self, directory):
        self.left = [("sync directory", directory)]

    def __call__(self, operation, path):
        if (operation, path) in self.left:
            self.left.remove((operation, path))
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))


def test_a_directory_is_made_durable_before_an_object_in_it_is_reported():
    files = MemoryFileSystem()
    store = DirectoryStore(files, ROOT)
    files.before = OnceTooManyFiles(ROOT)
    with pytest.raises(Unavailable):
        store.create("b/1", [b"content"])
    store.create("b/1", [b"content"])
    files.power_cut(lambda _: 0)
    assert content_of(DirectoryStore(files, ROOT), "b/1") == b"content"


def test_a_name_is_made_durable_before_its_object_is_returned():
    files = MemoryFileSystem()
    first, second = DirectoryStore(files, ROOT), DirectoryStore(files, ROOT)
    first.create("b/0", [b"before"])
    files.before = OnceTooManyFiles(ROOT / "b")
    with pytest.raises(Unsure):
        first.create("b/1", [b"shown"])
    files.before = OnceTooManyFiles(ROOT / "b")
    with pytest.raises(Unavailable):
        second.read("b/1", 0, 1)
    assert content_of(second, "b/1") == b"shown"
    files.power_cut(lambda _: 0)
    assert content_of(DirectoryStore(files, ROOT), "b/1") == b"shown"


def is_taken(store, name):
    try:
        store.create(name, [b"another"])
    except Exists:
        return True
    return False


def test_after_a_failed_sync_of_names_the_write_is_unsure_and_the_directory_unused():
    files = MemoryFileSystem()
    store = DirectoryStore(files, ROOT)
    tag = store.create("b/1", [b"old"])

    def fail(operation, path):
        if (operation, path) == ("sync directory", ROOT / "b"):
            raise SyncError(errno.EIO, os.strerror(errno.EIO))

    files.before = fail
    with pytest.raises(Unsure):
        store.create("b/2", [b"x"])
    files.before = lambda _operation, _path: None
    with pytest.raises(Unavailable, match="cannot be used any more"):
        store.read("b/2", 0, 1)
    with pytest.raises(Unsure, match="cannot be used any more"):
        store.replace("b/1", [b"new"], tag)
    store.create("c/1", [b"elsewhere"])


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO, errno.EMFILE])
@pytest.mark.parametrize("call", ["create", "write", "sync", "link", "rename"])
def test_a_call_that_the_system_refuses_changes_nothing(number, call):
    files = MemoryFileSystem()
    store = DirectoryStore(files, ROOT)
    tag = store.create("a", [b"old"])

    def fail(operation, path):
        if operation == call:
            raise OSError(number, os.strerror(number))

    files.before = fail
    for ask in (lambda: store.create("b", [b"x"]), lambda: store.replace("a", [b"new"], tag)):
        try:
            ask()
        except Unavailable:
            continue
        assert call in {"link", "rename"}, "either call of the store does without one of them"
    files.before = lambda _operation, _path: None

    assert content_of(store, "a") == (b"new" if call == "link" else b"old")
    assert content_of(store, "b") == (b"x" if call == "rename" else None)
    assert [name for name in files.list_directory(store._own_directory) if name != LOCK] == []


PROCESS = """
import sys
from pathlib import Path
from pipeline_broker.files.file_system import ReadOnlyFileSystem, SystemFileSystem
from pipeline_broker.objects.directory_store import DirectoryStore
from pipeline_broker.objects.settled_store import SettledStore
from pipeline_broker.objects.store import Changed

def wait(seconds, error):
    pass

store = SettledStore(DirectoryStore(SystemFileSystem(), Path(sys.argv[1])), wait)
done = 0
while done < int(sys.argv[2]):
    part = store.read("counter", 0, 100)
    number = int(bytes(part.data).split()[0]) + 1
    try:
        store.replace("counter", [b"%d by %s" % (number, sys.argv[3].encode())], part.tag)
    except Changed:
        continue
    done += 1
"""


def test_processes_that_replace_an_object_lose_no_update(tmp_path):
    store = DirectoryStore(SystemFileSystem(), tmp_path / "store")
    store.create("counter", [b"0 by nobody"])
    arguments = [sys.executable, "-c", PROCESS, str(tmp_path / "store"), "20"]
    processes = [subprocess.Popen([*arguments, str(n)], cwd=Path(__file__).parents[2]) for n in range(3)]

    assert [process.wait(60) for process in processes] == [0, 0, 0]
    assert content_of(store, "counter").split()[0] == b"60"


def test_a_lock_that_is_held_for_too_long_is_an_obstacle():
    files = MemoryFileSystem()
    waits = []
    store = DirectoryStore(files, ROOT, waits.append)
    tag = store.create("a", [b"old"])
    held = files.lock(ROOT / LOCK)
    with pytest.raises(Unavailable, match="held the lock"):
        store.replace("a", [b"new"], tag)
    assert sum(waits) == pytest.approx(LOCK_WAIT_SECONDS_MAX, abs=0.1)
    store.replace("other/b", [b"new"], store.create("other/b", [b"old"]))  # which is not in that directory
    held.release()
    store.replace("a", [b"new"], tag)


def test_unfinished_files_of_a_killed_process_are_removed_and_those_of_a_live_one_stay():
    files = MemoryFileSystem()
    killed, living = DirectoryStore(files, ROOT), DirectoryStore(files, ROOT)
    for store in (killed, living):
        files.open(store._own_directory / "7", create=True)
    killed._own_directory_lock.release()

    DirectoryStore(files, ROOT)

    assert killed._own_directory.name not in files.list_directories(ROOT / WRITING)
    assert files.list_directory(living._own_directory) == ["7"]


def test_a_writing_directory_removed_before_it_is_locked_is_created_again(tmp_path):
    class Slow(SystemFileSystem):
        """Another process opens the store between the creation of the directory and its lock."""

        calls = 0

        def lock(self, path):
            self.calls += 1
            if self.calls == 1:
                DirectoryStore(SystemFileSystem(), tmp_path)
            return super().lock(path)

    store = DirectoryStore(Slow(), tmp_path)
    store.create("a", [b"x"])
    assert content_of(store, "a") == b"x"


def test_a_read_only_store_changes_nothing_and_needs_the_directory(tmp_path):
    files = SystemFileSystem()
    with pytest.raises(FileNotFoundError):
        DirectoryStore(ReadOnlyFileSystem(), tmp_path / "store", read_only=True)
    store = DirectoryStore(files, tmp_path / "store")
    store.create("a/1", [b"content"])
    before = sorted(tmp_path.rglob("*"))

    reader = DirectoryStore(ReadOnlyFileSystem(), tmp_path / "store", read_only=True)
    assert content_of(reader, "a/1") == b"content"
    assert [each.name for each in list_all(reader, "")] == ["a/1"]
    assert sorted(tmp_path.rglob("*")) == before


def test_a_replacement_by_another_process_is_durable_before_it_is_reported():
    files = MemoryFileSystem()
    first, second = DirectoryStore(files, ROOT), DirectoryStore(files, ROOT)
    tag = first.create("b/1", [b"before"])

    def cut(operation, path):
        if (operation, path) == ("sync directory", ROOT / "b"):
            raise PowerOff

    files.before = cut
    with pytest.raises(PowerOff):
        first.replace("b/1", [b"of the first"], tag)
    files.before = lambda _operation, _path: None
    with pytest.raises(Changed):
        second.replace("b/1", [b"of the second"], tag)
    files.power_cut(lambda _: 0)
    assert content_of(DirectoryStore(files, ROOT), "b/1") == b"of the first"


def test_no_process_replaces_an_object_between_the_check_of_another_one_and_its_rename():
    files = MemoryFileSystem()
    first, second = (DirectoryStore(files, ROOT, lambda seconds: None) for _ in range(2))
    tag = first.create("b/1", [b"before"])

    def interfere(operation, _path):
        if operation == "rename":
            files.before = lambda _operation, _path: None
            with pytest.raises(Unavailable):
                second.replace("b/1", [b"of the second"], tag)

    files.before = interfere
    first.replace("b/1", [b"of the first"], tag)
    assert content_of(second, "b/1") == b"of the first"
