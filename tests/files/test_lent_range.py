"""Ranges of files that are lent to responses: every byte arrives once, whatever happens to the file."""

import os
import socket
import weakref
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline_broker.files.file_system import SystemFileSystem, write_all
from pipeline_broker.files.lent_range import PROBE_BYTES, SENT_BYTES_MAX, LentRange
from pipeline_broker.files.memory_files import MemoryFiles

CONTENT = os.urandom(3 * SENT_BYTES_MAX)
START, SIZE = 777, 2 * SENT_BYTES_MAX + 5
WANTED = CONTENT[START : START + SIZE]


class Uncached:
    """A file whose file system never reports bytes as present in the page cache."""

    def __init__(self, file):
        self.read, self.descriptor = file.read, file.descriptor

    def read_cached(self, size_bytes, position):
        return None


class PartlyCached(Uncached):
    """A file of which only the first bytes are in the page cache."""

    def __init__(self, file, end):
        super().__init__(file)
        self.read_cached = lambda size, position: file.read(size, position) if position < end else None


@pytest.fixture(params=["disk", "memory"])
def file(request, tmp_path):
    files = SystemFileSystem() if request.param == "disk" else MemoryFiles()
    directory = tmp_path if request.param == "disk" else Path("/data")
    files.make_directory(directory)
    opened = files.open(directory / "file", create=True)
    write_all(opened, [CONTENT], 0)
    return opened


def received(client):
    data = b""
    while True:
        try:
            data += client.recv(1 << 20)
        except BlockingIOError:
            return data


def sent(lent, before_each=lambda position: None):
    """Send the whole range through a socket, and return the bytes that arrive."""
    ours, theirs = socket.socketpair()
    found, position = b"", lent.position
    with ours, theirs:
        ours.setblocking(False)
        theirs.setblocking(False)
        while position < lent.position + lent.size_bytes:
            before_each(position)
            try:
                count = lent.send_to(ours.fileno(), position, lent.position + lent.size_bytes - position)
            except BlockingIOError:
                found += received(theirs)
                continue
            if not count:
                lent.load(position, lent.position + lent.size_bytes - position)
            position += count
        return found + received(theirs)


def test_all_bytes_of_a_range_arrive(file):
    assert sent(LentRange(file, START, SIZE)) == WANTED


def test_bytes_of_a_file_system_that_cannot_probe_are_sent_after_a_load(file):
    assert sent(LentRange(Uncached(file), START, SIZE)) == WANTED


def test_a_range_is_sent_up_to_the_first_bytes_that_are_not_in_memory(file):
    ours, theirs = socket.socketpair()
    with ours, theirs:
        lent = LentRange(PartlyCached(file, START + PROBE_BYTES // 2), START, SIZE)
        assert lent.send_to(ours.fileno(), START, SIZE) <= PROBE_BYTES
        assert lent.send_to(ours.fileno(), START + PROBE_BYTES, SIZE - PROBE_BYTES) == 0
        assert theirs.recv(1 << 20) == WANTED[:PROBE_BYTES]


@given(taken_back_at=st.integers(START, START + SIZE))
def test_bytes_that_are_taken_back_at_any_time_arrive_from_memory(taken_back_at):
    file = MemoryFiles().open(Path("/file"), create=True)
    write_all(file, [CONTENT], 0)
    lent = LentRange(file, START, SIZE)

    def take_back(position):
        if position >= taken_back_at:
            lent.take_back()
            file.truncate(0)  # nothing reads the file afterwards

    assert sent(lent, take_back) == WANTED


def test_a_range_that_is_taken_back_releases_its_file(tmp_path):
    files = SystemFileSystem()
    file = files.open(tmp_path / "file", create=True)
    write_all(file, [CONTENT], 0)
    descriptor = file.descriptor()
    lent = LentRange(file, START, SIZE)
    del file
    os.fstat(descriptor)  # open
    lent.take_back()
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(descriptor)
    assert lent.read(START + 5, 10) == WANTED[5:15]


def test_a_range_keeps_no_file_open_after_the_response(file):
    lent = LentRange(file, START, SIZE)
    gone = weakref.ref(lent)
    del lent
    assert gone() is None


def test_a_file_that_ends_within_its_range_breaks_the_connection_instead_of_waiting(file):
    for broken in (LentRange(file, START, SIZE), LentRange(Uncached(file), START, SIZE)):
        file.truncate(START + 10)
        with pytest.raises(OSError, match="ends before"):
            sent(broken)
        with pytest.raises(OSError, match="ends before"):
            broken.read(START, SIZE)
        broken.take_back()
        with pytest.raises(OSError, match="ends before"):
            sent(broken)


def test_a_file_that_cannot_be_read_breaks_the_connection_after_it_is_taken_back(file):
    def broken(size_bytes, position):
        raise OSError(5, "Input/output error")

    unreadable = Uncached(file)
    unreadable.read = broken
    lent = LentRange(unreadable, START, SIZE)
    lent.take_back()
    with pytest.raises(OSError, match="ends before"):
        sent(lent)
