"""The file system on systems that lack some of Linux's calls, simulated by removing them."""

import fcntl
import os

import pytest

from pipeline_broker.files import file_system
from pipeline_broker.files.file_system import SystemFileSystem


@pytest.fixture
def without_linux(monkeypatch):
    for name in ("RWF_NOWAIT", "posix_fadvise", "fdatasync", "preadv", "pwritev", "O_DIRECTORY"):
        monkeypatch.delattr(os, name)


@pytest.mark.usefixtures("without_linux")
def test_a_file_is_written_synced_and_read_with_calls_of_every_posix_system(tmp_path, monkeypatch):
    synced = []
    monkeypatch.setattr(os, "fsync", synced.append)
    file = SystemFileSystem().open(tmp_path / "a", create=True)

    assert file.write([b"one", b"two"], 0) == 6
    file.sync_data()
    file.read_ahead(6, 0)

    assert len(synced) == 1
    SystemFileSystem().sync_directory(tmp_path)
    assert len(synced) == 2
    assert file.read(100, 0) == b"onetwo"
    assert file.read_cached(6, 0) is None, "unknown, so it is read in a thread"


def test_f_fullfsync_is_used_where_it_exists(tmp_path, monkeypatch):
    synced = []
    monkeypatch.setattr(fcntl, "F_FULLFSYNC", 51, raising=False)
    monkeypatch.setattr(fcntl, "fcntl", lambda _descriptor, call: synced.append(call))
    SystemFileSystem().open(tmp_path / "a", create=True).sync_data()
    SystemFileSystem().sync_directory(tmp_path)
    assert synced == [51, 51]


def test_a_system_without_locks_is_refused_before_anything_is_created(tmp_path, monkeypatch):
    monkeypatch.setattr(file_system, "fcntl", None)
    files = SystemFileSystem()

    with pytest.raises(OSError, match="on Linux and macOS only"):
        files.make_directory(tmp_path / "data")
    with pytest.raises(OSError, match="no locks"):
        files.lock(tmp_path / ".lock")

    assert list(tmp_path.iterdir()) == []
