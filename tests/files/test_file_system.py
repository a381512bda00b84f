"""The contract of file systems: the real one, with fault rules around it, and the ones in memory."""

import errno
import mmap
import os
import subprocess
import sys
from pathlib import Path

import pytest

from pipeline_broker.faults.faults import Faults
from pipeline_broker.faults.files import FaultyFiles
from pipeline_broker.files.errors import DirectoryLocked
from pipeline_broker.files.file_system import BLOCK_BYTES, PARTS_MAX, SystemFileSystem
from pipeline_broker.files.memory_files import MemoryFiles
from tests.files.memory_file_system import MemoryFileSystem


def faulty_files():
    """Return the real file system with rules about other files around it."""
    files = FaultyFiles(SystemFileSystem(), lambda: faults.clear())  # noqa: PLW0108 - made below
    faults = Faults(None, lambda: 0, lambda: None, files.disk)
    faults.disk_when("write", path="/elsewhere").crash()
    return files


@pytest.fixture(params=[SystemFileSystem, MemoryFileSystem, MemoryFiles, faulty_files])
def files(request):
    return request.param()


def test_written_data_is_read_back(files, tmp_path):
    file = files.open(tmp_path / "a", create=True)

    assert file.write([b"one", memoryview(b"two")], 3) == 6
    assert file.size_bytes() == 9
    assert file.read(100, 0) == b"\0\0\0onetwo"
    assert bytes(file.read_cached(2, 6)) == b"tw"
    assert files.open(tmp_path / "a").read(6, 3) == b"onetwo"


def test_a_read_beyond_the_end_is_never_from_the_cache(files, tmp_path):
    file = files.open(tmp_path / "a", create=True)
    file.write([b"one"], 0)

    assert file.read_cached(4, 0) is None


def test_as_many_parts_as_are_allowed_are_taken(files, tmp_path):
    file = files.open(tmp_path / "a", create=True)

    assert file.write([b"x"] * PARTS_MAX, 0) == PARTS_MAX


def test_truncation_cuts_and_later_writes_leave_zeros(files, tmp_path):
    file = files.open(tmp_path / "a", create=True)
    file.write([b"abcdef"], 0)
    file.truncate(2)
    file.write([b"z"], 4)
    file.sync_data()

    assert file.read(100, 0) == b"ab\0\0z"


