"""Apart from what it forgets, the forgetful file system behaves as a file system."""

import errno
import fcntl
import mmap
import os
import subprocess
import sys

import pytest

from tests.tools.file_calls import errno_of, list_names, opened

pytestmark = pytest.mark.faults


def test_appends_go_to_the_end_wherever_that_is(mount):
    with (
        opened(mount.path / "a", os.O_WRONLY | os.O_CREAT | os.O_APPEND) as one,
        opened(mount.path / "a", os.O_WRONLY | os.O_APPEND) as other,
    ):
        for descriptor, data in ((one, b"one "), (other, b"two "), (one, b"three")):
            os.write(descriptor, data)
    assert (mount.path / "a").read_bytes() == b"one two three"


def test_vectors_are_read_and_written_whole(mount):
    parts = [bytes([number]) * 100_000 for number in range(10)]
    with opened(mount.path / "a", os.O_RDWR | os.O_CREAT) as descriptor:
        assert os.pwritev(descriptor, parts, 7) == 1_000_000
        read = [bytearray(100_000) for _ in parts]
        assert os.preadv(descriptor, read, 7) == 1_000_000
        assert errno_of(os.preadv, descriptor, read, 7, os.RWF_NOWAIT) == errno.EOPNOTSUPP
    assert read == parts


def test_space_is_reserved_by_writing_and_holds_zeros(mount):
    with opened(mount.path / "a", os.O_RDWR | os.O_CREAT) as descriptor:
        os.write(descriptor, b"data")
        os.posix_fallocate(descriptor, 0, 10_000)
        assert os.fstat(descriptor).st_size == 10_000
        assert os.pread(descriptor, 20_000, 0) == b"data" + bytes(9_996)


def test_a_shared_memory_map_is_refused_and_a_private_one_is_right(mount):
    (mount.path / "a").write_bytes(b"data")
    with opened(mount.path / "a") as descriptor:
        assert errno_of(mmap.mmap, descriptor, 4) == errno.ENODEV
        with mmap.mmap(descriptor, 4, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ) as mapped:
            assert mapped[:] == b"data"


LOCKING = "import fcntl, sys; fcntl.flock(open(sys.argv[1]), fcntl.LOCK_EX | fcntl.LOCK_NB)"


def test_a_lock_holds_between_processes_until_its_file_is_closed(mount):
    (mount.path / "a").touch()
    command = [sys.executable, "-c", LOCKING, mount.path / "a"]
    with opened(mount.path / "a") as descriptor:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        assert b"BlockingIOError" in subprocess.run(command, capture_output=True, check=False).stderr
    subprocess.run(command, check=True)


def test_a_file_outlives_its_name_while_it_is_open(mount):
    with opened(mount.path / "a", os.O_RDWR | os.O_CREAT) as descriptor:
        (mount.path / "a").unlink()
        assert list_names(mount.path) == []
        os.write(descriptor, b"data")
        os.fsync(descriptor)
        assert os.pread(descriptor, 4, 0) == b"data"


def test_wrong_names_are_refused(mount):
    (mount.path / "d" / "e").mkdir(parents=True)
    (mount.path / "a").touch()
    assert errno_of(os.stat, mount.path / "b") == errno.ENOENT
    assert errno_of(os.stat, mount.path / "a" / "b") == errno.ENOTDIR
    assert errno_of(os.mkdir, mount.path / "d") == errno.EEXIST
    assert errno_of(os.rmdir, mount.path / "d") == errno.ENOTEMPTY
    assert errno_of(os.open, mount.path / "a", os.O_CREAT | os.O_EXCL) == errno.EEXIST
    assert errno_of(os.unlink, mount.path / "d" / "e") == errno.EISDIR
    assert errno_of(os.symlink, "a", mount.path / "link") in {errno.EROFS, errno.ENOSYS}
