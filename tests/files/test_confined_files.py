"""Pipes and devices with names of files are refused at once, and links do not lead out of a directory."""

import errno
import os
import socket

import pytest

from pipeline_broker.files.errors import UnfitFileError, reason_of, with_remedy
from pipeline_broker.files.file_system import ReadOnlyFileSystem, SystemFileSystem


@pytest.fixture
def place(tmp_path):
    (tmp_path / "inside/folder").mkdir(parents=True)
    (tmp_path / "outside").mkdir()
    (tmp_path / "inside/folder/file").write_bytes(b"ours")
    (tmp_path / "outside/file").write_bytes(b"theirs")
    return tmp_path


@pytest.fixture(params=[SystemFileSystem, ReadOnlyFileSystem])
def files(request, place):
    found = request.param()
    found.confine(place / "inside")
    return found


def fifo(path):
    os.mkfifo(path)


def unix_socket(path):
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind(os.path.relpath(path))


def device(path):
    path.symlink_to("/dev/zero")


def directory(path):
    path.mkdir()


@pytest.mark.parametrize("make", [fifo, unix_socket, device, directory])
def test_other_files_than_regular_ones_are_refused_without_waiting(place, files, monkeypatch, make):
    monkeypatch.chdir(place)
    path = place / "inside/strange"
    make(path)
    with pytest.raises(UnfitFileError) as refused:
        files.open(path)
    line = reason_of(refused.value, place / "inside")
    assert str(path) in line
    assert "move it out of the directory" in line
    assert "\n" not in line + with_remedy(refused.value)


def test_a_pipe_with_the_name_of_the_lock_is_refused(place):
    os.mkfifo(place / "inside/.lock")
    with pytest.raises(UnfitFileError):
        SystemFileSystem().lock(place / "inside/.lock")


def test_a_link_that_stays_inside_is_followed(place, files):
    (place / "inside/link").symlink_to("folder/file")
    (place / "inside/linked").symlink_to(place / "inside/folder")
    assert files.open(place / "inside/link").read(9, 0) == b"ours"
    assert files.open(place / "inside/linked/file").read(9, 0) == b"ours"
    assert files.list_directory(place / "inside/linked") == ["file"]


def test_the_directory_itself_may_be_a_link(place):
    (place / "link").symlink_to("inside")
    files = SystemFileSystem()
    files.confine(place / "link")
    assert files.open(place / "link/folder/file").read(9, 0) == b"ours"
    assert files.list_directories(place / "link") == ["folder"]
    files.open(place / "link/new", create=True)
    assert (place / "inside/new").exists()


@pytest.mark.parametrize("target", ["../outside/file", "/etc/passwd", "../outside/missing", "../insider"])
def test_a_link_that_leads_out_is_refused(place, files, target):
    (place / "insider").write_bytes(b"theirs")
    (place / "inside/link").symlink_to(target)
    with pytest.raises(UnfitFileError, match="leads out of"):
        files.open(place / "inside/link")


def test_a_folder_that_leads_out_is_neither_read_nor_written(place):
    (place / "inside/away").symlink_to(place / "outside")
    files = SystemFileSystem()
    files.confine(place / "inside")
    away = place / "inside/away"
    for use in (
        lambda: files.open(away / "file"),
        lambda: files.open(away / "new", create=True),
        lambda: files.lock(away / ".lock"),
        lambda: files.list_directory(away),
        lambda: files.list_directories(away),
        lambda: files.make_directory(away),
        lambda: files.make_directory(away / "deeper"),
    ):
        with pytest.raises(UnfitFileError, match="leads out of"):
            use()
    assert sorted(path.name for path in (place / "outside").iterdir()) == ["file"]


def test_a_loop_of_links_is_refused(place, files):
    (place / "inside/link").symlink_to("link")
    with pytest.raises(UnfitFileError, match="form a loop") as refused:
        files.open(place / "inside/link")
    assert refused.value.errno == errno.ELOOP


def test_holes_are_distinguished_from_data(place):
    files, path = SystemFileSystem(), place / "sparse"
    path.write_bytes(b"x")
    os.truncate(path, 1 << 30)
    file = files.open(path)
    assert file.data_from(0) == 0
    assert file.data_from(1 << 20) == 1 << 30
    assert file.data_from(2 << 30) == 2 << 30