def test_direct_and_buffered_writes_reach_the_same_file(files, tmp_path):
    """Readers see both kinds at once."""
    file = files.open(tmp_path / "a", create=True)
    memory = memoryview(mmap.mmap(-1, 3 * BLOCK_BYTES))
    memory[:] = bytes(range(256)) * (len(memory) // 256)
    file.write([b"cached"], 2 * BLOCK_BYTES)
    if file.write_blocks(memory[: 2 * BLOCK_BYTES], 0) is None:
        assert isinstance(files, MemoryFiles), "where there is a page cache, there is a way past it"
        return

    assert file.read(3 * BLOCK_BYTES, 0) == bytes(memory[: 2 * BLOCK_BYTES]) + b"cached"
    file.write([b"changed"], 10)
    assert file.write_blocks(memory[:BLOCK_BYTES], BLOCK_BYTES) == BLOCK_BYTES
    file.sync_data()
    assert file.read(BLOCK_BYTES, 0)[5:20] == bytes(memory[5:10]) + b"changed" + bytes(memory[17:20])
    assert file.read(BLOCK_BYTES, BLOCK_BYTES) == bytes(memory[:BLOCK_BYTES])


def test_names_are_created_changed_and_removed(files, tmp_path):
    directory = tmp_path / "deep" / "directory"
    files.make_directory(directory)
    files.make_directory(directory)
    file = files.open(directory / "a", create=True)
    file.write([b"content"], 0)
    with pytest.raises(FileExistsError):
        files.open(directory / "a", create=True)

    files.rename(directory / "a", directory / "b")
    files.sync_directory(directory)

    assert files.list_directory(directory) == ["b"]
    assert files.open(directory / "b").read(100, 0) == b"content"
    files.unlink(directory / "b")
    assert files.list_directory(directory) == []
    assert file.read(100, 0) == b"content", "an open file outlives its name"
    with pytest.raises(FileNotFoundError):
        files.open(directory / "b")


def test_a_replaced_file_stays_readable_while_it_is_open(files, tmp_path):
    for name in ("old", "new"):
        files.open(tmp_path / name, create=True).write([name.encode()], 0)
    opened = files.open(tmp_path / "old")

    files.rename(tmp_path / "new", tmp_path / "old")

    assert files.list_directory(tmp_path) == ["old"]
    assert files.open(tmp_path / "old").read(100, 0) == b"new"
    assert opened.read(100, 0) == b"old"


def test_a_linked_file_exists_until_its_last_name_is_removed(files, tmp_path):
    files.open(tmp_path / "first", create=True).write([b"content"], 0)

    files.link(tmp_path / "first", tmp_path / "second")
    with pytest.raises(FileExistsError):
        files.link(tmp_path / "first", tmp_path / "second")
    with pytest.raises(FileNotFoundError):
        files.link(tmp_path / "none", tmp_path / "third")

    files.open(tmp_path / "second").write([b"C"], 0)
    files.unlink(tmp_path / "first")
    assert files.open(tmp_path / "second").read(100, 0) == b"Content"
    assert files.list_directory(tmp_path) == ["second"]


def test_directories_are_distinguished_from_files_and_removed_if_empty(files, tmp_path):
    directory = tmp_path / "directory"
    files.make_directory(tmp_path)
    files.make_directory(directory)
    files.open(tmp_path / "file", create=True)
    files.open(directory / "a", create=True)

    assert set(files.list_directory(tmp_path)) == {"directory", "file"}
    assert files.list_directories(tmp_path) == ["directory"]
    with pytest.raises(OSError, match="not empty"):
        files.remove_directory(directory)
    files.unlink(directory / "a")
    assert files.list_directory(directory) == []
    files.remove_directory(directory)
    assert files.list_directory(tmp_path) == ["file"]
    for ask in (files.list_directory, files.list_directories, files.remove_directory):
        with pytest.raises(FileNotFoundError):
            ask(directory)


def test_reading_ahead_changes_nothing_wherever_it_points(files, tmp_path):
    file = files.open(tmp_path / "a", create=True)
    file.write([b"content"], 0)

    file.read_ahead(3, 2)
    file.read_ahead(1 << 20, 1 << 20)

    assert file.read(100, 0) == b"content"


def test_free_space_is_less_than_the_size_of_the_disk(files, tmp_path):
    files.make_directory(tmp_path)
    assert 0 < files.free_bytes(tmp_path) <= files.total_bytes(tmp_path)


def test_a_lock_is_exclusive_until_released(files, tmp_path):
    lock = files.lock(tmp_path / ".lock")
    with pytest.raises(DirectoryLocked, match="in use"):
        files.lock(tmp_path / ".lock")

    lock.release()
    lock.release()

    files.lock(tmp_path / ".lock").release()


HOLDER = """
import sys
from pathlib import Path
from pipeline_broker.files.file_system import SystemFileSystem
lock = SystemFileSystem().lock(Path(sys.argv[1]))
print("locked", flush=True)
sys.stdin.read()
"""


def test_a_lock_of_another_process_is_seen_and_ends_with_its_death(tmp_path):
    """Case 33."""
    path = tmp_path / ".lock"
    root = Path(__file__).parents[2]
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=root
    ) as holder:
        assert holder.stdout.readline() == b"locked\n"
        with pytest.raises(DirectoryLocked, match=f"in use by process {holder.pid}$"):
            SystemFileSystem().lock(path)
        holder.kill()
        holder.wait()
        assert path.exists(), "a killed process leaves its lock file"
        SystemFileSystem().lock(path).release()


