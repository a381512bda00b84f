"""Files named by settings must be regular and within their limit; everything else is refused unread."""

import os
import socket
import time
from pathlib import Path

import pytest

from pipeline_broker.files.bounded_file import read_bounded


def test_a_regular_file_is_read_up_to_its_bound(tmp_path):
    path = tmp_path / "f"
    path.write_bytes(b"x" * 10)
    data, status = read_bounded(path, 10)
    assert data == b"x" * 10
    assert status.st_ino == path.stat().st_ino
    path.write_bytes(b"x" * 11)
    with pytest.raises(OSError, match="it has 11 bytes, but at most 10 are allowed"):
        read_bounded(path, 10)


def test_a_link_to_a_regular_file_is_followed(tmp_path):
    (tmp_path / "f").write_bytes(b"data")
    (tmp_path / "link").symlink_to(tmp_path / "f")
    assert read_bounded(tmp_path / "link", 10)[0] == b"data"


def test_a_sparse_file_is_refused_before_it_is_read(tmp_path):
    path = tmp_path / "f"
    with path.open("wb") as file:
        file.truncate(1 << 40)
    began = time.perf_counter()
    with pytest.raises(OSError, match="bytes, but at most 1048576 are allowed"):
        read_bounded(path, 1 << 20)
    assert time.perf_counter() - began < 1


@pytest.mark.parametrize("path", ["/dev/ptmx", "/dev/zero", "/dev/null", "/proc"])
def test_a_device_and_a_directory_are_refused(path, tmp_path):
    link = tmp_path / "link"
    link.symlink_to(path)
    with pytest.raises(OSError, match="it is not a regular file"):
        read_bounded(link, 1 << 20)


def test_a_pipe_and_a_socket_are_refused_without_waiting(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with socket.socket(socket.AF_UNIX) as sock:
        sock.bind(str(tmp_path / "socket"))
        for name in ("pipe", "socket"):
            with pytest.raises(OSError, match="it is not a regular file"):
                read_bounded(tmp_path / name, 10)


def test_a_file_that_becomes_a_pipe_after_the_check_is_refused_without_waiting(tmp_path):
    class Swapped(type(tmp_path)):
        def stat(self):
            status = super().stat()
            self.unlink()
            os.mkfifo(self)
            return status

    path = Swapped(tmp_path / "f")
    path.write_bytes(b"x")
    with pytest.raises(OSError, match="it is not a regular file"):
        read_bounded(path, 10)


def test_a_file_of_the_kernel_has_no_bytes_of_its_own():
    assert read_bounded(Path("/proc/version"), 10)[0] == b""


def test_an_invalid_path_is_refused():
    with pytest.raises(OSError, match="NUL"):
        read_bounded(Path("a\0b"), 10)