@pytest.mark.faults
@pytest.mark.parametrize("made_before", ["", "a", "a/b", "a/b/c"])
def test_a_directory_that_was_made_survives_a_power_cut(mount_forgetful, tmp_path, made_before):
    """Also if an earlier process was killed between creating a directory and syncing its name. Case 14."""
    with mount_forgetful(tmp_path) as mount:
        directory = mount.path / "a" / "b" / "c"
        for name in made_before.split("/"):
            mount.ask("settle_all")
            (mount.path / made_before[: made_before.index(name)] / name).mkdir(exist_ok=True)
        SystemFileSystem().make_directory(directory)
        mount.cut_and_power_on(style="nothing")
        assert directory.is_dir()


class TestPowerCut:
    """Only the file system in memory can lose power."""

    def make(self):
        files = MemoryFileSystem()
        file = files.open(Path("/d/a"), create=True)
        files.sync_directory(Path("/d"))
        return files, file

    def content(self, files):
        return bytes(files.open(Path("/d/a")).read(1 << 20, 0))

    def test_unsynced_writes_may_be_lost(self):
        files, file = self.make()
        file.write([b"synced"], 0)
        file.sync_data()
        file.write([b"not synced"], 6)
        files.power_cut(lambda n: 0)
        assert self.content(files) == b"synced"

    def test_unsynced_writes_may_survive(self):
        files, file = self.make()
        file.write([b"not synced"], 0)
        files.power_cut(lambda n: 1)
        assert self.content(files) == b"not synced"

    def test_unsynced_writes_may_be_torn_at_sectors(self):
        files, file = self.make()
        file.write([b"x" * 2000], 100)
        throws = iter([2, 0, 1, 1])  # torn, 512 byte sectors, from the second one, one of them
        files.power_cut(lambda n: next(throws))
        assert bytes(512) + b"x" * 512 == self.content(files)

    def test_a_name_without_a_directory_sync_may_be_lost(self):
        files, _ = self.make()
        files.rename(Path("/d/a"), Path("/d/b"))
        files.power_cut(lambda n: 0)
        assert files.list_directory(Path("/d")) == ["a"]

    def test_a_sync_of_another_directory_does_not_keep_a_name(self):
        files, _ = self.make()
        files.rename(Path("/d/a"), Path("/d/b"))
        files.sync_directory(Path("/e"))
        files.power_cut(lambda n: 0)
        assert files.list_directory(Path("/d")) == ["a"]

    @pytest.mark.parametrize("parent_synced", [False, True])
    def test_a_directory_without_a_sync_of_its_parent_is_lost_with_all_that_is_in_it(self, parent_synced):
        files, _ = self.make()
        files.make_directory(Path("/d"))
        files.make_directory(Path("/d/e"))
        files.open(Path("/d/e/f"), create=True)
        files.sync_directory(Path("/d/e"))
        if parent_synced:
            files.sync_directory(Path("/d"))
        files.power_cut(lambda n: 0)
        if parent_synced:
            assert files.list_directory(Path("/d/e")) == ["f"]
        else:
            assert files.list_directory(Path("/d")) == ["a"]
            with pytest.raises(FileNotFoundError):
                files.open(Path("/d/e/f"))

    def test_after_a_failed_sync_a_later_one_proves_nothing(self):
        files, file = self.make()
        other = files.open(Path("/d/a"))
        file.write([b"lost"], 0)

        def fail(operation, path):
            if operation == "sync":
                raise OSError(5, "no")

        files.before, healthy = fail, files.before
        with pytest.raises(OSError):
            file.sync_data()
        files.before = healthy
        file.sync_data()
        with pytest.raises(OSError):
            other.sync_data()  # every open file gets the error once
        other.sync_data()
        assert self.content(files) == b"lost"
        files.power_cut(lambda n: 1)
        assert self.content(files) == b""


def test_a_lock_that_the_system_refuses_leaves_no_descriptor_behind(tmp_path, monkeypatch):
    def refuse(descriptor, operation):
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr("fcntl.flock", refuse)
    before = len(list(Path("/proc/self/fd").iterdir()))
    with pytest.raises(OSError, match=os.strerror(errno.ENOLCK)):
        SystemFileSystem().lock(tmp_path / ".lock")
    assert len(list(Path("/proc/self/fd").iterdir())) == before
